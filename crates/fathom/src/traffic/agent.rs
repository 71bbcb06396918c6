//! What the agent runs of it: a record of each flow and interval.

use clap::FromArgMatches;
use fathom_measure::kernel::{Hooks, OfPackets};
use fathom_measure::traffic::{Settings, TrafficMonitor};
use fathom_measure::{Error, Measurement};

use super::TrafficArguments;
use crate::agent::{Part, Request, Shared};

struct Flows(Settings);

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let arguments = TrafficArguments::from_arg_matches(request.options)?;
    let settings = arguments.settings(&Settings::live());
    Ok(Part::OfPackets(Box::new(Flows(settings))))
}

impl Shared for Flows {
    fn settings(&self) -> &dyn OfPackets {
        &self.0
    }

    fn start(&self, hooks: &Hooks) -> Result<Box<dyn Measurement>, Error> {
        Ok(Box::new(TrafficMonitor::of(hooks)?))
    }
}
