//! What we export, taken by collectors that others wrote, and by our own.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use fathom_ipfix::{
    Counters, Export, ExporterSettings, SenderSettings, TemplateSet, fields_without_element,
};
use fathom_lab::{Namespace, Process, obstacle, wait_until};
use fathom_record::{FlowKey, Nanoseconds, Protocol, Record, Time, Unit, record};
use fathom_tests::binary;
use netgauze_flow_pkt::ipfix::IpfixPacket;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput as _;
use nix::sys::signal::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);
const PORT: u16 = 4739;
/// The enterprise number of own elements in these tests.
const ENTERPRISE: u32 = 32_473;
/// Records of an export.
const RECORDS: u64 = 50;

record! {
    /// What a connection did: a field of every type there is.
    #[record = "profile"]
    #[derive(Debug, Clone)]
    pub struct Profile {
        /// When it ended, in milliseconds: nfdump knows no other flow times before version 1.7.9.
        #[field(ipfix = 153)]
        pub time: Time,
        /// When it began.
        #[field(ipfix = 152)]
        pub start_time: Time,
        /// Whose it was.
        pub flow: FlowKey,
        /// What it carried.
        #[field(ipfix = 1, unit = Unit::Bytes)]
        pub bytes_received: u64,
        /// In so many packets.
        #[field(ipfix = 2, unit = Unit::Packets)]
        pub packets_received: u64,
        /// The next hop.
        #[field(ipfix = 15)]
        pub next_hop: Option<std::net::IpAddr>,
        /// Where it went out.
        #[field(ipfix = 82)]
        pub interface: Option<&'static str>,
        /// The number of the connection.
        #[field(own_ipfix = 1)]
        pub connection: u64,
        /// The state at the start.
        #[field(own_ipfix = 2)]
        pub start_state: &'static str,
        /// The state at the end.
        #[field(own_ipfix = 3)]
        pub end_state: &'static str,
        /// The smoothed round-trip time.
        #[field(own_ipfix = 4)]
        pub srtt_ns: Option<Nanoseconds>,
        /// Its variance.
        #[field(own_ipfix = 5)]
        pub rtt_variance_us2: f64,
        /// Whether it was there before.
        #[field(own_ipfix = 6)]
        pub is_existing: bool,
        /// When it last stalled.
        #[field(own_ipfix = 7)]
        pub stalled_at: Option<Time>,
        /// The router it went by.
        #[field(own_ipfix = 8)]
        pub router: std::net::IpAddr,
        /// Not for collectors.
        pub secret: u64,
    }
}

record! {
    /// Numbers only.
    #[record = "numbers"]
    #[derive(Debug, Clone)]
    pub struct Numbers {
        /// When it ended.
        #[field(ipfix = 157)]
        pub time: Time,
        /// Whose they are.
        pub flow: FlowKey,
        /// The number of the connection.
        #[field(own_ipfix = 1)]
        pub connection: u64,
        /// The round-trip time.
        #[field(own_ipfix = 4)]
        pub srtt_ns: Option<Nanoseconds>,
        /// Its variance.
        #[field(own_ipfix = 5)]
        pub rtt_variance_us2: f64,
    }
}

/// The numbers of a profile.
fn numbers(number: u64) -> Numbers {
    let profile = profile(number);
    Numbers {
        time: profile.time,
        flow: profile.flow,
        connection: profile.connection,
        srtt_ns: profile.srtt_ns,
        rtt_variance_us2: profile.rtt_variance_us2,
    }
}

