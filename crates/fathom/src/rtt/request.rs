//! From options to what the measurement takes.

use std::time::Duration;

use fathom_measure::Scope;
use fathom_measure::rtt::{Aggregation, MethodSet, RttAggregate, RttSample, Samples, Settings};

use super::arguments::{Bounds, RttArguments, RttFormat};
use super::ppviz::Ppviz;
use crate::output::{Formatter, LineOptions};

/// Bytes of a flow that has no slots: its key, its state, its word, and an eighth of them that the
/// table keeps free.
const FLOW_BYTES: u64 = 288;
/// Bytes of a slot, one for each direction, with that eighth.
const SLOT_BYTES: u64 = 36;
/// Slots that a flow of a file has on average; there are few that need many.
const FILE_SLOTS: u64 = 4;
/// Slots of a direction when every packet is to be measured: as many as a fast sender has
/// timestamps in flight when a queue grows to seconds.
#[cfg(feature = "live")]
const UNSAMPLED_SLOTS: u32 = 128;
/// Flows then, unless told otherwise: 80 MB with their slots, where sampling needs 38 MB for four
/// times as many.
#[cfg(feature = "live")]
const UNSAMPLED_FLOWS: u32 = 16_384;

impl RttArguments {
    /// For capture files.
    pub(super) fn settings_for_files(&self) -> Settings {
        let mut settings = self.settings(&Settings::files());
        let slots = slots_taken(FILE_SLOTS, &settings);
        settings.scope.flows = self.bounds.flows(settings.scope.flows, slots);
        settings
    }

    #[cfg(feature = "live")]
    pub(super) fn settings_for_interfaces(&self) -> Settings {
        let mut settings = self.settings(&Settings::live());
        if settings.sample_interval.is_zero() {
            settings.slots = UNSAMPLED_SLOTS;
            settings.scope.flows = UNSAMPLED_FLOWS;
            // Every one is every one, unless the user says otherwise.
            settings.per_rtt = self.sampling.per_rtt.unwrap_or(0);
        }
        let slots = slots_taken(settings.slots.into(), &settings);
        settings.scope.flows = self.bounds.flows(settings.scope.flows, slots);
        settings
    }

    fn settings(&self, defaults: &Settings) -> Settings {
        let methods = match self.sampling.method.as_slice() {
            [] => defaults.methods,
            methods => methods.iter().copied().collect::<MethodSet>(),
        };
        Settings {
            methods,
            sample_interval: self
                .sampling
                .sample_interval
                .unwrap_or(defaults.sample_interval),
            per_rtt: self.sampling.per_rtt.unwrap_or(defaults.per_rtt),
            has_near_side: self.sampling.near_side,
            has_events: self.output.events,
            samples: match self.output.format {
                Some(RttFormat::Ppviz) => Samples::WithBytes,
                _ => Samples::Single,
            },
            scope: Scope {
                selection: self.selection.ends.selection(&self.selection.protocol),
                has_tunnels: !self.sampling.no_tunnels,
                flows: defaults.scope.flows,
            },
            ..*defaults
        }
    }

    /// Where records go.
    pub(super) fn line_options(&self) -> LineOptions<'_> {
        let (format, formatter): (_, Option<Box<dyn Formatter>>) = match self.output.format {
            Some(RttFormat::Common(format)) => (Some(format), None),
            Some(RttFormat::Ppviz) => (None, Some(Box::new(Ppviz))),
            None => (None, None),
        };
        LineOptions {
            target: &self.output.target,
            export: &self.export,
            format,
            formatter,
            main: match self.aggregation.interval {
                Some(_) => RttAggregate::SCHEMA,
                None => RttSample::SCHEMA,
            },
        }
    }

    /// How samples are put together, if they are.
    pub(super) fn aggregation(&self) -> Option<Aggregation> {
        let options = &self.aggregation;
        let of_length = |interval: Duration| Aggregation {
            interval,
            by: options.by,
            prefix_v4: options.prefixes.prefix_v4,
            prefix_v6: options.prefixes.prefix_v6,
        };
        options.interval.map(of_length)
    }
}

/// Slots whose memory a flow takes: bytes that are counted take as much again, and that of one
/// slot.
fn slots_taken(slots: u64, settings: &Settings) -> u64 {
    if settings.samples == Samples::WithBytes {
        slots * 2 + 1
    } else {
        slots
    }
}

impl Bounds {
    fn flows(&self, default: u32, slots: u64) -> u32 {
        let flows = self.flows.unwrap_or(default);
        let bytes_per_flow = FLOW_BYTES + slots * SLOT_BYTES;
        let fitting = self
            .max_memory
            .map_or(u64::MAX, |bytes| bytes / bytes_per_flow);
        u32::try_from(fitting).map_or(flows, |fitting| flows.min(fitting.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bounds_the_flows() {
        let bounds = |flows, max_memory| Bounds { flows, max_memory };
        assert_eq!(bounds(None, None).flows(1000, 4), 1000);
        assert_eq!(bounds(Some(2000), None).flows(1000, 4), 2000);
        assert_eq!(bounds(None, Some(64 << 10)).flows(1000, 4), 151);
        assert_eq!(bounds(Some(100), Some(64 << 20)).flows(1000, 4), 100);
        assert_eq!(bounds(None, Some(u64::MAX)).flows(1000, 4), 1000);
    }
}
