//! `fathom rtt`: what was asked for, done live or over capture files.

#[cfg(feature = "live")]
mod agent;
mod arguments;
mod doctor;
mod files;
mod intervals;
mod ppviz;
mod request;
#[cfg(feature = "live")]
mod rows;

use fathom_measure::rtt::{RttAggregate, RttFlow, RttSample};

use crate::Description;
use crate::signals::Signals;
pub(crate) use arguments::RttArguments;

/// What others know of it.
pub(crate) const MEASUREMENT: Description = Description {
    name: "rtt",
    kinds: &[RttSample::SCHEMA, RttFlow::SCHEMA, RttAggregate::SCHEMA],
    examine: doctor::examine,
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
pub(crate) fn run(arguments: &RttArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    if arguments.source.files.is_empty() {
        live(arguments, &signals)
    } else {
        files::run(arguments, &signals)
    }
}

#[cfg(feature = "live")]
fn live(arguments: &RttArguments, signals: &Signals) -> anyhow::Result<()> {
    use fathom_measure::rtt::{Options, RttMonitor, Samples};

    use crate::session::{self, Plan, View};
    use crate::table::Ranked;

    let source = &arguments.source;
    let mut settings = arguments.settings_for_interfaces();
    if arguments.aggregation.interval.is_some() && settings.samples == Samples::Single {
        settings.samples = Samples::InBatches;
    }
    let options = Options {
        interfaces: source.interface.clone(),
        has_xdp: source.xdp,
        settings,
    };
    let live = RttMonitor::start(&options, arguments.aggregation())?;
    let plan = Plan {
        duration: source.duration,
        interval: arguments.aggregation.interval,
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let open_view = || {
        let lines = arguments.line_options();
        let asks_for_lines =
            lines.is_asked_for() || arguments.output.events || plan.interval.is_some();
        let table = Ranked::new(rows::FlowRows::new(), &source.interface);
        View::open(lines, (!asks_for_lines).then_some(table), signals)
    };
    session::run(vec![Box::new(live)], &plan, open_view, signals)
}

#[cfg(not(feature = "live"))]
fn live(_: &RttArguments, _: &Signals) -> anyhow::Result<()> {
    anyhow::bail!(crate::FILES_ONLY)
}