/// The record of this number: every third one of IPv6, every second one without some fields.
fn profile(number: u64) -> Profile {
    let is_ipv6 = number.is_multiple_of(3);
    let address = |host: u64| -> std::net::IpAddr {
        let text = if is_ipv6 {
            format!("fd77::{host:x}")
        } else {
            format!("10.77.0.{host}")
        };
        text.parse().unwrap()
    };
    let is_full = number.is_multiple_of(2);
    let time = now();
    Profile {
        time,
        start_time: Time(time.0 - 1_500_000_000),
        flow: FlowKey {
            protocol: Protocol::TCP,
            source: address(1 + number),
            source_port: 5_000 + number as u16,
            destination: address(200),
            destination_port: 443,
        },
        bytes_received: 1_000_000 + number,
        packets_received: 700 + number,
        next_hop: is_full.then(|| address(254)),
        interface: is_full.then_some("eth0"),
        connection: 0x8000_0000_0000_0000 + number,
        start_state: "NEW",
        end_state: "ESTABLISHED",
        srtt_ns: is_full.then_some(Nanoseconds(20_000_000 + number)),
        rtt_variance_us2: 0.5 + number as f64,
        is_existing: is_full,
        stalled_at: is_full.then_some(Time(1_795_176_000_123_456_789)),
        router: address(253),
        secret: 7,
    }
}

fn now() -> Time {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Time(u64::try_from(since_epoch.as_nanos()).unwrap())
}

/// A namespace with an IPv6 loopback too; `None` where it cannot be, or a program is missing.
fn namespace(programs: &[&str]) -> Option<Namespace> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing = programs.iter().find(|program| !is_installed(program));
    let why = match missing {
        Some(program) => Some(format!("{program} is not installed")),
        None => obstacle(),
    };
    if let Some(why) = why {
        println!("skipped: {why}");
        return None;
    }
    Some(Namespace::new("collector").unwrap())
}

/// Sends the records from within the namespace.
fn export(namespace: &Namespace, url: &str, templates: TemplateSet) -> Counters {
    export_all(namespace, url, templates, &profile)
}

fn export_all<R: Record>(
    namespace: &Namespace,
    url: &str,
    templates: TemplateSet,
    record: &(impl Fn(u64) -> R + Sync),
) -> Counters {
    let destination = url.parse().unwrap();
    let settings = ExporterSettings {
        enterprise: ENTERPRISE,
        ..ExporterSettings::new(templates)
    };
    let counters = namespace.enter(|| {
        let sender = SenderSettings::default();
        let mut export = Export::open(&destination, settings, &sender).unwrap();
        for number in 0..RECORDS {
            export.record(&record(number), now());
        }
        assert_eq!(export.records().records, RECORDS);
        assert_eq!(export.records().omitted_values, 0);
        export.close(PATIENCE)
    });
    let counters = counters.unwrap();
    assert_eq!((counters.dropped_records, counters.failures), (0, 0));
    counters
}

/// The messages of an export over UDP, as the kernel delivers them.
fn datagrams<R: Record>(
    namespace: &Namespace,
    templates: TemplateSet,
    record: &(impl Fn(u64) -> R + Sync),
) -> Vec<Vec<u8>> {
    let address = format!("127.0.0.1:{PORT}");
    let socket = namespace
        .enter(|| UdpSocket::bind(&address).unwrap())
        .unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("ipfix+udp://{address}");
    let sent = export_all(namespace, &url, templates, record);
    let mut buffer = vec![0; 1 << 16];
    let receive = |_| {
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    };
    (0..sent.messages).map(receive).collect()
}

/// Waits until something in the namespace listens at the port.
fn wait_for_port(namespace: &Namespace, transport: &str) {
    let listening = || {
        let sockets = namespace.run(&format!("ss -Hln --{transport}")).unwrap();
        sockets.contains(&format!(":{PORT} "))
    };
    wait_until(PATIENCE, "the collector", listening).unwrap();
}

/// Waits until the collector has read every datagram that the kernel has for it, and that none was lost for want of room.
fn wait_until_read(namespace: &Namespace) {
    let is_read = || {
        let sockets = namespace.run("ss -Hlun").unwrap();
        let of_port = sockets
            .lines()
            .filter(|line| line.contains(&format!(":{PORT} ")));
        of_port
            .map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
            .all(|waiting| waiting == "0")
    };
    wait_until(PATIENCE, "an empty queue", is_read).unwrap();
}

