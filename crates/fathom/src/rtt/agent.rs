//! What the agent runs of it: a record of each flow, direction and interval.

use clap::FromArgMatches;
use fathom_measure::kernel::{Hooks, OfPackets};
use fathom_measure::rtt::{Aggregation, GroupBy, RttMonitor, Settings};
use fathom_measure::{Error, Measurement};

use super::RttArguments;
use crate::agent::{Part, Request, Shared};

struct Flows {
    settings: Settings,
    aggregation: Aggregation,
}

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let arguments = RttArguments::from_arg_matches(request.options)?;
    let prefixes = &arguments.aggregation.prefixes;
    Ok(Part::OfPackets(Box::new(Flows {
        settings: arguments.settings_for_interfaces(),
        aggregation: Aggregation {
            interval: request.interval,
            by: GroupBy::Flow,
            prefix_v4: prefixes.prefix_v4,
            prefix_v6: prefixes.prefix_v6,
        },
    })))
}

impl Shared for Flows {
    fn settings(&self) -> &dyn OfPackets {
        &self.settings
    }

    fn start(&self, hooks: &Hooks) -> Result<Box<dyn Measurement>, Error> {
        let monitor = RttMonitor::of(hooks, &self.settings, Some(self.aggregation))?;
        Ok(Box::new(monitor))
    }
}
