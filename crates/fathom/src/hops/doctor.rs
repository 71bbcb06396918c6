//! Are paths probed? The programs are loaded, and attached to the loopback interface for a moment,
//! where nothing is selected.

use std::time::Duration;

use fathom_measure::hops::{Options, Owner, Prober, Rate, Settings, UserPrograms};
use fathom_measure::{Error, Measurement as _, Selection};
use fathom_record::Network;

use crate::doctor::{Checks, Verdict};

/// Nobody is there (RFC 5737).
const NOWHERE: &str = "192.0.2.0/24";

pub(super) fn examine(checks: &mut Checks) {
    let owner = Owner {
        name: Some("nobody".to_owned()),
        ancestor: None,
    };
    let refused = match start(owner) {
        Ok(way) => {
            checks.ok("hops", "probing", way);
            let found = "flows of a process can be told apart";
            checks.ok("hops", "selecting processes", found);
            return;
        }
        Err(error) => error,
    };
    // Without processes less is needed.
    match start(Owner::default()) {
        Ok(way) => {
            checks.ok("hops", "probing", way);
            checks.refused("hops", "selecting processes", Verdict::Note, &refused);
        }
        Err(error) => checks.refused("hops", "probing", Verdict::No, &error),
    }
}

/// How the programs were attached.
fn start(owner: Owner) -> Result<String, Error> {
    let nowhere: Option<Network> = NOWHERE.parse().ok();
    let prober = Prober::start(&Options {
        interfaces: vec!["lo".to_owned()],
        selection: Selection {
            networks: nowhere.into_iter().collect(),
            ..Selection::default()
        },
        group: None,
        owner,
        budget: 1,
        destination_budget: 1,
        keeps_answers: true,
        is_full_size: false,
        programs: UserPrograms::default(),
        settings: Settings {
            rate: Rate::default(),
            highest_ttl: 1,
            timeout: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            idle: Duration::ZERO,
            has_probes: false,
            is_own_flow: false,
        },
    })?;
    Ok(prober.describe().concat())
}
