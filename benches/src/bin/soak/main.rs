//! A day of an agent in twenty minutes: 2,000 flows at a time, 200 connections a second, an
//! interface that comes and goes, and a collector that is killed, and away for some time.

mod load;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use fathom_benches::made_anew;
use fathom_benches::records::rows_of;
use fathom_lab::summary::{Row, conclude};
use fathom_lab::{Namespace, Process, wait_until};
use fathom_store::Snapshot;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

const AGENT: &str = "10.78.0.1/24";
const SERVER: &str = "10.78.0.2/24";
const SERVICE: &str = "10.78.0.2:8080";
const COLLECTOR: &str = "10.78.0.2:4741";
/// Of one processor.
const MOST_CPU: f64 = 0.05;
/// Memory of the last half of the time, beside that of the first quarter.
const MOST_GROWTH: f64 = 1.1;
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two lines that are printed.
const LOOK: Duration = Duration::from_secs(10);
/// Between two looks at memory: a segment that is written needs some for a moment, each minute.
const MEMORY_LOOK: Duration = Duration::from_millis(100);

/// Runs an agent under load, and sees what is left of its records.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, with fathom-server beside it.
    #[arg(long)]
    fathom: PathBuf,
    /// The directory of the stores, which is made anew.
    #[arg(long, default_value = "target/benches-data/soak")]
    out: PathBuf,
    /// How long, in minutes.
    #[arg(long, default_value_t = 20)]
    minutes: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let out = made_anew(&arguments.out)?;
    // Both ends of all connections.
    setrlimit(Resource::RLIMIT_NOFILE, 16_384, 16_384)?;
    let (client, server) = (Namespace::new("soak-a")?, Namespace::new("soak-b")?);
    client.connect("wan0", &server, "lan0")?;
    client.add_address("wan0", AGENT)?;
    server.add_address("lan0", SERVER)?;
    load::serve(&server, SERVICE.parse()?)?;
    let lab = Lab {
        client,
        server,
        fathom: fs::canonicalize(&arguments.fathom)?,
        out,
    };
    let rows = lab.run(Duration::from_secs(60) * arguments.minutes)?;
    conclude(&rows, arguments.summary.as_deref())?;
    let is_missed = rows.iter().any(|row| row.is_reached == Some(false));
    ensure!(!is_missed, "a target was missed");
    Ok(())
}

struct Lab {
    client: Namespace,
    server: Namespace,
    fathom: PathBuf,
    out: PathBuf,
}

/// What was seen of the agent while it ran.
#[derive(Default)]
struct Seen {
    /// The greatest resident memory in KiB, of each time between two lines.
    memory: Vec<u64>,
    cpu: Duration,
    elapsed: Duration,
}