/// Ends a collector and gives what it has printed.
fn end(process: Process, signal: Signal) -> (String, String) {
    process.signal(signal).unwrap();
    let output = process.output(PATIENCE).unwrap();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn start(namespace: &Namespace, program: &str, arguments: &[&str]) -> Process {
    let mut command = namespace.command(program);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process::start(&mut command).unwrap()
}

/// Records what passes on the loopback while `work` runs, until `expected_bytes` of messages are in the file.
fn captured(namespace: &Namespace, file: &Path, work: impl FnOnce() -> usize) {
    let path = file.to_str().unwrap();
    let filter = format!("port {PORT}");
    let dumpcap = start(
        namespace,
        "dumpcap",
        &["-q", "-P", "-i", "lo", "-f", &filter, "-w", path],
    );
    let length = || std::fs::metadata(file).map_or(0, |file| file.len());
    wait_until(PATIENCE, "a capture file", || length() >= 24).unwrap();
    let bytes = work() as u64;
    wait_until(PATIENCE, "the packets in the file", || length() > bytes).unwrap();
    end(dumpcap, Signal::SIGINT);
}

/// What tshark says of the file, a line for each message, with the fields asked for.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    let path = file.to_str().unwrap();
    command.args(["-r", path, "-Y", filter, "-T", "fields"]);
    for transport in ["udp", "tcp"] {
        command.args(["-d", &format!("{transport}.port=={PORT},cflow")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// All values of a field in the file.
fn values(file: &Path, field: &str) -> Vec<String> {
    let lines = tshark(file, "cflow", &[field]);
    let values = lines.iter().flat_map(|line| line.split(','));
    values
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn tshark_has_nothing_to_complain_of() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for templates in [TemplateSet::Derived, TemplateSet::Flowcorder] {
        let file = directory.path().join(format!("{templates:?}.pcap"));
        captured(&namespace, &file, || {
            let datagrams = datagrams(&namespace, templates, &profile);
            datagrams.iter().map(|datagram| datagram.len() + 58).sum()
        });
        let complaints = "_ws.malformed || _ws.expert || _ws.short || cflow.no_template_found";
        let complaining = tshark(&file, complaints, &["frame.number", "_ws.expert.message"]);
        assert_eq!(complaining, Vec::<String>::new());

        let ports = values(&file, "cflow.srcport");
        let expected: Vec<_> = (0..RECORDS)
            .map(|number| (5_000 + number).to_string())
            .collect();
        assert_eq!(ports, expected);
        let addresses = [
            values(&file, "cflow.srcaddr").len(),
            values(&file, "cflow.srcaddrv6").len(),
        ];
        assert_eq!(addresses, [33, 17]);
    }
}

#[test]
fn tshark_reads_a_stream() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stream.pcap");
    captured(&namespace, &file, || {
        let bind = || TcpListener::bind(("::1", PORT)).unwrap();
        let listener = namespace.enter(bind).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
            });
            let url = format!("ipfix+tcp://[::1]:{PORT}");
            export(&namespace, &url, TemplateSet::Derived);
            usize::try_from(reader.join().unwrap()).unwrap()
        })
    });
    let complaints = "cflow && (_ws.malformed || _ws.expert || cflow.no_template_found)";
    let complaining = tshark(&file, complaints, &["frame.number", "_ws.expert.message"]);
    assert_eq!(complaining, Vec::<String>::new());
    assert_eq!(values(&file, "cflow.srcport").len() as u64, RECORDS);
}

