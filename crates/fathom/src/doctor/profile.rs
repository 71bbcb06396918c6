//! Are connections profiled? Both sets of probes are loaded.

use fathom_measure::profile::{Probes, available};

use super::{Checks, Verdict, refused};

pub(super) fn examine(checks: &mut Checks) {
    match available() {
        Ok(sets) => {
            for set in &sets {
                tell(checks, set);
            }
        }
        Err(error) => refused(checks, "profile", "probes", &error),
    }
}

fn tell(checks: &mut Checks, set: &Probes) {
    let subject = format!("{} probes", set.set);
    if let Some(why) = &set.refusal {
        // One set is enough.
        checks.add("profile", &subject, Verdict::Note, why.as_str());
        return;
    }
    checks.can_measure = true;
    if set.missing.is_empty() {
        checks.add("profile", &subject, Verdict::Ok, "all numbers");
        return;
    }
    let missing: Vec<_> = set
        .missing
        .iter()
        .map(|(indicator, _)| indicator.about())
        .collect();
    checks
        .add(
            "profile",
            &subject,
            Verdict::Note,
            format!("without {}", missing.join("; ")),
        )
        .remedy("`fathom profile --probes` says why");
}
