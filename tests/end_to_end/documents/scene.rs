//! A host as documents have one, between networks whose traffic passes it, with the files that
//! commands name.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fathom_ipfix::wire::{FieldSpecifier, MessageWriter, Template};
use fathom_lab::traffic::tools;
use fathom_lab::{Chain, Link, LinkConfig, LinkEnd, Namespace, Process, Worker, wait_until};
use fathom_tests::{binary, cache, capture_of_requests, certificates, clickhouse, repository};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// Debug builds beside others on two processors.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Shared directories are the scene's own: what commands keep, and what they are told.
const MOUNTS: &str = "mount --bind \"$1/etc\" /etc \
    && mount --bind \"$1/lib\" /var/lib && mount --bind \"$1/run\" /run \
    && mount -t bpf bpf /sys/fs/bpf && touch \"$1/mounted\" && exec sleep infinity";

/// What a reader's shell has besides: `sudo`, and the command-line program of DuckDB, of which
/// `make setup` installs the library.
const SHELL: &str = "cd \"$WORK\"; sudo() { \"$@\"; }\n\
    duckdb() { \"$PYTHON\" -c 'import duckdb, sys; print(duckdb.sql(sys.argv[2]))' \"$@\"; }\n\
    eval \"$1\"";

const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// The chain's.
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd78, 3, 0, 0, 0, 0, 0, 2);
const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 1);

/// The host, what is around it, and what it has on its disk.
pub(crate) struct Scene {
    /// Programs, before the network that they use.
    programs: Vec<Process>,
    holder: Process,
    folder: TempDir,
    host: Namespace,
    _exporter: Worker<()>,
    _network: (Chain, Namespace, Vec<Link>),
}

impl Scene {
    /// Makes it, and has an agent measure the traffic for a while.
    pub(crate) fn build() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (chain, around, links) = network()?;
        let host = chain.client.clone();
        files(folder.path())?;
        let mut command = host.command("unshare");
        command.args(["--mount", "bash", "-c", MOUNTS, "bash"]);
        let holder = Process::start(command.arg(folder.path()))?;
        wait_until(PATIENCE, "the directories of the scene", || {
            folder.path().join("mounted").exists()
        })?;
        let mut programs = servers(folder.path(), &chain, &around)?;
        programs.extend(clients(&chain, &around)?);
        let exporter = exporter(&host)?;
        let mut scene = Self {
            programs,
            holder,
            folder,
            host,
            _exporter: exporter,
            _network: (chain, around, links),
        };
        let clickhouse = scene.start("clickhouse-server --config-file=../clickhouse/config.xml")?;
        let collector = scene.start(
            "fathom ipfix dump --listen 'tls:127.0.0.1:4740?cert=collector.pem&key=collector.key' > ../dump",
        )?;
        scene.programs.extend([clickhouse, collector]);
        scene.fill()?;
        Ok(scene)
    }

    /// A command of a shell on the host.
    pub(crate) fn command(&self, text: &str) -> Command {
        let mut command = self.host.command("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command.args(["--", "bash", "-c", SHELL, "bash", text]);
        command
            .env("PATH", programs())
            .env("WORK", self.work())
            .env("PYTHON", cache().join("python/bin/python"))
            .env("CURL_CA_BUNDLE", self.work().join("ca.pem"))
            .env_remove("SSL_CERT_FILE");
        command
    }

    /// Where commands run.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// What the collector has printed whom `fathom profile --export` tells.
    pub(crate) fn dump(&self) -> PathBuf {
        self.folder.path().join("dump")
    }

    /// Joins the same network and directories from a terminal.
    pub(crate) fn in_terminal(&self, text: &str) -> String {
        let id = self.holder.id();
        let quoted = text.replace('\'', "'\\''");
        let (programs, work) = (programs(), self.work());
        format!(
            "exec nsenter --net=/proc/{id}/ns/net --mount=/proc/{id}/ns/mnt -- env PATH='{programs}' \
             bash -c 'cd {}; eval \"$1\"; echo ended with $?; exec cat' bash '{quoted}'",
            work.display()
        )
    }

    fn start(&self, text: &str) -> Result<Process> {
        let mut command = self.command(text);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process::start(&mut command)?)
    }

    /// Runs a command to its end, which leaves nothing running.
    pub(crate) fn run(&self, text: &str) -> Result<Output> {
        let mut command = self.command(text);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Process::start(&mut command)?.output(PATIENCE)?;
        ensure!(output.status.success(), "{text}: {output:?}");
        Ok(output)
    }

    /// Fills the store of an agent, and the files of records.
    fn fill(&self) -> Result<()> {
        let agent = self.start("fathom agent --config /etc/fathom/fathom.toml")?;
        self.run("fathom import capture.pcap --store study")?;
        let kinds = ["rtt -i eth0", "response -i eth0", "profile", "hops -i eth0"];
        let running = kinds.map(|measure| {
            let name = measure.split(' ').next().unwrap_or_default();
            self.start(&format!(
                "fathom {measure} --format json --duration 3s > {name}.json"
            ))
        });
        for process in running {
            let status = process?.wait_with_deadline(PATIENCE)?;
            ensure!(status.success(), "records of kinds: {status}");
        }
        let balance = "{\"kind\":\"balance\",\"server\":\"web1\",\"share\":1}\n";
        fs::write(self.work().join("balance.json"), balance)?;
        let kinds = ["servers", "hops", "connections", "dns"];
        let counts = kinds.map(|kind| format!("(SELECT count(*) FROM {kind}) AS {kind}"));
        let ask = format!("fathom query --format csv 'SELECT {}'", counts.join(", "));
        let mut told = String::new();
        wait_until(PATIENCE, "records of all kinds", || {
            let answer = self.run(&ask).map(|it| it.stdout);
            told = answer.map_or_else(
                |error| error.to_string(),
                |it| String::from_utf8_lossy(&it).into_owned(),
            );
            let mut counts = told.lines().nth(1).unwrap_or_default().split(',');
            counts.all(|count| count.parse::<u32>().is_ok_and(|count| count > 3))
        })
        .with_context(|| told.clone())?;
        // With what its shell has started, as a terminal does it.
        agent.signal_group(Signal::SIGINT)?;
        let ended = agent.output(PATIENCE)?;
        ensure!(ended.status.success(), "the agent: {ended:?}");
        Ok(())
    }
}

