//! `fathom import`: fills a store from capture files. What measures flows over intervals reads all
//! of them, one measurement after the other, and their intervals are the same.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgMatches, Args};

use crate::MEASUREMENTS;
use crate::arguments::{ExportArguments, OutputTarget, StoreArguments, interval};
use crate::configuration::Configured;
use crate::failure::{WrongUsage, say};
use crate::signals::Signals;

/// Options of `fathom import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// Capture files: pcap or pcapng, also compressed by gzip or zstd.
    #[arg(value_name = "CAPTURE", required = true)]
    files: Vec<String>,
    /// Each flow has a record of each measurement at the end of every such interval of the
    /// capture's clock; at least 10ms.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    interval: Duration,
    /// The name of the host in records; by default that of this host.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    host: Option<String>,
    /// Say on standard error what is read.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    store: StoreArguments,
}

/// What a measurement is asked for.
pub(crate) struct Request<'a> {
    /// The options of its own command: those of the configuration file and the environment.
    pub(crate) options: &'a ArgMatches,
    /// Measure these.
    pub(crate) files: &'a [String],
    /// Put records together over such intervals.
    pub(crate) interval: Duration,
    /// Who observed.
    pub(crate) target: &'a OutputTarget,
    /// The store, and no collector.
    pub(crate) export: &'a ExportArguments,
    /// Say what is read.
    pub(crate) is_verbose: bool,
    /// When to stop.
    pub(crate) signals: &'a Signals,
}

/// Reads all files for each measurement.
///
/// # Errors
/// When there is no store, a file cannot be read, or not all records are kept.
pub(crate) fn run(arguments: &ImportArguments, config: Option<&Path>) -> anyhow::Result<()> {
    if arguments.store.store.is_none() {
        let sentence = "nowhere to keep records: name a directory with --store";
        return Err(WrongUsage::error(sentence.to_owned()));
    }
    refuse_streams(&arguments.files)?;
    let signals = Signals::listen(false)?;
    let configured = Configured::read(config)?;
    let target = OutputTarget {
        output: None,
        host: arguments.host.clone(),
    };
    for one in MEASUREMENTS {
        let Some(import) = one.import else { continue };
        if signals.should_stop() {
            break;
        }
        if arguments.verbose {
            say!("measuring {}", one.name);
        }
        let options = configured.options_of(one.name)?;
        let request = Request {
            options: &options,
            files: &arguments.files,
            interval: arguments.interval,
            target: &target,
            export: &ExportArguments::to_store(&arguments.store),
            is_verbose: arguments.verbose,
            signals: &signals,
        };
        import(&request).with_context(|| format!("cannot measure {}", one.name))?;
    }
    Ok(())
}

/// What can be read once is no file to import.
fn refuse_streams(files: &[String]) -> anyhow::Result<()> {
    for path in files {
        let found = std::fs::metadata(path);
        let found = found.with_context(|| format!("cannot open the capture file {path}"))?;
        if !found.is_file() {
            anyhow::bail!(
                "{path} is no file, and each measurement reads the capture: write it to a file first"
            );
        }
    }
    Ok(())
}
