//! What the agent runs of it: a record of each flow, direction and interval,
//! or its samples.

use std::time::Duration;

use clap::FromArgMatches;
use fathom_measure::kernel::{Hooks, OfPackets};
use fathom_measure::rtt::{Aggregation, GroupBy, RttMonitor, Samples, Settings};
use fathom_measure::{Error, Measurement};

use super::RttArguments;
use crate::agent::{Part, Request, Shared};

struct Flows {
    settings: Settings,
    aggregation: Option<Aggregation>,
}

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let mut arguments = RttArguments::from_arg_matches(request.options)?;
    if request.interval.is_none() {
        // Whoever asks for samples wants all of them.
        arguments.sampling.sample_interval = Some(Duration::ZERO);
    }
    let prefixes = &arguments.aggregation.prefixes;
    let mut settings = arguments.settings_for_interfaces();
    if request.interval.is_some() {
        settings.samples = Samples::InBatches;
    }
    if let Some(scope) = request.scope {
        settings.scope = scope.clone();
    }
    Ok(Part::OfPackets(Box::new(Flows {
        settings,
        aggregation: request.interval.map(|interval| Aggregation {
            interval,
            by: GroupBy::Flow,
            prefix_v4: prefixes.prefix_v4,
            prefix_v6: prefixes.prefix_v6,
        }),
    })))
}

impl Shared for Flows {
    fn settings(&self) -> &dyn OfPackets {
        &self.settings
    }

    fn start(&self, hooks: &Hooks) -> Result<Box<dyn Measurement>, Error> {
        let mut monitor = RttMonitor::of(hooks, &self.settings, self.aggregation)?;
        if self.aggregation.is_some() && !self.settings.sample_interval.is_zero() {
            monitor.pace_samples(&self.settings)?;
        }
        Ok(Box::new(monitor))
    }
}
