//! Are responses measured on interfaces, and at XDP?

use fathom_measure::response::{ResponseMonitor, Settings};
use fathom_measure::{Measurement as _, Scope};

use crate::doctor::live::{FLOWS, attached, on_loopback};
use crate::doctor::{Checks, Verdict};

pub(super) fn examine(checks: &mut Checks) {
    let start = |has_xdp| {
        let settings = Settings {
            scope: Scope {
                flows: FLOWS,
                ..Scope::live()
            },
            ..Settings::live()
        };
        ResponseMonitor::start(&on_loopback(settings, has_xdp), None, None)
    };
    attached(checks, "response", start(false));
    match start(true) {
        Ok(live) => checks.ok(
            "response",
            "interfaces with --xdp",
            live.describe().concat(),
        ),
        Err(error) => checks.refused("response", "interfaces with --xdp", Verdict::Note, &error),
    }
}
