//! Writes the captures of the benchmark, each with its truth.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use fathom_benches::{
    BulkOptions, ConnectionsOptions, Recorder, Totals, write_bulk, write_connections,
};

/// Write captures of simulated TCP traffic (NAME.pcap) and the round-trip times that are true for
/// them (NAME.truth.csv).
#[derive(Debug, Parser)]
struct Arguments {
    /// Which captures to write [default: all].
    captures: Vec<Capture>,
    /// The folder to write into; it is made if need be.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// Decides every number, tuple and gap; the same seed gives the same files.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// About how many packets `bulk` has.
    #[arg(long, default_value_t = 1_100_000, value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    packets: u64,
    /// How many connections `connections` has, of nine packets each.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=5_000_000))]
    connections: u64,
    /// Hosts without TCP timestamps.
    #[arg(long)]
    no_timestamps: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Capture {
    /// 18 bulk transfers through one bottleneck.
    Bulk,
    /// Many connections of nine packets, 3 ms from the clients and 20 ms from the servers.
    Connections,
}

impl Capture {
    fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Connections => "connections",
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let captures = if arguments.captures.is_empty() {
        Capture::value_variants()
    } else {
        &arguments.captures
    };
    for &capture in captures {
        let path = arguments.out.join(capture.name()).with_extension("pcap");
        let (totals, remark) = write(capture, &arguments, &path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!(
            "{}: {} packets, {} retransmitted{remark}; samples: {} handshake, {} sequence, {} timestamp",
            path.display(),
            totals.packets,
            totals.retransmissions,
            totals.handshake_samples,
            totals.sequence_samples,
            totals.timestamp_samples
        );
    }
    Ok(())
}

fn write(capture: Capture, arguments: &Arguments, path: &Path) -> anyhow::Result<(Totals, String)> {
    let create =
        |path: &Path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
    let mut recorder = Recorder::new(create(path)?, create(&path.with_extension("truth.csv"))?)?;
    let (seed, has_timestamps) = (arguments.seed, !arguments.no_timestamps);
    let remark = match capture {
        Capture::Bulk => {
            let options = BulkOptions {
                packets: arguments.packets,
                seed,
                has_timestamps,
            };
            let totals = write_bulk(&options, &mut recorder)?;
            format!(
                ", {} dropped, {:.1} s",
                totals.dropped_packets,
                totals.duration_ns as f64 / 1e9
            )
        }
        Capture::Connections => {
            let options = ConnectionsOptions {
                connections: arguments.connections,
                seed,
                has_timestamps,
            };
            write_connections(&options, &mut recorder)?;
            String::new()
        }
    };
    Ok((recorder.finish()?, remark))
}
