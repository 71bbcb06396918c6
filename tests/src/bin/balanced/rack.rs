//! Client, balancer and servers on one switch, and what clients wait.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fathom_lab::traffic::farm::{Arrivals, Outcome, Pace, Server};
use fathom_lab::{Process, Stop, Switch, Worker, wait_until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// What clients ask.
const SERVICE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, 0, 1)), 80);
pub(crate) const SERVERS: usize = 4;
/// Requests that a server works on at a time.
pub(crate) const WORKERS: usize = 4;
/// How long a request takes a server that is not slow, on average.
pub(crate) const MEAN: Duration = Duration::from_millis(16);
const PATIENCE: Duration = Duration::from_secs(30);
const BALANCER: usize = 1;
const FIRST_SERVER: usize = 2;

/// What happens in a run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// For each server.
    pub(crate) slowdowns: Vec<Vec<(Duration, f64)>>,
    pub(crate) arrivals: Arrivals,
    pub(crate) seed: u64,
}

/// What came of it.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// After each tenth of a second, how many requests each server has taken.
    pub(crate) taken: Vec<[u64; SERVERS]>,
}

impl Scenario {
    /// Runs it with this policy, and everything made anew.
    pub(crate) fn run(&self, policy: &str) -> Result<Run> {
        let names = [
            "client", "balancer", "server0", "server1", "server2", "server3",
        ];
        let switch = Switch::new(&names)?;
        let address = match SERVICE.ip() {
            std::net::IpAddr::V4(address) => address,
            std::net::IpAddr::V6(_) => anyhow::bail!("the switch speaks IPv4"),
        };
        for server in 0..SERVERS {
            switch.adopt(FIRST_SERVER + server, address)?;
        }
        let gateway = Switch::address(BALANCER).to_string();
        switch.hosts[0].add_route(&address.to_string(), &gateway)?;
        let balancer = Balancer::start(&switch, policy)?;
        let servers = (0..SERVERS).map(|server| {
            let pace = Pace {
                workers: WORKERS,
                mean: MEAN,
                slowdowns: self.slowdowns[server].clone(),
                seed: self.seed * 1000 + server as u64,
            };
            anyhow::Ok(Server::start(
                &switch.hosts[FIRST_SERVER + server],
                SERVICE,
                pace,
            )?)
        });
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let watch = Worker::start("watch", move |stop| watch(&servers, stop))?;
        let outcome = self.arrivals.run(&switch.hosts[0], SERVICE)?;
        let taken = watch.finish();
        balancer.finish()?;
        Ok(Run { outcome, taken })
    }
}

fn watch(servers: &[Server], stop: &Stop) -> Vec<[u64; SERVERS]> {
    let (mut taken, mut next) = (Vec::new(), Instant::now());
    while !stop.is_set() {
        next += Duration::from_millis(100);
        stop.sleep_until(next);
        taken.push(std::array::from_fn(|server| servers[server].taken()));
    }
    taken
}

/// `fathom balance`, in a mount namespace of its own: what it pins there goes with it.
struct Balancer {
    process: Process,
    folder: TempDir,
}

impl Balancer {
    fn start(switch: &Switch, policy: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        fs::create_dir(path.join("pins"))?;
        fs::write(path.join("lb.toml"), configuration(path, policy))?;
        let host = &switch.hosts[BALANCER];
        let script = "mount -t bpf bpf \"$1/pins\" && exec \"$2\" balance --config \"$1/lb.toml\" --format json --output \"$1/records\"";
        let mut command = host.command("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]);
        command.arg(path).arg(fathom_tests::binary()?);
        command.stdout(Stdio::null());
        command.stderr(fs::File::create(path.join("errors"))?);
        let process = Process::start(&mut command)?;
        let started = Self { process, folder };
        let look = format!("ip -details link show {}", Switch::INTERFACE);
        wait_until(PATIENCE, "the balancer's program", || {
            host.run(&look).is_ok_and(|text| text.contains("prog/xdp"))
        })
        .with_context(|| started.errors())?;
        Ok(started)
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    fn finish(mut self) -> Result<()> {
        self.process.signal(Signal::SIGTERM)?;
        let status = self.process.wait_with_deadline(PATIENCE)?;
        ensure!(
            status.success(),
            "fathom balance: {status}: {}",
            self.errors()
        );
        if let Some(path) = std::env::var_os("BALANCED_RECORDS") {
            fs::copy(self.folder.path().join("records"), path)?;
        }
        Ok(())
    }
}

fn configuration(folder: &Path, policy: &str) -> String {
    let path = folder.display();
    // Lines to try other settings by: of the beginning, and of [control].
    let [first, control] =
        ["BALANCED_FIRST", "BALANCED_CONTROL"].map(|name| std::env::var(name).unwrap_or_default());
    let mut text = format!(
        "interfaces = [\"{}\"]\nxdp = \"generic\"\npins = \"{path}/pins/fathom\"\nsocket = \"{path}/socket\"\n\
         {first}\n[health]\ncheck = \"none\"\n[control]\npolicy = \"{policy}\"\n{control}\n\
         [[service]]\nname = \"farm\"\naddress = \"{}\"\nport = {}\n",
        Switch::INTERFACE,
        SERVICE.ip(),
        SERVICE.port()
    );
    for server in 0..SERVERS {
        let address = Switch::address(FIRST_SERVER + server);
        let _ = write!(
            text,
            "[[server]]\nname = \"server{server}\"\naddress = \"{address}\"\nencapsulation = \"layer2\"\n"
        );
    }
    text
}
