//! Where records go besides the output.

use anyhow::Context;
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::Record;

use super::deliver::Delivery;
use super::export::Exports;
use super::keeper::Keeper;
use crate::arguments::{ExportArguments, OutputTarget};
#[cfg(feature = "live")]
use crate::clickhouse;
use crate::metrics::Metrics;

/// Takes records, and hands them on. None keeps measuring waiting, unless it is allowed to.
pub(crate) trait RecordSink {
    /// What it is, for people and programs that are told of its counts.
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str;

    /// Takes a record.
    fn put(&mut self, record: &dyn Record);

    /// Does what is due by the clock.
    fn tick(&mut self);

    /// Does so much wait that more should wait, too?
    #[cfg(feature = "live")]
    fn is_behind(&self) -> bool {
        false
    }

    /// What became of records so far.
    #[cfg(feature = "live")]
    fn counts(&self) -> Counts;

    /// Whether what finds too much waiting waits itself, or is lost.
    fn may_wait(&mut self, may_wait: bool);

    /// Hands on the rest, and says what became of all.
    ///
    /// # Errors
    /// When not all has got there.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Those that were asked for.
///
/// # Errors
/// When a collector cannot be reached, a store cannot be opened, names of networks cannot be read,
/// or this host has no name to tell.
pub(super) fn open(
    arguments: &ExportArguments,
    target: &OutputTarget,
) -> anyhow::Result<Vec<Box<dyn RecordSink>>> {
    let mut sinks: Vec<Box<dyn RecordSink>> = Vec::new();
    if arguments.export.len() > arguments.collectors().count() {
        sinks.push(Box::new(Exports::open(arguments, target)?));
    }
    let spool = arguments.spool.as_deref();
    let spool = spool.map(|directory| (directory, arguments.spool_size << 20));
    for collector in arguments.collectors() {
        let delivery = Delivery::to_collector(collector, spool, &target.host()?);
        let delivery = delivery.with_context(|| format!("cannot export to {collector}"))?;
        sinks.push(Box::new(delivery));
    }
    if let Some(directory) = &arguments.store.store {
        let settings = arguments.store.settings();
        sinks.push(Box::new(Keeper::open(
            directory,
            settings,
            &target.host()?,
        )?));
    }
    #[cfg(feature = "live")]
    if let Some(url) = &arguments.clickhouse {
        let delivery = clickhouse::open(url, spool, &target.host()?);
        let delivery = delivery.with_context(|| format!("cannot keep records in {url}"))?;
        sinks.push(Box::new(delivery));
    }
    if let Some(metrics) = Metrics::open(&arguments.metrics, || target.host())? {
        if let Some(file) = &arguments.networks {
            metrics.call_networks(file)?;
        }
        sinks.push(Box::new(metrics));
    }
    Ok(sinks)
}

impl RecordSink for Metrics {
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str {
        "metrics"
    }

    #[cfg(feature = "live")]
    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn put(&mut self, record: &dyn Record) {
        Metrics::put(self, record);
    }

    fn tick(&mut self) {}

    fn may_wait(&mut self, _may_wait: bool) {}

    fn finish(&mut self) -> anyhow::Result<()> {
        Metrics::finish(self)
    }
}
