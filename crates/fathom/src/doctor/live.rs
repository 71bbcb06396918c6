//! Are interfaces measured? A program is loaded, and attached to the loopback interface for a
//! moment: that of one hook stands for those of the others, which do the same.

use fathom_measure::kernel::{Options, any_interfaces};
use fathom_measure::{Error, Measurement};

use super::{Checks, Verdict};

const LOOPBACK: &str = "lo";
/// Room for flows: this measurement is over at once.
pub(crate) const FLOWS: u32 = 1024;

/// To measure on the loopback interface.
pub(crate) fn on_loopback<S>(settings: S, has_xdp: bool) -> Options<S> {
    Options {
        interfaces: vec![LOOPBACK.to_owned()],
        has_xdp,
        settings,
    }
}

/// Tells how programs were attached.
pub(crate) fn attached(
    checks: &mut Checks,
    about: &'static str,
    started: Result<impl Measurement, Error>,
) {
    match started.map(|measurement| measurement.describe().concat()) {
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

/// One that is worth a look: the loopback interface only if there is no other.
pub(super) fn first_interface() -> String {
    let others = any_interfaces().into_iter();
    others
        .chain([LOOPBACK.to_owned()])
        .next()
        .unwrap_or_default()
}