/// Where a shell finds fathom, and all else.
fn programs() -> String {
    let binary = binary().unwrap_or_default();
    let own = binary.parent().unwrap_or(Path::new("/")).display();
    format!("{own}:{}", std::env::var("PATH").unwrap_or_default())
}

/// Three routers' worth of network behind `eth0`, and neighbours behind the other interfaces.
fn network() -> Result<(Chain, Namespace, Vec<Link>)> {
    let delay = |ms| LinkConfig::symmetric(Duration::from_millis(ms));
    let chain = Chain::builder(2).link(2, delay(5)).build()?;
    let host = &chain.client;
    host.run("ip address add 192.0.2.1/32 dev lo")?;
    chain
        .server
        .run(&format!("ip address add {SERVER}/32 dev lo"))?;
    let towards_host = [&chain.routers[0], &chain.routers[1], &chain.server];
    for (number, namespace) in towards_host.into_iter().enumerate() {
        namespace.add_route("192.0.2.0/24", &format!("10.78.{}.1", number + 1))?;
    }
    let around = Namespace::new("around")?;
    let ends = [
        ("eth1", "10.90.0.2/24", "10.90.0.1/24"),
        ("wan0", "10.77.1.1/24", "10.77.1.254/24"),
        ("ppp0", "10.1.7.254/24", "10.1.7.1/24"),
        ("link2", "10.93.0.1/24", "10.93.0.2/24"),
    ];
    let mut links = Vec::new();
    for (interface, near, far) in ends {
        let [host_end, far_end] = [host, &around].map(|it| LinkEnd::new(it, interface));
        links.push(Link::start(host_end, far_end, delay(3))?);
        host.add_address(interface, near)?;
        around.add_address(interface, far)?;
    }
    around.run("ip address add 10.77.2.1/32 dev lo")?;
    host.add_route("10.77.2.0/24", "10.77.1.254")?;
    around.add_route("192.0.2.0/24", "10.1.7.254")?;
    // For the balancer, and as one of `veth*`.
    host.connect("veth1", &around, "veth1")?;
    host.add_address("veth1", "10.92.0.1/24")?;
    around.add_address("veth1", "10.92.0.2/24")?;
    Ok((chain, around, links))
}