#[test]
fn nfcapd_takes_the_elements_of_iana() {
    let Some(namespace) = namespace(&["nfcapd", "nfdump"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_str().unwrap();
    let port = PORT.to_string();
    let nfcapd = start(
        &namespace,
        "nfcapd",
        &["-b", "127.0.0.1", "-p", &port, "-w", folder, "-t", "3600"],
    );
    wait_for_port(&namespace, "udp");
    export(
        &namespace,
        &format!("ipfix+udp://127.0.0.1:{PORT}"),
        TemplateSet::Derived,
    );
    wait_until_read(&namespace);
    let (_, errors) = end(nfcapd, Signal::SIGTERM);

    let output = Command::new("nfdump")
        .args([
            "-R",
            folder,
            "-q",
            "-o",
            "fmt:%sa,%da,%sp,%dp,%pr,%byt,%pkt,%nh,%td",
            "-6",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<Vec<String>> = text
        .lines()
        .filter(|line| line.contains(','))
        .map(|line| line.split(',').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    lines.sort_by_key(|cells| cells[2].parse::<u64>().unwrap());
    assert_eq!(lines.len() as u64, RECORDS, "{text}{errors}");
    for (number, cells) in lines.iter().enumerate() {
        let profile = profile(number as u64);
        let flow = profile.flow;
        assert_eq!(cells[0], flow.source.to_string());
        assert_eq!(cells[1], flow.destination.to_string());
        assert_eq!(cells[2], flow.source_port.to_string());
        assert_eq!(cells[3], "443");
        assert_eq!(cells[4], "TCP");
        assert_eq!(cells[6], profile.packets_received.to_string());
        assert!(cells[8].ends_with("1.500"), "{}", cells[8]);
        if let Some(next_hop) = profile.next_hop {
            assert_eq!(cells[7], next_hop.to_string());
        }
    }
}

#[test]
fn nfacctd_prints_the_own_elements() {
    let Some(namespace) = namespace(&["nfacctd"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let primitives = directory.path().join("primitives");
    let elements = [("connection", 1), ("srtt_ns", 4)].map(|(name, element)| {
        format!("name={name} field_type={ENTERPRISE}:{element} len=8 semantics=u_int\n")
    });
    std::fs::write(&primitives, elements.concat()).unwrap();
    let printed = directory.path().join("printed.json");
    let configuration = directory.path().join("nfacctd.conf");
    // With small buffers it hands records to what prints them at once.
    let text = format!(
        "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {PORT}\nplugins: print\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto, connection, srtt_ns\n\
         aggregate_primitives: {}\nprint_output: json\nprint_refresh_time: 1\nprint_output_file: {}\n\
         print_output_file_append: true\nplugin_pipe_size: 1048576\nplugin_buffer_size: 512\n",
        primitives.display(),
        printed.display(),
    );
    std::fs::write(&configuration, text).unwrap();
    let arguments = ["-f", configuration.to_str().unwrap()];
    let nfacctd = start(&namespace, "nfacctd", &arguments);
    wait_for_port(&namespace, "udp");
    let lines = || {
        let text = std::fs::read_to_string(&printed).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect::<Vec<Value>>()
    };
    // It may keep what it got until more comes.
    let url = format!("ipfix+udp://127.0.0.1:{PORT}");
    let attempt = |_| {
        export(&namespace, &url, TemplateSet::Derived);
        let is_complete = || lines().len() as u64 >= RECORDS;
        wait_until(Duration::from_secs(2), "what nfacctd prints", is_complete)
    };
    let complete = (0..10).map(attempt).find(Result::is_ok);
    let (output, errors) = end(nfacctd, Signal::SIGINT);
    assert!(complete.is_some(), "{output}{errors}");

    let by_port: HashMap<u64, Value> = lines()
        .into_iter()
        .map(|line| (line["port_src"].as_u64().unwrap(), line))
        .collect();
    for number in 0..RECORDS {
        let profile = profile(number);
        let line = &by_port[&(5_000 + number)];
        let said = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(said("ip_src"), profile.flow.source.to_string());
        assert_eq!(said("connection"), profile.connection.to_string());
        let srtt_ns = profile.srtt_ns.map_or(0, |srtt| srtt.0);
        assert_eq!(said("srtt_ns"), srtt_ns.to_string());
    }
}

/// What netgauze makes of the messages, as JSON. It cannot read own elements of variable length, which it knows nothing about.
fn netgauze(datagrams: &[Vec<u8>]) -> String {
    let mut templates = HashMap::new();
    let packets = datagrams.iter().map(|datagram| {
        let mut reader = SliceReader::new(datagram);
        let packet = IpfixPacket::parse(&mut reader, &mut templates).unwrap();
        serde_json::to_string(&packet).unwrap()
    });
    packets.collect()
}

#[test]
fn netgauze_decodes_every_value() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let text = netgauze(&datagrams(&namespace, TemplateSet::Derived, &numbers));
    let own = |element: u16, value: [u8; 8]| {
        let value = serde_json::to_string(&value).unwrap();
        format!(r#""Unknown":{{"pen":{ENTERPRISE},"id":{element},"value":{value}}}"#)
    };
    for number in 0..RECORDS {
        let numbers = numbers(number);
        let flow = numbers.flow;
        for expected in [
            format!(r#""sourceTransportPort":{}"#, flow.source_port),
            format!(r#"Address":"{}""#, flow.source),
            own(1, numbers.connection.to_be_bytes()),
            own(5, numbers.rtt_variance_us2.to_be_bytes()),
        ] {
            assert!(text.contains(&expected), "{expected} in {text}");
        }
        if let Some(srtt) = numbers.srtt_ns {
            assert!(text.contains(&own(4, srtt.0.to_be_bytes())));
        }
    }
    assert!(text.contains(r#""informationElementName":"rtt_variance_us2""#));

    let text = netgauze(&datagrams(&namespace, TemplateSet::Flowcorder, &profile));
    for number in 0..RECORDS {
        let profile = profile(number);
        let expected = format!(r#""sourceTransportPort":{}"#, profile.flow.source_port);
        assert!(text.contains(&expected), "{expected} in {text}");
    }
}

#[test]
fn fathom_prints_what_it_sent() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let address = format!("127.0.0.1:{PORT}");
    let listen = format!("udp:{address},tcp:{address}");
    let directory = tempfile::tempdir().unwrap();
    let printed = directory.path().join("printed.json");
    let mut command = namespace.command(binary().unwrap().to_str().unwrap());
    command
        .args(["ipfix", "dump", "--format", "json", "--listen", &listen])
        // More than a pipe holds.
        .stdout(std::fs::File::create(&printed).unwrap())
        .stderr(Stdio::piped());
    let dump = Process::start(&mut command).unwrap();
    for transport in ["udp", "tcp"] {
        wait_for_port(&namespace, transport);
        let url = format!("ipfix+{transport}://{address}");
        export(&namespace, &url, TemplateSet::Derived);
    }
    wait_until_read(&namespace);
    let is_over = |state: &str| {
        let connections = namespace.run(&format!("ss -Htn state {state}"));
        !connections.unwrap().contains(&format!(":{PORT}"))
    };
    wait_until(PATIENCE, "the end of the connection", || {
        is_over("established") && is_over("close-wait")
    })
    .unwrap();
    let (_, errors) = end(dump, Signal::SIGINT);
    let output = std::fs::read_to_string(&printed).unwrap();
    let records: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len() as u64, 2 * RECORDS, "{errors}");
    assert!(
        errors.contains("with 100 records and 16 about the exporters"),
        "{errors}"
    );
    assert!(
        errors.contains(" 0 records lost, 0 sets without their template, 0 messages malformed"),
        "{errors}"
    );
    assert_eq!(fields_without_element(Profile::SCHEMA), ["secret"]);
    for (index, record) in records.iter().enumerate() {
        let profile = profile(index as u64 % RECORDS);
        assert_eq!(record["connection"], profile.connection);
        assert_eq!(record["end_state"], "ESTABLISHED");
        assert_eq!(record["rtt_variance_us2"], profile.rtt_variance_us2);
        assert_eq!(record["is_existing"], profile.is_existing);
        let srtt_ns = profile.srtt_ns.map(|srtt| srtt.0);
        assert_eq!(record.get("srtt_ns").and_then(Value::as_u64), srtt_ns);
        let stalled_at = profile.stalled_at.map(|_| "2026-11-20T12:00:00.123456789Z");
        assert_eq!(record.get("stalled_at").and_then(Value::as_str), stalled_at);
        let router = match profile.router {
            std::net::IpAddr::V4(router) => router.to_ipv6_mapped(),
            std::net::IpAddr::V6(router) => router,
        };
        assert_eq!(record["router"], router.to_string());
    }
}
