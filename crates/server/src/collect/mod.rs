//! `fathom collect`: records of many hosts into one store.
//!
//! Agents send what their spools have by HTTP, and are told when it is kept for sure. All other
//! exporters, and fathom's own where they are told to, send IPFIX.

mod addresses;
mod exporters;
mod foreign;
mod http;
mod ipfix;
mod keeper;
mod schemas;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use fathom_store::{Settings, Writer};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register;

use crate::StoreDirectory;
use addresses::Listen;
use exporters::Exporters;
use keeper::Keeper;

/// How often it is seen whether a signal has come.
const LOOK: Duration = Duration::from_millis(50);

/// Keep the records that agents and exporters send in a store.
///
/// Agents are told when their records are kept for sure (`fathom agent --export http://HOST:PORT`);
/// what is sent by IPFIX is kept as it comes. The exit status is 0 after SIGINT and SIGTERM.
#[derive(Debug, Args)]
pub(crate) struct CollectArguments {
    /// Where to listen, such as `https://ADDRESS:PORT?cert=FILE&key=FILE&client-ca=FILE`; can be
    /// repeated.
    ///
    /// `https` and `http` are for agents; `ipfix+udp`, `ipfix+tcp` and `ipfix+tls` for any
    /// exporter. For TLS, `cert` is a PEM file with the certificate and its signers, and `key` one
    /// with the private key. With `client-ca`, who sends must show a certificate that is signed by
    /// one in this file. `http`, `ipfix+udp` and `ipfix+tcp` take records of whoever can reach the
    /// address: they are for networks that are trusted.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    listen: Vec<Listen>,
    #[command(flatten)]
    store: StoreDirectory,
    /// Remove what is older, such as 30days.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    store_age: Option<Duration>,
    /// Remove the oldest when all takes more MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    store_size: Option<u64>,
    /// What is done when the disk is full.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Full::RemoveOldest)]
    store_full: Full,
}

/// What is done when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Full {
    /// The oldest records make room.
    RemoveOldest,
    /// No records are taken until there is room.
    Stop,
}

impl CollectArguments {
    fn settings(&self) -> Settings {
        Settings {
            max_age: self.store_age,
            max_bytes: self.store_size.map(|mib| mib << 20),
            full: match self.store_full {
                Full::RemoveOldest => fathom_store::Full::RemoveOldest,
                Full::Stop => fathom_store::Full::Stop,
            },
            ..Settings::default()
        }
    }
}

/// Collects until told to stop.
///
/// # Errors
/// When an address cannot be listened at, or the store cannot be opened or written to its end.
pub(crate) fn run(arguments: &CollectArguments) -> anyhow::Result<()> {
    let should_stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let listened = register(signal, should_stop.clone());
        listened.context("cannot listen to SIGINT and SIGTERM")?;
    }
    let opened = Writer::open(&arguments.store.path, arguments.settings());
    let (writer, recovered) = opened.context("cannot keep records")?;
    for line in recovered.lines() {
        eprintln!("fathom-server: {}: {line}", arguments.store.path.display());
    }
    let exporters = Arc::new(Exporters::default());
    let keeper = Keeper::start(&arguments.store.path, writer, exporters.clone())?;
    let listening = ipfix::listen(&arguments.listen, &keeper, &exporters, &should_stop)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(async {
        http::listen(&arguments.listen, &keeper, &exporters).await?;
        while !should_stop.load(Ordering::Relaxed) && keeper.is_running() {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    })?;
    // Requests that are not answered by now are sent again.
    runtime.shutdown_background();
    should_stop.store(true, Ordering::Relaxed);
    if listening.is_some_and(|thread| thread.join().is_err()) {
        eprintln!("fathom-server: the thread that takes IPFIX has failed");
    }
    let status = keeper.finish()?;
    eprintln!("{}", exporters.total());
    eprintln!(
        "{}: {} records, {} lost",
        arguments.store.path.display(),
        status.rows,
        status.lost_rows
    );
    Ok(())
}
