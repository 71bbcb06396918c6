//! What the agent runs of it: all connections of this host, and its DNS exchanges.

use clap::FromArgMatches;

use super::ProfileArguments;
use crate::agent::{Part, Request};

pub(super) fn part(request: &Request<'_>) -> anyhow::Result<Part> {
    let arguments = ProfileArguments {
        coalesce: true,
        dns: true,
        ..ProfileArguments::from_arg_matches(request.options)?
    };
    Ok(Part::Alone(Box::new(move || super::start(&arguments))))
}
