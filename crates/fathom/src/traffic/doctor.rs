//! Are throughput and loss measured on interfaces, and at XDP?

use fathom_measure::traffic::{Settings, TrafficMonitor};
use fathom_measure::{Measurement as _, Scope};

use super::MEASUREMENT;
use crate::doctor::live::{FLOWS, attached, on_loopback};
use crate::doctor::{Checks, Verdict};

pub(super) fn examine(checks: &mut Checks) {
    const XDP: &str = "interfaces with --xdp";

    let start = |has_xdp| {
        let settings = Settings {
            scope: Scope {
                flows: FLOWS,
                ..Scope::live()
            },
        };
        TrafficMonitor::start(&on_loopback(settings, has_xdp))
    };
    attached(checks, MEASUREMENT.name, start(false));
    match start(true) {
        Ok(live) => checks.ok(MEASUREMENT.name, XDP, live.describe().concat()),
        Err(error) => checks.refused(MEASUREMENT.name, XDP, Verdict::Note, &error),
    }
}
