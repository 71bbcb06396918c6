//! The checks as people read them.

use std::fmt::Write as _;

use super::Check;

/// A headline for everything that checks are about, then a line a check, and what to do below it.
pub(super) fn report(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|check| check.subject.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    let mut about = "";
    // Writing to memory does not fail.
    for check in checks {
        if check.about != about {
            about = check.about;
            let _ = writeln!(text, "{about}");
        }
        let found = check.found.replace('\n', "\n        ");
        let _ = writeln!(
            text,
            "  {:<4}  {:width$}  {found}",
            check.verdict, check.subject
        );
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "  {:<4}  {:width$}  -> {remedy}", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_record::Time;

    use super::*;

    #[test]
    fn what_to_do_stands_below() {
        let check = |about, subject: &str, verdict, remedy: Option<&str>| Check {
            time: Time(0),
            about,
            subject: subject.to_owned(),
            verdict,
            found: "found".to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let checks = [
            check("machine", "kernel", "ok", None),
            check("rtt", "interfaces", "no", Some("do this")),
        ];
        assert_eq!(
            report(&checks),
            "machine\n  ok    kernel      found\nrtt\n  no    interfaces  found\n                    -> do this\n"
        );
    }
}
