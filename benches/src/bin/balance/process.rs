//! What the balancer's process takes of a processor: with nothing to do, and while its program has
//! packets as fast as they can be handed to it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use fathom_lab::summary::Row;
use fathom_lab::{Namespace, Process, wait_until};
use libbpf_rs::libbpf_sys;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::frame::Packet;

const SERVERS: u32 = 4;
/// Of the clients, each with its own address.
const CONNECTIONS: u32 = 65_536;
const IDLE_MOST: f64 = 0.005;
const LOADED_MOST: f64 = 0.05;
const PATIENCE: Duration = Duration::from_secs(20);
/// What it takes until as many connections are measured as the load allows is part of a load that
/// lasts.
const SERVICE: &str = "10.77.9.1:80";
const DATA_BYTES: u16 = 24;

/// The rows of the summary, of runs of this length.
pub(crate) fn rows(fathom: &Path, length: Duration) -> anyhow::Result<Vec<Row>> {
    let balancer = Running::start(fathom)?;
    std::thread::sleep(Duration::from_secs(2));
    let idle = balancer.share_during(|| {
        std::thread::sleep(length);
        Ok(())
    })?;
    let mut load = Load::of(&balancer)?;
    // The handshakes.
    load.round(0)?;
    let begin = Instant::now();
    let mut rounds = 0;
    let busy = balancer.share_during(|| {
        while begin.elapsed() < length {
            rounds += 1;
            load.round(rounds)?;
        }
        Ok(())
    })?;
    let rate = f64::from(rounds) * f64::from(CONNECTIONS) / begin.elapsed().as_secs_f64();
    let counts = balancer.stop()?;
    let of = |name: &str| {
        let own = counts.iter().find(|(known, _)| known == name);
        own.map_or(0, |(_, count)| *count)
    };
    let (epochs, lost) = (of("epochs"), of("epochs lost: ring buffer full"));
    ensure!(epochs > 0, "nothing was measured: {counts:?}");
    let row = |what: String, target: &str, measured, is_reached| Row {
        what,
        target: target.to_owned(),
        measured,
        is_reached: Some(is_reached),
    };
    let seconds = length.as_secs();
    Ok(vec![
        row(
            format!("balancer's process, no packets, {seconds} s"),
            "at most 0.5 % of a core",
            format!("{:.2} %", idle * 100.0),
            idle <= IDLE_MOST,
        ),
        row(
            format!(
                "balancer's process, {CONNECTIONS} connections as fast as packets can be handed in, {seconds} s"
            ),
            "at most 5 % of a core, no epoch lost",
            format!(
                "{:.2} % at {rate:.0} packets a second, {} measured, {epochs} epochs, {lost} lost",
                busy * 100.0,
                of("packets measured")
            ),
            busy <= LOADED_MOST && lost == 0,
        ),
    ])
}

/// `fathom balance` in a namespace of its own.
struct Running {
    process: Process,
    directory: TempDir,
    _namespaces: [Namespace; 2],
}

impl Running {
    fn start(fathom: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (balancer, other) = (Namespace::new("balancer")?, Namespace::new("other")?);
        balancer.connect("eth0", &other, "eth0")?;
        balancer.add_address("eth0", "10.77.0.2/24")?;
        for server in 1..=SERVERS {
            balancer.run(&format!(
                "ip neigh add 10.77.0.{} lladdr 02:00:00:00:00:{server:02x} nud permanent dev eth0",
                10 + server
            ))?;
        }
        let path = directory.path();
        fs::write(path.join("lb.toml"), configuration(path))?;
        fs::create_dir(path.join("bpf"))?;
        // What it pins lies on a file system that goes with the process.
        let mut command = balancer.command("unshare");
        command.args(["--mount", "sh", "-c"]);
        command.arg("mount -t bpf bpf \"$1\" && exec \"$2\" balance --format json --config \"$3\"");
        command.arg("sh").arg(path.join("bpf")).arg(fathom);
        command.arg(path.join("lb.toml"));
        command.stdout(File::create(path.join("records"))?);
        let process = Process::start(&mut command)?;
        let socket = path.join("socket");
        wait_until(PATIENCE, "fathom balance to answer", || socket.exists())?;
        Ok(Self {
            process,
            directory,
            _namespaces: [balancer, other],
        })
    }

