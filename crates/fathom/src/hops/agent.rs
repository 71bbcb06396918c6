//! What the agent runs of it: the paths of flows that leave.

use clap::FromArgMatches;

use super::HopsArguments;
use crate::agent::{Part, Request};

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let mut arguments = HopsArguments::from_arg_matches(request.options)?;
    arguments.interface = request.interfaces.to_vec();
    if let Some(interval) = request.interval {
        arguments.output.interval = interval;
    }
    Ok(Part::Alone(Box::new(move || {
        Ok(Box::new(super::start(&arguments, false)?))
    })))
}
