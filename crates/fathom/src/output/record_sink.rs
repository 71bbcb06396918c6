//! Where records go besides the output.

use anyhow::Context;
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::Record;
use fathom_store::Batch;

use super::deliver::Delivery;
use super::export::Exports;
use super::handover::Collecting;
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

    /// Takes a record, where it takes them one by one.
    fn put(&mut self, _record: &dyn Record) {}

    /// Does it take records that were put together?
    fn takes_batches(&self) -> bool {
        false
    }

    /// Takes such.
    fn put_batches(&mut self, _batches: &[Batch]) {}

    /// Does what is due by the clock.
    fn tick(&mut self) {}

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

/// All that were asked for.
#[derive(Default)]
pub(super) struct Sinks {
    sinks: Vec<Box<dyn RecordSink>>,
    /// For those that take batches.
    collecting: Option<Collecting>,
}

impl Sinks {
    /// Opens those that were asked for.
    ///
    /// # Errors
    /// When a collector cannot be reached, a store cannot be opened, names of networks cannot be
    /// read, or this host has no name to tell.
    pub(super) fn open(arguments: &ExportArguments, target: &OutputTarget) -> anyhow::Result<Self> {
        let sinks = open(arguments, target)?;
        let takes_batches = sinks.iter().any(|sink| sink.takes_batches());
        let host = takes_batches.then(|| target.host()).transpose()?;
        Ok(Self {
            sinks,
            collecting: host.map(|host| Collecting::new(&host)),
        })
    }

    /// Is there none?
    pub(super) fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }

    /// Each of them.
    #[cfg(feature = "live")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn RecordSink> {
        self.sinks.iter().map(|sink| &**sink)
    }

    /// Does so much wait in one that more should wait, too?
    #[cfg(feature = "live")]
    pub(super) fn is_behind(&self) -> bool {
        self.iter().any(RecordSink::is_behind)
    }

    /// Takes a record.
    pub(super) fn put(&mut self, record: &dyn Record) {
        for sink in &mut self.sinks {
            sink.put(record);
        }
        if let Some(collecting) = &mut self.collecting
            && collecting.put(record)
        {
            self.hand_over();
        }
    }

    /// Does what is due by the clock.
    pub(super) fn tick(&mut self) {
        if self.collecting.as_ref().is_some_and(Collecting::is_due) {
            self.hand_over();
        }
        for sink in &mut self.sinks {
            sink.tick();
        }
    }

    /// Whether what finds too much waiting waits itself, or is lost.
    pub(super) fn may_wait(&mut self, may_wait: bool) {
        for sink in &mut self.sinks {
            sink.may_wait(may_wait);
        }
    }

    /// Hands on the rest, and says what became of all.
    ///
    /// # Errors
    /// When not all has got there. All of them end, whatever becomes of one.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.hand_over();
        let finished = self.sinks.drain(..).map(|mut sink| sink.finish());
        finished.fold(Ok(()), Result::and)
    }

    fn hand_over(&mut self) {
        let Some(collecting) = &mut self.collecting else {
            return;
        };
        let batches = collecting.take();
        for sink in &mut self.sinks {
            sink.put_batches(&batches);
        }
    }
}

fn open(
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
        let delivery = Delivery::to_collector(collector, spool);
        let delivery = delivery.with_context(|| format!("cannot export to {collector}"))?;
        sinks.push(Box::new(delivery));
    }
    if let Some(directory) = &arguments.store.store {
        let settings = arguments.store.settings();
        sinks.push(Box::new(Keeper::open(directory, settings)?));
    }
    #[cfg(feature = "live")]
    if let Some(url) = &arguments.clickhouse {
        let delivery = clickhouse::open(url, spool);
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

    fn may_wait(&mut self, _may_wait: bool) {}

    fn finish(&mut self) -> anyhow::Result<()> {
        Metrics::finish(self)
    }
}
