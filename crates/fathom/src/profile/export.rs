//! Records on their way to IPFIX collectors.

use std::time::Duration;

use anyhow::Context;
use fathom_ipfix::{Export, ExporterSettings, Refresh, SenderSettings, TemplateSet};
use fathom_record::{Record, Time};

use crate::arguments::{ExportArguments, TemplateName};
use crate::failure::say;

/// How long the end waits for a collector that is slow or away.
const PATIENCE: Duration = Duration::from_secs(2);

/// All collectors that were asked for.
pub(super) struct Exports {
    exports: Vec<Export>,
    /// Which of them was said to be away.
    troubles: Vec<Option<String>>,
}

impl Exports {
    /// Starts to export; connections are made in the background.
    ///
    /// # Errors
    /// When a certificate cannot be read, or the system has no threads.
    pub(super) fn open(arguments: &ExportArguments) -> anyhow::Result<Self> {
        let defaults = ExporterSettings::new(match arguments.templates {
            TemplateName::Fathom => TemplateSet::Derived,
            TemplateName::Flowcorder => TemplateSet::Flowcorder,
        });
        let settings = ExporterSettings {
            domain: arguments.observation_domain.unwrap_or(defaults.domain),
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
        let exports: Vec<_> = arguments
            .export
            .iter()
            .map(|destination| {
                Export::open(destination, settings, &sender)
                    .with_context(|| format!("cannot export to {destination}"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            troubles: vec![None; exports.len()],
            exports,
        })
    }

    /// Takes a record; never waits for a collector.
    pub(super) fn put(&mut self, record: &dyn Record, now: Time) {
        for export in &mut self.exports {
            export.record(record, now);
        }
    }

    /// Sends what has waited long enough, and says once when a collector goes away, and when it is back.
    pub(super) fn tick(&mut self, now: Time) {
        for (export, known) in self.exports.iter_mut().zip(&mut self.troubles) {
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

    /// Sends the rest, and says what became of all.
    pub(super) fn close(self) {
        for export in self.exports {
            let destination = export.destination().to_string();
            let records = export.records();
            let counters = export.close(PATIENCE);
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
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_ipfix::{conflicting_elements, fields_without_element};
    use fathom_measure::profile::{DnsProfile, LookupProfile, MptcpProfile, TcpProfile};
    use fathom_measure::rtt::{RttAggregate, RttFlow, RttSample};
    use fathom_record::Count;

    /// An element of fathom's means one thing, whatever record it is in.
    #[test]
    fn elements_do_not_conflict() {
        let schemas = [
            TcpProfile::SCHEMA,
            MptcpProfile::SCHEMA,
            DnsProfile::SCHEMA,
            LookupProfile::SCHEMA,
            Count::SCHEMA,
            RttSample::SCHEMA,
            RttFlow::SCHEMA,
            RttAggregate::SCHEMA,
        ];
        assert_eq!(conflicting_elements(&schemas), Vec::<String>::new());
    }

    #[test]
    fn every_field_of_a_profile_is_exported() {
        for schema in [
            TcpProfile::SCHEMA,
            MptcpProfile::SCHEMA,
            DnsProfile::SCHEMA,
            LookupProfile::SCHEMA,
        ] {
            assert_eq!(fields_without_element(schema), Vec::<&str>::new());
        }
    }
}
