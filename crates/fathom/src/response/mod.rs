//! `fathom response`: what was asked for, done live or over capture files.

mod arguments;
#[cfg(feature = "live")]
mod doctor;
mod files;
mod groups;
mod request;
mod summary;

use fathom_measure::response::{ResponseAggregate, ResponseEpoch, ResponseWait};

use crate::Measurement;
use crate::signals::Signals;

/// What others know of it.
pub(crate) const MEASUREMENT: Measurement = Measurement {
    name: "response",
    kinds: &[
        ResponseEpoch::SCHEMA,
        ResponseAggregate::SCHEMA,
        ResponseWait::SCHEMA,
    ],
    #[cfg(feature = "live")]
    examine: doctor::examine,
    #[cfg(not(feature = "live"))]
    examine: |_| {},
};

/// Measures until there is nothing more, or until it is told to stop.
///
/// # Errors
/// When the measurement cannot begin, when an interface or a file fails, or when the output cannot be written.
pub(crate) fn run(arguments: &ResponseArguments) -> anyhow::Result<()> {
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
pub(crate) use arguments::ResponseArguments;
#[cfg(feature = "live")]
use live::run as live;

#[cfg(not(feature = "live"))]
fn live(_: &ResponseArguments, _: &Signals) -> anyhow::Result<()> {
    anyhow::bail!(
        "this fathom reads capture files only: build it with the feature `live` to measure on interfaces"
    )
}
