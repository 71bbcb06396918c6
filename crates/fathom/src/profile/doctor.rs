//! Are connections profiled? Both sets of probes are loaded.

use fathom_measure::profile::{Probes, available};

use super::{Checks, Verdict};

pub(super) fn examine(checks: &mut Checks) {
    match available() {
        Ok(sets) => sets.iter().for_each(|set| tell(checks, set)),
        Err(error) => checks.refused("profile", "probes", Verdict::No, &error),
    }
}

fn tell(checks: &mut Checks, set: &Probes) {
    let subject = format!("{} probes", set.set);
    let missing: Vec<_> = set
        .missing
        .iter()
        .map(|(indicator, _)| indicator.about())
        .collect();
    match &set.refusal {
        Some(why) => checks.note(
            "profile",
            &subject,
            why,
            "nothing must be done: the other set is enough",
        ),
        None if missing.is_empty() => checks.ok("profile", &subject, "all numbers"),
        None => checks.note(
            "profile",
            &subject,
            format!("without {}", missing.join("; ")),
            "`fathom profile --probes` says why",
        ),
    }
}