    /// The part of a processor that it takes meanwhile, all its threads together.
    fn share_during(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let (before, begin) = (self.process.cpu_time()?, Instant::now());
        work()?;
        let used = self.process.cpu_time()?.saturating_sub(before);
        Ok(used.as_secs_f64() / begin.elapsed().as_secs_f64())
    }

    /// The program that it holds.
    fn program(&self) -> anyhow::Result<u32> {
        let folder = format!("/proc/{}/fdinfo", self.process.id());
        for entry in fs::read_dir(folder)? {
            let Ok(text) = fs::read_to_string(entry?.path()) else {
                continue;
            };
            let is_xdp = text.lines().any(|line| line == "prog_type:\t6");
            let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
            if let Some(id) = id.filter(|_| is_xdp) {
                return Ok(id.trim().parse()?);
            }
        }
        anyhow::bail!("it holds no XDP program")
    }

    /// Ends it. Returns what it counted.
    fn stop(mut self) -> anyhow::Result<Vec<(String, u64)>> {
        self.process.signal(Signal::SIGINT)?;
        self.process.wait_with_deadline(PATIENCE)?;
        let text = fs::read_to_string(self.directory.path().join("records"))?;
        let counts = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("\"kind\":\"count\"")?;
            let (_, rest) = rest.split_once("\"name\":\"")?;
            let (name, rest) = rest.split_once("\",\"count\":")?;
            Some((name.to_owned(), rest.trim_end_matches('}').parse().ok()?))
        });
        Ok(counts.collect())
    }
}

fn configuration(directory: &Path) -> String {
    let mut text = format!(
        "interfaces = [\"eth0\"]\npins = '{0}/bpf/pins'\nsocket = '{0}/socket'\n[health]\ncheck = \"none\"\n[[service]]\nname = \"web\"\naddress = \"10.77.9.1\"\nport = 80\n",
        directory.display()
    );
    for server in 1..=SERVERS {
        let _ = write!(
            text,
            "[[server]]\nname = \"s{server}\"\naddress = \"10.77.0.{}\"\n",
            10 + server
        );
    }
    text
}

/// Packets of many connections, one after the other.
struct Load {
    descriptor: i32,
    frame: Vec<u8>,
}

/// In a frame of IPv4 and TCP.
const SOURCE: usize = 14 + 12;
const SEQUENCE: usize = 14 + 20 + 4;
const ACKNOWLEDGEMENT: usize = SEQUENCE + 4;

impl Load {
    fn of(balancer: &Running) -> anyhow::Result<Self> {
        // SAFETY: the kernel looks an id up.
        #[expect(unsafe_code, reason = "libbpf-rs opens no program by its id")]
        let descriptor = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(balancer.program()?) };
        ensure!(descriptor >= 0, "the program cannot be opened");
        Ok(Self {
            descriptor,
            frame: Vec::new(),
        })
    }

    /// The next packet of each connection: the SYN in round 0, then requests, each of which
    /// acknowledges more.
    fn round(&mut self, round: u32) -> anyhow::Result<()> {
        let packet = match round {
            0 => Packet::syn("10.0.0.1:40000", SERVICE),
            _ => Packet::tcp("10.0.0.1:40000", SERVICE).sized(usize::from(DATA_BYTES)),
        };
        self.frame = packet.frame();
        let moved = round.saturating_sub(1).wrapping_mul(DATA_BYTES.into());
        for at in [SEQUENCE, ACKNOWLEDGEMENT]
            .into_iter()
            .take(2 * usize::from(round > 0))
        {
            let bytes: [u8; 4] = self.frame[at..at + 4].try_into()?;
            let next = u32::from_be_bytes(bytes).wrapping_add(moved);
            self.frame[at..at + 4].copy_from_slice(&next.to_be_bytes());
        }
        for connection in 0..CONNECTIONS {
            let client = 0x0a00_0000 + connection;
            self.frame[SOURCE..SOURCE + 4].copy_from_slice(&client.to_be_bytes());
            self.hand_in()?;
        }
        Ok(())
    }

    fn hand_in(&self) -> anyhow::Result<()> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            data_in: self.frame.as_ptr().cast(),
            data_size_in: u32::try_from(self.frame.len())?,
            repeat: 1,
            ..libbpf_sys::bpf_test_run_opts::default()
        };
        // SAFETY: the frame is there until the call returns, and nothing is written back.
        #[expect(unsafe_code, reason = "libbpf-rs opens no program by its id")]
        let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.descriptor, &raw mut options) };
        ensure!(code == 0, "the program cannot be run: {code}");
        Ok(())
    }
}
