//! `fathom response`: what was asked for, done live or over capture files.

#[cfg(feature = "live")]
mod agent;
mod arguments;
#[cfg(feature = "live")]
mod doctor;
mod files;
mod groups;
mod request;
#[cfg(feature = "live")]
mod rows;

use fathom_measure::response::{ResponseAggregate, ResponseEpoch, ResponseWait};

use crate::Description;
use crate::signals::Signals;
pub(crate) use arguments::ResponseArguments;

/// What others know of it.
pub(crate) const MEASUREMENT: Description = Description {
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
    import: Some(files::import),
    #[cfg(feature = "live")]
    agent: Some(agent::part),
    #[cfg(feature = "live")]
    is_active: false,
    #[cfg(feature = "live")]
    has_samples: true,
    #[cfg(feature = "live")]
    needs_admin: false,
};

/// Measures until there is nothing more, or until it is told to stop.
///
/// # Errors
/// When the measurement cannot begin, when an interface or a file fails, or when the output cannot
/// be written.
pub(crate) fn run(arguments: &ResponseArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    if arguments.source.files.is_empty() {
        live(arguments, &signals)
    } else {
        files::run(arguments, &signals)
    }
}

#[cfg(feature = "live")]
fn live(arguments: &ResponseArguments, signals: &Signals) -> anyhow::Result<()> {
    use fathom_measure::response::{Options, ResponseMonitor};

    use crate::session::{self, Plan, View};
    use crate::table::Ranked;

    let source = &arguments.source;
    let grouping = arguments.grouping();
    let options = Options {
        interfaces: source.interface.clone(),
        has_xdp: source.xdp,
        settings: arguments.settings_for_interfaces(),
    };
    let live = ResponseMonitor::start(&options, grouping, arguments.estimation.waiting)?;
    let plan = Plan {
        duration: source.duration,
        interval: grouping.map(|_| arguments.groups.interval),
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let open_view = || {
        let lines = arguments.line_options();
        let asks_for_lines = lines.is_asked_for() || grouping.is_some();
        let table = Ranked::new(rows::ServiceRows::new(), &source.interface);
        View::open(lines, (!asks_for_lines).then_some(table), signals)
    };
    session::run(vec![Box::new(live)], &plan, open_view, signals)
}

#[cfg(not(feature = "live"))]
fn live(_: &ResponseArguments, _: &Signals) -> anyhow::Result<()> {
    anyhow::bail!(crate::FILES_ONLY)
}
