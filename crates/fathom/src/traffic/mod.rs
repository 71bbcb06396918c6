//! `fathom traffic`: what was asked for, done live or over capture files.

#[cfg(feature = "live")]
mod agent;
mod arguments;
#[cfg(feature = "live")]
mod doctor;
mod files;
#[cfg(feature = "live")]
mod rows;

use fathom_measure::traffic::TrafficRecord;

use crate::Description;
use crate::signals::Signals;
pub(crate) use arguments::TrafficArguments;

/// What others know of it.
pub(crate) const MEASUREMENT: Description = Description {
    name: "traffic",
    kinds: &[TrafficRecord::SCHEMA],
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
    has_samples: false,
    #[cfg(feature = "live")]
    needs_admin: false,
};

/// Measures until there is nothing more, or until it is told to stop.
///
/// # Errors
/// When the measurement cannot begin, when an interface or a file fails, or when the output cannot
/// be written.
pub(crate) fn run(arguments: &TrafficArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    if arguments.source.files.is_empty() {
        live(arguments, &signals)
    } else {
        files::run(arguments, &signals)
    }
}

#[cfg(feature = "live")]
fn live(arguments: &TrafficArguments, signals: &Signals) -> anyhow::Result<()> {
    use fathom_measure::traffic::{Options, Settings, TrafficMonitor};

    use crate::session::{self, Plan, View};
    use crate::table::Ranked;

    let source = &arguments.source;
    let live = TrafficMonitor::start(&Options {
        interfaces: source.interface.clone(),
        has_xdp: source.xdp,
        settings: arguments.settings(&Settings::live()),
    })?;
    let plan = Plan {
        duration: source.duration,
        interval: Some(arguments.interval),
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let open_view = || {
        let lines = arguments.line_options();
        let table = Ranked::new(rows::FlowRows::new(), &source.interface);
        View::open(
            lines,
            (!arguments.line_options().is_asked_for()).then_some(table),
            signals,
        )
    };
    session::run(vec![Box::new(live)], &plan, open_view, signals)
}

#[cfg(not(feature = "live"))]
fn live(_: &TrafficArguments, _: &Signals) -> anyhow::Result<()> {
    anyhow::bail!(crate::FILES_ONLY)
}
