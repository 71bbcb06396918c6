//! Records on their way to IPFIX collectors.

use std::time::Duration;

use anyhow::{Context, anyhow};
#[cfg(feature = "live")]
use fathom_ipfix::Counters;
use fathom_ipfix::{Export, ExporterSettings, Refresh, SenderSettings};
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::{Record, Schema, Time, Unit, Value, Visitor};

use super::record_sink::RecordSink;
use crate::arguments::{ExportArguments, ExportTarget, OutputTarget};
use crate::failure::say;

/// How long the end waits for a collector that is slow or away.
const PATIENCE: Duration = Duration::from_secs(2);

/// After so many records it is seen whether collectors keep up, where records may wait.
const AT_A_TIME: u64 = 1_024;
/// More than this of records that may wait is not sent ahead of a collector.
const WAITING_BYTES: usize = 4 << 20;
/// Between looks at whether it does.
const PAUSE: Duration = Duration::from_millis(1);

/// A flow that opens, without what it has carried by then: collectors add up what they get, and the
/// record of its end has all.
struct Opening<'a>(&'a dyn Record);

impl Opening<'_> {
    fn is_one(&self) -> bool {
        let position = self.0.schema().position("event");
        position.is_some_and(|index| self.0.value(index) == Value::Text("open"))
    }

    fn is_volume(&self, index: usize) -> bool {
        let unit = self.0.schema().fields.get(index).map(|field| field.unit);
        matches!(unit, Some(Unit::Packets | Unit::Bytes))
    }
}

impl Record for Opening<'_> {
    fn schema(&self) -> &'static Schema {
        self.0.schema()
    }

    fn value(&self, index: usize) -> Value<'_> {
        if self.is_volume(index) {
            Value::Missing
        } else {
            self.0.value(index)
        }
    }

    fn visit(&self, visitor: &mut dyn Visitor) {
        for index in 0..self.schema().fields.len() {
            match self.value(index) {
                Value::Missing => {}
                value => visitor.value(index, value),
            }
        }
    }
}

/// All collectors that were asked for.
pub(super) struct Exports {
    collectors: Vec<Export>,
    records: u64,
    may_wait: bool,
    /// Which of them was said to be away.
    troubles: Vec<Option<String>>,
}

impl Exports {
    /// Starts to export. A collector that goes away later is waited for; one that is not there at
    /// first is an error.
    ///
    /// # Errors
    /// When a name has no address, a connection is refused, a certificate cannot be read, this host
    /// has no name, or the system has no threads.
    pub(super) fn open(arguments: &ExportArguments, target: &OutputTarget) -> anyhow::Result<Self> {
        let defaults = ExporterSettings::new(arguments.templates);
        let settings = ExporterSettings {
            domain: arguments.observation_domain.unwrap_or(defaults.domain),
            domain_name: Some(target.host()?),
            enterprise: arguments.enterprise_number,
            flush: arguments.flush,
            text_bytes: (arguments.text_bytes != 0).then_some(arguments.text_bytes),
            ..defaults
        };
        let sender = SenderSettings {
            refresh: Refresh {
                interval: arguments.template_refresh,
                ..Refresh::default()
            },
            ..SenderSettings::default()
        };
        let collectors: Vec<_> = arguments
            .export
            .iter()
            .filter_map(|target| match target {
                ExportTarget::Ipfix(destination) => Some(destination),
                ExportTarget::Collector(_) => None,
            })
            .map(|destination| {
                Export::connect(destination, settings.clone(), &sender)
                    .with_context(|| format!("cannot export to {destination}"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            troubles: vec![None; collectors.len()],
            collectors,
            records: 0,
            may_wait: true,
        })
    }

    /// Waits until collectors that are there have taken most of what waits for them.
    fn wait(&mut self) {
        for export in &mut self.collectors {
            export.tick(Time::now());
            while export.waiting_bytes() > WAITING_BYTES && export.trouble().is_none() {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl RecordSink for Exports {
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str {
        "ipfix"
    }

    #[cfg(feature = "live")]
    fn counts(&self) -> Counts {
        let counters: Vec<_> = self.collectors.iter().map(Export::counters).collect();
        let sum = |of: fn(&Counters) -> u64| counters.iter().map(of).sum();
        let away = self.troubles.iter().flatten().count();
        Counts {
            measured: vec![
                ("records", sum(|it| it.records)),
                ("lost", sum(|it| it.dropped_records)),
            ],
            named: vec![
                ("messages", sum(|it| it.messages)),
                ("reconnections", sum(|it| it.reconnects)),
                ("collectors away", away as u64),
            ],
        }
    }

    fn put(&mut self, record: &dyn Record) {
        let opening = Opening(record);
        let record: &dyn Record = if opening.is_one() { &opening } else { record };
        let now = Time::now();
        for export in &mut self.collectors {
            export.record(record, now);
        }
        self.records += 1;
        if self.may_wait && self.records.is_multiple_of(AT_A_TIME) {
            self.wait();
        }
    }

    /// Says once when a collector goes away, and when it is
    /// back.
    fn tick(&mut self) {
        let now = Time::now();
        for (export, known) in self.collectors.iter_mut().zip(&mut self.troubles) {
            export.tick(now);
            let trouble = export.trouble();
            match (&trouble, &known) {
                (Some(trouble), None) => {
                    say!(
                        "fathom: {}: {trouble}; messages wait for it",
                        export.destination()
                    );
                }
                (None, Some(_)) => say!("fathom: {} is back", export.destination()),
                _ => {}
            }
            *known = trouble;
        }
    }

    fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for mut export in self.collectors.drain(..) {
            let destination = export.destination().to_string();
            let records = export.records();
            let counters = export.finish(PATIENCE);
            say!(
                "{destination}: {} records in {} messages, {} dropped, {} reconnections",
                counters.records,
                counters.messages,
                counters.dropped_records,
                counters.reconnects
            );
            for (count, what) in [
                (records.refused_records, "records without a template"),
                (
                    records.omitted_values,
                    "values left out: too many templates",
                ),
                (
                    records.saturated_values,
                    "numbers too great for their element",
                ),
                (records.shortened_texts, "texts cut"),
            ] {
                if count != 0 {
                    say!("  {what}  {count}");
                }
            }
            if counters.dropped_records != 0 {
                let cause = export.trouble().unwrap_or_else(|| {
                    "the collector takes them more slowly than they come".to_owned()
                });
                outcome = outcome.and(Err(anyhow!(cause).context(format!(
                    "{} records have not reached {destination}",
                    counters.dropped_records
                ))));
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use fathom_ipfix::{conflicting_elements, fields_without_element};
    use fathom_record::{Count, Schema};

    use crate::MEASUREMENTS;

    /// All kinds of records that are exported.
    fn schemas() -> Vec<&'static Schema> {
        let measured = MEASUREMENTS
            .iter()
            .flat_map(|measurement| measurement.kinds);
        #[cfg(feature = "live")]
        let measured = measured.chain(crate::balance::KINDS);
        measured.chain(&[Count::SCHEMA]).copied().collect()
    }

    /// An element of fathom's means one thing, whatever record it is in.
    #[test]
    fn elements_do_not_conflict() {
        assert_eq!(conflicting_elements(&schemas()), Vec::<String>::new());
    }

    #[test]
    fn every_field_of_every_kind_is_exported() {
        for schema in schemas() {
            let without = fields_without_element(schema);
            assert_eq!(without, Vec::<&str>::new(), "{}", schema.kind);
        }
    }
}