impl Lab {
    fn run(&self, time: Duration) -> anyhow::Result<Vec<Row>> {
        let collector = self.collect()?;
        let agent = self.agent()?;
        let (stop, outcome) = (AtomicBool::new(false), Arc::<load::Outcome>::default());
        let seen = thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let address = SERVICE.parse().expect("it is an address");
                load::ask(&self.client, address, &stop, &outcome);
            });
            let seen = self.watch(&agent, collector, time);
            stop.store(true, Ordering::Relaxed);
            asking.join().expect("it does not panic");
            seen
        });
        let (seen, mut collector) = seen?;
        end(agent)?;
        collector.signal(Signal::SIGTERM)?;
        ensure!(collector.wait_with_deadline(PATIENCE)?.success());
        let finished = outcome.finished.load(Ordering::Relaxed);
        let failed = outcome.failed.load(Ordering::Relaxed);
        println!("{finished} connections, {failed} failed");
        if let Some(error) = outcome.error.get() {
            println!("the first failed: {error}");
        }
        self.rows(&seen, finished, failed)
    }

    fn collect(&self) -> anyhow::Result<Process> {
        let mut command = self.server.command(path(&self.fathom));
        command
            .args([
                "collect",
                "--listen",
                &format!("http://{COLLECTOR}"),
                "--store",
            ])
            .arg(self.out.join("collector"))
            .stderr(
                File::options()
                    .create(true)
                    .append(true)
                    .open(self.out.join("collector.err"))?,
            );
        Ok(Process::start(&mut command)?)
    }

    fn agent(&self) -> anyhow::Result<Process> {
        let mut command = self.client.command(path(&self.fathom));
        command
            .args([
                "agent",
                "--interface",
                "wan*",
                "--measure",
                "rtt,response,traffic,profile",
            ])
            .args([
                "--metrics",
                "127.0.0.1:9816",
                "--export",
                &format!("http://{COLLECTOR}"),
            ])
            .arg("--store")
            .arg(self.out.join("agent"))
            .arg("--spool")
            .arg(self.out.join("spool"))
            .arg("--socket")
            .arg(self.out.join("socket"))
            .stderr(File::create(self.out.join("agent.err"))?);
        let agent = Process::start(&mut command)?;
        let socket = self.out.join("socket");
        wait_until(PATIENCE, "the agent to begin", || socket.exists())?;
        Ok(agent)
    }

    /// Looks at the agent now and then. Meanwhile an interface comes and goes, and the collector is
    /// killed and away for a part of the time.
    fn watch(
        &self,
        agent: &Process,
        collector: Process,
        time: Duration,
    ) -> anyhow::Result<(Seen, Process)> {
        let (begin, mut seen, mut collector) = (Instant::now(), Seen::default(), Some(collector));
        let (killed, back) = (time / 4, time / 4 + time * 3 / 20);
        let mut has_second = false;
        let first_cpu = agent.cpu_time()?;
        while begin.elapsed() < time {
            let memory = most_resident_kib(agent, LOOK)?;
            let elapsed = begin.elapsed();
            let cpu = agent.cpu_time()?.saturating_sub(first_cpu);
            println!(
                "{:4.0} s  {memory} KiB  {:.1} % of a processor",
                elapsed.as_secs_f64(),
                cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0
            );
            seen.memory.push(memory);
            (seen.cpu, seen.elapsed) = (cpu, elapsed);
            self.change_interface(&mut has_second)?;
            let is_away = (killed..back).contains(&elapsed);
            if let (true, Some(running)) = (is_away, &collector) {
                running.signal(Signal::SIGKILL)?;
                collector = None;
            }
            if !is_away && collector.is_none() {
                collector = Some(self.collect()?);
            }
        }
        let collector = collector.map_or_else(|| self.collect(), Ok)?;
        Ok((seen, collector))
    }

    fn change_interface(&self, has_second: &mut bool) -> anyhow::Result<()> {
        if *has_second {
            self.client.run("ip link delete wan1")?;
        } else {
            self.client.connect("wan1", &self.server, "lan1")?;
        }
        *has_second = !*has_second;
        Ok(())
    }

    fn rows(&self, seen: &Seen, connections: u64, failed: u64) -> anyhow::Result<Vec<Row>> {
        let said = fs::read_to_string(self.out.join("agent.err"))?;
        print!("{said}");
        let kept = records(&self.out.join("agent"), &[])?;
        let arrived = records(&self.out.join("collector"), &["exporters"])?;
        let quarter = seen.memory.len() / 4;
        let most = |looks: &[u64]| looks.iter().max().copied().unwrap_or_default() as f64;
        let growth = most(&seen.memory[seen.memory.len() / 2..]) / most(&seen.memory[..=quarter]);
        let cpu = seen.cpu.as_secs_f64() / seen.elapsed.as_secs_f64();
        let row = |what: &str, target: String, measured: String, is_reached| Row {
            what: format!("agent under load, {what}"),
            target,
            measured,
            is_reached: Some(is_reached),
        };
        let profiled = Snapshot::of(&self.out.join("agent"))?;
        let profiled = profiled.kind("profile").is_some();
        Ok(vec![
            row(
                "records that reached the collector, of those that its own store has",
                "all".to_owned(),
                format!("{arrived} of {kept}"),
                arrived == kept && kept > connections && profiled && failed == 0,
            ),
            row(
                "greatest memory of the last half, beside that of the first quarter",
                format!("at most {MOST_GROWTH}"),
                format!("{growth:.2} ({:.0} MB)", most(&seen.memory) / 1024.0),
                growth <= MOST_GROWTH,
            ),
            row(
                "processor time",
                format!("at most {:.0} % of one", MOST_CPU * 100.0),
                format!("{:.1} %", cpu * 100.0),
                cpu <= MOST_CPU,
            ),
        ])
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of this lab is text")
}

fn end(mut agent: Process) -> anyhow::Result<()> {
    agent.signal(Signal::SIGTERM)?;
    let status = agent.wait_with_deadline(PATIENCE)?;
    ensure!(status.success(), "the agent ended with {status}");
    Ok(())
}

/// The most within some time.
fn most_resident_kib(process: &Process, time: Duration) -> anyhow::Result<u64> {
    let (begin, mut most) = (Instant::now(), 0);
    while begin.elapsed() < time {
        thread::sleep(MEMORY_LOOK);
        most = most.max(resident_kib(process)?);
    }
    Ok(most)
}

/// Without what it shares with the kernel.
fn resident_kib(process: &Process) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    let words = line.context("the agent has ended")?.split_whitespace();
    Ok(words.take(1).collect::<String>().parse()?)
}

/// The rows of all kinds in a store but these.
fn records(store: &Path, others: &[&str]) -> anyhow::Result<u64> {
    let snapshot = Snapshot::of(store)?;
    let mut rows = 0;
    for kind in snapshot.kinds() {
        let mut of_kind = kind
            .open
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum::<u64>();
        of_kind += rows_of(kind)?;
        println!("{}: {}: {of_kind} rows", store.display(), kind.name);
        if !others.contains(&kind.name.as_str()) {
            rows += of_kind;
        }
    }
    Ok(rows)
}
