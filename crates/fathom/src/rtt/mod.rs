//! `fathom rtt`: what was asked for, done live or over capture files.

mod arguments;
mod doctor;
mod files;
mod intervals;
mod lines;
mod ppviz;
mod request;
mod summary;

use fathom_measure::rtt::{RttAggregate, RttFlow, RttSample};

use crate::Measurement;
use crate::signals::Signals;

/// What others know of it.
pub(crate) const MEASUREMENT: Measurement = Measurement {
    name: "rtt",
    kinds: &[RttSample::SCHEMA, RttFlow::SCHEMA, RttAggregate::SCHEMA],
    examine: doctor::examine,
};

/// Measures until there is nothing more, or until it is told to stop.
///
/// # Errors
/// When the measurement cannot begin, when an interface or a file fails, or when the output cannot be written.
pub(crate) fn run(arguments: &RttArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.place.output.is_some())?;
    if arguments.source.files.is_empty() {
        live(arguments, &signals)
    } else {
        files::run(arguments, &signals)
    }
}

#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod table;
#[cfg(feature = "live")]
mod view;
pub(crate) use arguments::RttArguments;
#[cfg(feature = "live")]
use live::run as live;

#[cfg(not(feature = "live"))]
fn live(_: &RttArguments, _: &Signals) -> anyhow::Result<()> {
    anyhow::bail!(
        "this fathom reads capture files only: build it with the feature `live` to measure on interfaces"
    )
}
