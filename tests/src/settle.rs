//! Waiting until the lab is quiet.

use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_lab::{Topology, Totals, Way, wait_until};

/// Longer than any pause within a conversation that is about to end, delays of the links included.
const QUIET: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until no packet is in the links and none has entered them for a while: late
/// acknowledgements and closes have passed, and whatever measures has seen them.
pub fn settle(lab: &Topology) -> Result<()> {
    let mut last = totals(lab);
    let mut since = Instant::now();
    wait_until(PATIENCE, "the lab to become quiet", || {
        let now = totals(lab);
        if now != last || now.iter().any(|half| half.read != half.settled()) {
            last = now;
            since = Instant::now();
        }
        since.elapsed() >= QUIET
    })?;
    Ok(())
}

fn totals(lab: &Topology) -> [Totals; 4] {
    let (lan, wan) = (&lab.lan, &lab.wan);
    [
        lan.totals(Way::Forward),
        lan.totals(Way::Backward),
        wan.totals(Way::Forward),
        wan.totals(Way::Backward),
    ]
}
