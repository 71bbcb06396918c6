//! What the agent runs of it: a record of each flow and interval, or its epochs.

use clap::FromArgMatches;
use fathom_measure::kernel::{Hooks, OfPackets};
use fathom_measure::response::{GroupBy, Grouping, ResponseMonitor, Settings};
use fathom_measure::{Error, Measurement};

use super::ResponseArguments;
use crate::agent::{Part, Request, Shared};

struct Flows {
    settings: Settings,
    grouping: Option<Grouping>,
}

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let arguments = ResponseArguments::from_arg_matches(request.options)?;
    let prefixes = &arguments.groups.prefixes;
    let mut settings = arguments.settings_for_interfaces();
    if let Some(scope) = request.scope {
        settings.scope = scope.clone();
    }
    Ok(Part::OfPackets(Box::new(Flows {
        settings,
        grouping: request.interval.map(|_| Grouping {
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
        let monitor = ResponseMonitor::of(hooks, &self.settings, self.grouping, None)?;
        Ok(Box::new(monitor))
    }
}
