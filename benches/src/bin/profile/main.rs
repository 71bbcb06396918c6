//! What `fathom profile` costs: processor time of short connections and of bulk flows, memory, and
//! whether it loses connections.

mod bulk;
mod complete;
mod http;
mod least;
mod memory;
mod overhead;
mod processor;
mod profiling;
mod programs;
mod report;
mod short;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use fathom_lab::Namespace;
use fathom_lab::summary::{Row, conclude};

use bulk::Bulk;
use http::Http;
use overhead::{Plan, Subject};
use profiling::{COLLECTOR, Invocation, Output};
use short::{ShortConnections, Threads};

/// Measure what `fathom profile` takes while this machine makes traffic with itself (needs root).
///
/// Short connections and bulk flows run without pause, windows with fathom and without take turns,
/// and the processor time of a connection or byte is compared within each pair of windows. Memory
/// is what grows with connections, completeness is counted in what fathom prints.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// Where to put what it prints, until it is counted.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// Only these; by default all.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Piece>,
    /// Pairs of windows, for each piece with processor time.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: u32,
    /// Length of a window, in milliseconds.
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,
    /// Seconds of connections that must all have their last profile.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Bulk flows.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    flows: u32,
    /// Ends of established connections whose memory is measured; each connection has two of them on
    /// this host.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(2..=50_000))]
    ends: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// More options of `fathom profile`, behind `--`.
    #[arg(last = true)]
    options: Vec<String>,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Piece {
    /// nginx and wrk, a connection for each request, both ends profiled.
    Http,
    /// The same, of which the server's end is profiled, as on a host of its own.
    HttpServer,
    /// The same as `http`, exported over IPFIX and not printed.
    HttpExport,
    /// The same, kept in a store.
    HttpStore,
    /// The same without fathom, but with the least that writes rows.
    HttpStoreLeast,
    /// The same as `http`, with a selection that takes none of them.
    HttpUnselected,
    /// The same without fathom, but with the least that could be in its place.
    HttpLeast,
    /// A loop that does nothing but open connections: the least that one can take.
    Short,
    /// The same, kept in a store.
    ShortStore,
    /// The same with the least.
    ShortLeast,
    /// Flows that send as fast as they can.
    Bulk,
    /// What is kept of connections.
    Memory,
    /// Whether each connection has its last profile.
    Complete,
}

fn main() -> anyhow::Result<()> {
    let mut given = std::env::args_os().skip(1);
    if given.next().is_some_and(|first| first == least::OPTION) {
        return least::run(given.next().as_deref().map(Path::new));
    }
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let invocation = Invocation {
        fathom: arguments.fathom.clone(),
        options: arguments.options.clone(),
        folder: arguments.out.clone(),
        output: Output::Json,
    };
    let mut rows = Vec::new();
    for piece in Piece::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(piece) {
            continue;
        }
        match piece.obstacle() {
            Some(why) => println!("skipped: {why}"),
            None => rows.push(measure(*piece, &arguments, &invocation)?),
        }
    }
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

