//! Are responses measured on interfaces, and at XDP?

use fathom_measure::Error;
use fathom_measure::response::{Live, Settings};

use crate::doctor::live::{FLOWS, attached, on_loopback};
use crate::doctor::{Checks, Verdict};

pub(super) fn examine(checks: &mut Checks) {
    let start = |has_xdp| {
        let settings = Settings {
            flows: FLOWS,
            ..Settings::live()
        };
        let live = Live::start(&on_loopback(settings, has_xdp))?;
        Ok::<String, Error>(live.describe().collect())
    };
    attached(checks, "response", start(false));
    match start(true) {
        Ok(way) => checks.ok("response", "interfaces with --xdp", way),
        Err(error) => checks.refused("response", "interfaces with --xdp", Verdict::Note, &error),
    }
}
