//! What a collector takes: records by IPFIX over UDP, as many a second as are asked for.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use fathom_benches::{made_anew, processor_s, records};
use fathom_ipfix::{Export, ExporterSettings, SenderSettings};
use fathom_lab::summary::{Row, conclude};
use fathom_lab::{Process, wait_until};
use fathom_record::Time;
use fathom_store::Snapshot;
use nix::sys::resource::UsageWho;
use nix::sys::signal::Signal;

/// How long the collector may take to begin or to end, and the exporter to send its last messages.
const PATIENCE: Duration = Duration::from_secs(60);
/// Records leave in groups, so often.
const PACE: Duration = Duration::from_millis(5);
/// Flows that the records are of.
const FLOWS: u64 = 2_048;

/// Send records to `fathom-server collect` by IPFIX over UDP, on loopback, and count what it keeps.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom-server binary.
    #[arg(long)]
    server: PathBuf,
    /// A directory for the store, which is made anew.
    #[arg(long, default_value = "target/benches-data/collector")]
    out: PathBuf,
    /// Records a second.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    rate: u32,
    /// For so many seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let out = made_anew(&arguments.out)?;
    let row = measure(&arguments, &out)?;
    fs::remove_dir_all(&out)?;
    Ok(conclude(&[row], arguments.summary.as_deref())?)
}

fn measure(arguments: &Arguments, out: &Path) -> anyhow::Result<Row> {
    let (store, said) = (out.join("store"), out.join("collector.err"));
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("ipfix+udp://127.0.0.1:{port}");
    let mut command = Command::new(&arguments.server);
    command.args(["collect", "--listen", &url, "--store"]);
    command.arg(&store).stdin(Stdio::null());
    command.stderr(File::create(&said)?);
    let mut collector = Process::start(&mut command)?;
    wait_until(PATIENCE, "the collector listens", || {
        fs::read_to_string(&said).is_ok_and(|said| said.contains("listening at"))
    })?;

    let (sent, seconds) = send(&url, arguments.rate, arguments.seconds)?;
    // It reads what still waits, and makes segments of the rest: that is part of its work.
    collector.signal(Signal::SIGTERM)?;
    ensure!(collector.wait_with_deadline(PATIENCE)?.success());
    print!("{}", fs::read_to_string(&said)?);
    let processor = processor_s(UsageWho::RUSAGE_CHILDREN)? / seconds;
    let rate = sent as f64 / seconds;
    let missing = sent.saturating_sub(kept(&store)?);
    Ok(Row {
        what: format!(
            "collector, {} records a second by IPFIX over UDP",
            arguments.rate
        ),
        target: "none lost, at most one processor".to_owned(),
        measured: format!(
            "{missing} of {sent} lost ({rate:.0} a second), {:.0} % of one",
            processor * 100.0
        ),
        is_reached: Some(
            missing == 0 && processor <= 1.0 && rate >= 0.99 * f64::from(arguments.rate),
        ),
    })
}

/// Sends records; returns how many, and the seconds it took.
fn send(url: &str, rate: u32, seconds: u32) -> anyhow::Result<(u64, f64)> {
    let settings = ExporterSettings {
        domain_name: Some("gateway".to_owned()),
        ..ExporterSettings::default()
    };
    let mut export = Export::connect(&url.parse()?, settings, &SenderSettings::default())?;
    let wanted = u64::from(rate) * u64::from(seconds);
    let begin = Instant::now();
    let mut sent = 0;
    for interval in 0.. {
        records::make(interval, FLOWS, &mut |record| {
            let due = Duration::from_secs_f64(sent as f64 / f64::from(rate));
            let early = due.saturating_sub(begin.elapsed());
            if early > PACE {
                export.tick(Time::now());
                thread::sleep(early);
            }
            export.record(record, Time::now());
            sent += 1;
        });
        if sent >= wanted {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let counters = export.close(PATIENCE);
    ensure!(
        counters.dropped_records == 0,
        "the exporter has lost some: {counters:?}"
    );
    Ok((sent, seconds))
}

/// Rows of records, but for those of the collector itself.
fn kept(store: &Path) -> anyhow::Result<u64> {
    let snapshot = Snapshot::of(store)?;
    let kinds = snapshot.kinds().iter();
    let kinds = kinds.filter(|kind| kind.name != "exporters");
    kinds.map(records::rows_of).sum()
}