fn measure(piece: Piece, arguments: &Arguments, invocation: &Invocation) -> anyhow::Result<Row> {
    if piece == Piece::Memory {
        let ends = arguments.ends;
        return Ok(report::memory(
            &memory::measure(invocation, ends as usize)?,
            ends,
        ));
    }
    let namespace = Namespace::new("host")?;
    // The one that every kernel has, and that sets no timers to pace what it sends.
    namespace.set_congestion_control("reno")?;
    let into_store = Invocation {
        output: Output::Store,
        ..invocation.clone()
    };
    let rows = arguments.out.join("least.parquet");
    let subject = match piece {
        Piece::HttpLeast | Piece::ShortLeast => Subject::Least(None),
        Piece::HttpStoreLeast => Subject::Least(Some(&rows)),
        Piece::ShortStore => Subject::Fathom(&into_store),
        _ => Subject::Fathom(invocation),
    };
    let (window, pairs) = (Duration::from_millis(arguments.window), arguments.pairs);
    // A log becomes a segment every few seconds, and that is a large part of the cost.
    let (window, pairs) = match piece {
        Piece::HttpStore | Piece::HttpStoreLeast | Piece::ShortStore => {
            (10 * window, pairs.div_ceil(2))
        }
        _ => (window, pairs),
    };
    let plan = Plan {
        namespace: &namespace,
        subject,
        pairs,
        window,
    };
    match piece {
        Piece::Short | Piece::ShortStore | Piece::ShortLeast => {
            let traffic = ShortConnections::start(&namespace, Threads::One)?;
            let overhead = overhead::measure(&traffic, &plan)?;
            traffic.finish()?;
            Ok(report::short(&overhead, piece.about(), piece.most_share()))
        }
        Piece::Http
        | Piece::HttpServer
        | Piece::HttpExport
        | Piece::HttpStore
        | Piece::HttpStoreLeast
        | Piece::HttpUnselected
        | Piece::HttpLeast => http(piece, &plan, invocation),
        Piece::Bulk => {
            let traffic = Bulk::start(&namespace, arguments.flows as usize)?;
            let overhead = overhead::measure(&traffic, &plan)?;
            traffic.finish()?;
            Ok(report::bulk(&overhead, arguments.flows))
        }
        Piece::Memory | Piece::Complete => {
            let length = Duration::from_secs(arguments.seconds);
            let complete = complete::measure(&namespace, invocation, length)?;
            Ok(report::complete(&complete))
        }
    }
}

impl Piece {
    /// Which connections, and what takes the time.
    fn about(self) -> &'static str {
        match self {
            Self::Http => "nginx and wrk, both ends profiled, JSON",
            Self::HttpServer => "nginx and wrk, the server's end profiled, JSON",
            Self::HttpExport => "nginx and wrk, both ends profiled, IPFIX",
            Self::HttpStore => "nginx and wrk, both ends profiled, into a store",
            Self::HttpStoreLeast => "nginx and wrk, the least that writes as many rows",
            Self::HttpUnselected => "nginx and wrk, nothing selected",
            Self::HttpLeast => "nginx and wrk, the least that writes as many records",
            Self::ShortStore => "a loop of connections, both ends profiled, into a store",
            Self::ShortLeast => "a loop of connections, the least that writes as many records",
            _ => "a loop of connections, both ends profiled, JSON",
        }
    }

    /// The most that the target allows of a short connection.
    fn most_share(self) -> Option<f64> {
        match self {
            Self::HttpLeast | Self::HttpStoreLeast | Self::ShortLeast => None,
            Self::HttpStore | Self::ShortStore => Some(report::MOST_STORED_SHARE),
            _ => Some(report::MOST_SHORT_SHARE),
        }
    }

    /// What this machine lacks for it.
    fn obstacle(self) -> Option<String> {
        let is_http = matches!(
            self,
            Self::Http
                | Self::HttpServer
                | Self::HttpExport
                | Self::HttpStore
                | Self::HttpStoreLeast
                | Self::HttpUnselected
                | Self::HttpLeast
        );
        is_http.then(Http::obstacle).flatten()
    }
}

/// One of the pieces with nginx and wrk.
fn http(piece: Piece, plan: &Plan<'_>, invocation: &Invocation) -> anyhow::Result<Row> {
    let traffic = Http::start(plan.namespace, &invocation.folder)?;
    let mut invocation = invocation.clone();
    let mut collector = None;
    match piece {
        Piece::HttpServer => {
            let group = traffic.server_group().display().to_string();
            invocation.options.extend(["--cgroup".to_owned(), group]);
        }
        // Nobody is there.
        Piece::HttpUnselected => invocation
            .options
            .extend(["--port", "1"].map(str::to_owned)),
        Piece::HttpStore => invocation.output = Output::Store,
        Piece::HttpExport => {
            invocation.output = Output::Ipfix;
            let bind = || UdpSocket::bind(COLLECTOR);
            collector = Some(plan.namespace.enter(bind)?.context("collect IPFIX")?);
        }
        _ => {}
    }
    let plan = Plan {
        subject: match plan.subject {
            Subject::Fathom(_) => Subject::Fathom(&invocation),
            least @ Subject::Least(_) => least,
        },
        ..*plan
    };
    let overhead = overhead::measure(&traffic, &plan)?;
    drop(collector);
    Ok(report::short(&overhead, piece.about(), piece.most_share()))
}