/// Everything that commands read.
fn files(folder: &Path) -> Result<()> {
    for name in ["lib", "run", "work", "nginx"] {
        fs::create_dir(folder.join(name))?;
    }
    let copied = Command::new("cp")
        .args(["-a", "/etc"])
        .arg(folder)
        .status()?;
    ensure!(copied.success(), "copy /etc: {copied}");
    let hosts = format!(
        "127.0.0.1 localhost collector collector.example clickhouse.example\n{SERVER} example.org\n"
    );
    fs::write(folder.join("etc/hosts"), hosts)?;
    fs::remove_file(folder.join("etc/resolv.conf")).ok();
    fs::write(
        folder.join("etc/resolv.conf"),
        format!("nameserver {RESOLVER}\n"),
    )?;
    fs::create_dir_all(folder.join("etc/fathom"))?;
    let agent = "[agent]\nmeasure = [\"rtt\", \"response\", \"traffic\", \"profile\", \"hops\"]\n\
        interface = [\"any\"]\ninterval = \"1s\"\n";
    fs::write(folder.join("etc/fathom/fathom.toml"), agent)?;

    let work = folder.join("work");
    certificates(&work, "ca.pem", &["collector", "host", "cert"])?;
    fs::copy(work.join("cert.key"), work.join("key.pem"))?;
    let examples = repository().join("packaging/examples");
    let sample = fs::read(examples.join("sample.pcapng"))?;
    fs::write(work.join("sample.pcapng"), &sample)?;
    fs::write(
        work.join("capture.pcapng.zst"),
        zstd::encode_all(&sample[..], 0)?,
    )?;
    for name in ["capture", "both-ways", "client", "window"] {
        capture_of_requests(&work.join(name).with_extension("pcap"))?;
    }
    fs::copy(
        Path::new(env!("OUT_DIR")).join("mark.bpf.o"),
        work.join("mark.bpf.o"),
    )?;
    fs::write(
        work.join("lb.toml"),
        "interfaces = [\"veth1\"]\n[health]\nway = \"address\"\n\
         [[service]]\nname = \"web\"\naddress = \"198.51.100.10\"\nport = 8080\n\
         [[server]]\nname = \"web1\"\naddress = \"10.92.0.2\"\n",
    )?;
    fs::write(
        work.join("networks.csv"),
        "prefix,name\n10.1.0.0/16,Berlin\n10.1.7.0/24,\"Berlin, lab\"\n",
    )?;
    systems(&work.join("GeoLite2-ASN.mmdb"))?;
    fs::copy(work.join("GeoLite2-ASN.mmdb"), work.join("systems.mmdb"))?;
    clickhouse(&folder.join("clickhouse"), (8123, 9000), "")?;
    Ok(())
}

/// Numbers of autonomous systems.
fn systems(path: &Path) -> Result<()> {
    let mut database = Database::default();
    database.metadata.binary_format_major_version = 2;
    "documents".clone_into(&mut database.metadata.database_type);
    database.metadata.ip_version = IpVersion::V6;
    // Those of IPv4 are below ::/96.
    let networks = [
        (
            Ipv4Addr::new(10, 77, 0, 0).to_ipv6_compatible(),
            96 + 16,
            64_500_u32,
        ),
        (SERVER.to_ipv6_compatible(), 96 + 32, 64_501),
        (SERVER_V6, 48, 64_501),
    ];
    for (network, bits, number) in networks {
        let system = BTreeMap::from([("autonomous_system_number", number)]);
        let system = database.insert_value(system)?;
        database.insert_node(IpAddrWithMask::new(network.into(), bits), system);
    }
    database.write_to(fs::File::create(path)?)?;
    Ok(())
}

