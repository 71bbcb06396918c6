//! Are interfaces measured? A program is loaded, and attached to the loopback interface for a moment: that of one hook stands for those of the others,
//! which do the same.

use fathom_measure::Error;
use fathom_measure::kernel::{self, Options};
use fathom_measure::{response, rtt};

use super::{Checks, Verdict};

const LOOPBACK: &str = "lo";
/// Room for flows: this measurement is over at once.
const FLOWS: u32 = 1024;

pub(super) fn round_trips(checks: &mut Checks) {
    let settings = rtt::Settings {
        flows: FLOWS,
        ..rtt::Settings::live()
    };
    let started = rtt::Live::start(&on_loopback(settings, false));
    attached(checks, "rtt", started.map(|live| live.describe().collect()));
    interfaces(checks);
}

pub(super) fn responses(checks: &mut Checks) {
    let start = |has_xdp| {
        let settings = response::Settings {
            flows: FLOWS,
            ..response::Settings::live()
        };
        let live = response::Live::start(&on_loopback(settings, has_xdp))?;
        Ok::<String, Error>(live.describe().collect())
    };
    attached(checks, "response", start(false));
    match start(true) {
        Ok(way) => checks.ok("response", "interfaces with --xdp", way),
        Err(error) => checks.refused("response", "interfaces with --xdp", Verdict::Note, &error),
    }
}

fn on_loopback<S>(settings: S, has_xdp: bool) -> Options<S> {
    Options {
        interfaces: vec![LOOPBACK.to_owned()],
        has_xdp,
        settings,
    }
}

fn attached(checks: &mut Checks, about: &'static str, way: Result<String, Error>) {
    match way {
        Ok(way) if way.contains("tcx") => checks.ok(about, "interfaces", way),
        Ok(way) => checks.note(
            about,
            "interfaces",
            way,
            "nothing must be done; from Linux 6.6 on tcx links are used, which go with the process that made them",
        ),
        Err(error) => checks.refused(about, "interfaces", Verdict::No, &error),
    }
}

fn interfaces(checks: &mut Checks) {
    let mut measurable = Vec::new();
    for name in kernel::interface_names() {
        match kernel::examine(&name) {
            Ok(()) => measurable.push(name),
            Err(error) => {
                checks.refused("rtt", &format!("interface {name}"), Verdict::Note, &error);
            }
        }
    }
    checks.ok("rtt", "interfaces here", measurable.join(", "));
}

/// One that is worth a look: the loopback interface only if there is no other.
pub(super) fn first_interface() -> String {
    let others = kernel::any_interfaces().into_iter();
    others
        .chain([LOOPBACK.to_owned()])
        .next()
        .unwrap_or_default()
}
