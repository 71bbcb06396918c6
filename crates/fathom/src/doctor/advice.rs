//! What to do next, by what was found.

use super::{Check, Verdict};
use crate::MEASUREMENTS;

/// A line or two for the end; `command` is one to begin with.
pub(super) fn next(checks: &[Check], command: &str) -> String {
    let is_no = |check: &&Check| check.verdict == Verdict::No.name();
    let remedy = checks
        .iter()
        .find(is_no)
        .and_then(|no| no.remedy.as_deref());
    let Some(remedy) = remedy else {
        return format!("\nAll measurements work. Next: {command}\n");
    };
    let fails = |about: &&str| checks.iter().filter(is_no).any(|no| no.about == *about);
    let (broken, sound): (Vec<&str>, Vec<&str>) = names().partition(fails);
    let state = match (broken.as_slice(), sound.as_slice()) {
        ([], _) => format!("All measurements work all the same: {command}"),
        (_, []) => "Nothing can be measured live; capture files can be: fathom rtt FILE".to_owned(),
        _ => format!("{} work live, {} not.", sound.join(", "), broken.join(", ")),
    };
    format!("\n{state}\nNext: {remedy}\n")
}

/// What needs nothing but to be called.
fn names() -> impl Iterator<Item = &'static str> {
    MEASUREMENTS.iter().map(|measurement| measurement.name)
}

#[cfg(test)]
mod tests {
    use fathom_record::Time;

    use super::*;

    #[test]
    fn the_end_says_what_to_do_next() {
        let check = |about, verdict: Verdict, remedy: &str| Check {
            time: Time(0),
            about,
            subject: String::new(),
            verdict: verdict.name(),
            found: String::new(),
            remedy: Some(remedy.to_owned()),
        };
        let with = |broken: &[&'static str]| {
            let mut checks = vec![check("rtt", Verdict::Note, "this is no obstacle")];
            checks.extend(
                broken
                    .iter()
                    .map(|about| check(about, Verdict::No, "do this")),
            );
            next(&checks, "fathom rtt -i eth0")
        };
        assert_eq!(
            with(&[]),
            "\nAll measurements work. Next: fathom rtt -i eth0\n"
        );
        let (first, others): (Vec<_>, Vec<_>) = names().partition(|name| *name == "rtt");
        let others = others.join(", ");
        assert_eq!(
            with(&first),
            format!("\n{others} work live, rtt not.\nNext: do this\n")
        );
        assert_eq!(
            with(&names().collect::<Vec<_>>()),
            "\nNothing can be measured live; capture files can be: fathom rtt FILE\nNext: do this\n"
        );
        assert_eq!(
            with(&["machine"]),
            "\nAll measurements work all the same: fathom rtt -i eth0\nNext: do this\n"
        );
    }
}