/// nginx at these addresses, those of port 443 with TLS; other servers of the same names.
fn nginx(folder: &Path, namespace: &Namespace, addresses: &[&str]) -> Result<Process> {
    let (name, work) = (namespace.name(), folder.join("work"));
    let work = work.display();
    let listeners = addresses.iter().map(|address| {
        let tls = if address.ends_with(":443") { "ssl" } else { "" };
        format!("listen {address} {tls};")
    });
    let listeners: Vec<_> = listeners.collect();
    let file = folder.join("nginx").join(name);
    let own = file.display();
    let configuration = format!(
        "daemon off; pid {own}.pid; error_log {own}.log; worker_processes 1; events {{}}\n\
         http {{ access_log off; keepalive_requests 100000; server {{ {}\n\
         ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/cert.key;\n\
         location / {{ return 200 'fathom'; }}\n\
         location /file {{ root {}; limit_rate 300k; }} }} }}",
        listeners.join(" "),
        folder.display()
    );
    fs::write(&file, configuration)?;
    let mut command = namespace.command("nginx");
    command.arg("-c").arg(&file).stderr(Stdio::null());
    let port = addresses[0].rsplit(':').next().unwrap_or_default();
    Ok(tools::start_server(
        namespace,
        command,
        &format!("tcp sport = :{port}"),
    )?)
}

fn servers(folder: &Path, chain: &Chain, around: &Namespace) -> Result<Vec<Process>> {
    fs::write(folder.join("file"), vec![7; 1 << 20])?;
    let (host, server) = (&chain.client, &chain.server);
    let resolver = SocketAddr::from((IpAddr::V4(RESOLVER), 53));
    Ok(vec![
        nginx(folder, host, &["192.0.2.1:443"])?,
        nginx(folder, server, &["203.0.113.2:443", "[fd78:3::2]:443"])?,
        nginx(
            folder,
            around,
            &["10.77.2.1:8080", "10.90.0.1:8080", "10.92.0.2:8080"],
        )?,
        tools::iperf3_server(server, 5201)?,
        tools::dnsmasq(around, resolver, [])?,
    ])
}

/// What a router of others would send: a flow each second.
fn exporter(host: &Namespace) -> Result<Worker<()>> {
    let address = |element| FieldSpecifier {
        enterprise: None,
        element,
        length: 4,
    };
    let mut writer = MessageWriter::new(5, 1232);
    writer.template(&Template {
        id: 300,
        scope_fields: 0,
        fields: vec![address(8), address(12)],
    });
    writer.record(300, &[198, 51, 100, 7, 203, 0, 113, 9]);
    let mut message = writer.finish().context("a message has a record")?;
    let socket = host.enter(|| UdpSocket::bind("127.0.0.1:0"))??;
    Ok(Worker::start("exporter", move |stop| {
        for second in 0.. {
            if stop.is_set() {
                break;
            }
            message.stamp(1_764_000_000 + second, second);
            // Nobody may listen yet.
            let _ = socket.send_to(&message.bytes, "127.0.0.1:4739");
            stop.sleep_until(Instant::now() + Duration::from_secs(1));
        }
    })?)
}

/// Requests at a rate on one connection, connections of one request, questions, and a transfer;
/// all until the scene ends.
fn clients(chain: &Chain, around: &Namespace) -> Result<Vec<Process>> {
    let (host, server) = (&chain.client, &chain.server);
    let requests = "curl -sk --rate 20/s -o /dev/null";
    let again =
        |url: &str| format!("while curl -sk -o /dev/null '{url}?[1-20]'; do sleep 0.2; done");
    let loops = [
        (host, format!("{requests} 'https://203.0.113.2/?[1-99999]'")),
        (server, format!("{requests} 'https://192.0.2.1/?[1-99999]'")),
        (around, format!("{requests} 'https://192.0.2.1/?[1-99999]'")),
        (
            host,
            format!("{requests} 'http://10.90.0.1:8080/?[1-99999]'"),
        ),
        (host, again("http://10.77.2.1:8080/")),
        (host, again("https://203.0.113.2/")),
        (host, again("https://[fd78:3::2]/")),
        (
            host,
            format!("while dig @{RESOLVER} example.org +short; do sleep 0.2; done"),
        ),
        (host, format!("iperf3 -c {SERVER} -t 3600 -b 4M")),
    ];
    let processes = loops.iter().map(|(namespace, text)| {
        let mut command = namespace.command("bash");
        command.args(["-c", text]).stdout(Stdio::null());
        Process::start(command.stderr(Stdio::null())).context("start a client")
    });
    processes.collect()
}
