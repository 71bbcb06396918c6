//! Are interfaces measured? The programs are loaded, and attached to the loopback interface for a moment.

use fathom_measure::live::{self, Live, Options};
use fathom_measure::response;
use fathom_measure::rtt::Settings;

use super::{Checks, Verdict, refused};

const LOOPBACK: &str = "lo";

pub(super) fn examine(checks: &mut Checks) {
    // The default measurement, but for the room: this one is over at once.
    let settings = Settings {
        flows: 1024,
        ..Settings::live()
    };
    if let Err(error) = live::probe(&settings) {
        refused(checks, "rtt", "interfaces", &error);
        return;
    }
    checks.add(
        "rtt",
        "interfaces",
        Verdict::Ok,
        "the kernel takes the programs",
    );
    attaching(checks, &settings);
    interfaces(checks);
    responses(checks);
}

fn responses(checks: &mut Checks) {
    let settings = response::Settings {
        flows: 1024,
        ..response::Settings::live()
    };
    match response::probe(&settings) {
        Ok(()) => {
            let text = "the kernel takes the programs; they are attached as those of rtt are";
            checks.add("response", "interfaces", Verdict::Ok, text);
        }
        Err(error) => refused(checks, "response", "interfaces", &error),
    }
}

fn attaching(checks: &mut Checks, settings: &Settings) {
    let start = |has_xdp| {
        let interfaces = vec![LOOPBACK.to_owned()];
        let options = Options {
            interfaces,
            has_xdp,
            settings: settings.clone(),
        };
        Live::start(&options).map(|live| live.describe().collect::<String>())
    };
    match start(false) {
        Ok(way) if way.contains("tcx") => {
            checks.can_measure = true;
            checks.add("rtt", "attaching", Verdict::Ok, way);
        }
        Ok(way) => {
            checks.can_measure = true;
            checks
                .add("rtt", "attaching", Verdict::Note, way)
                .remedy("nothing must be done; from Linux 6.6 on tcx links are used, which go with the process that made them");
        }
        Err(error) => refused(checks, "rtt", "attaching", &error),
    }
    match start(true) {
        Ok(way) => {
            checks.add("rtt", "attaching with --xdp", Verdict::Ok, way);
        }
        Err(error) => refused(checks, "rtt", "attaching with --xdp", &error),
    }
}

fn interfaces(checks: &mut Checks) {
    for name in live::interface_names() {
        let subject = format!("interface {name}");
        match live::examine(&name) {
            Ok(()) => {
                checks.add(
                    "rtt",
                    &subject,
                    Verdict::Ok,
                    format!("fathom rtt -i {name}"),
                );
            }
            Err(error) => refused(checks, "rtt", &subject, &error),
        }
    }
}
