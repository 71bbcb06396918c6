//! `fathom doctor`: what this kernel, these privileges and this machine allow, and what to do about the rest.

#[cfg(feature = "live")]
mod balance;
mod echo;
#[cfg(feature = "live")]
mod hops;
#[cfg(feature = "live")]
mod live;
mod machine;
#[cfg(feature = "live")]
mod profile;
mod report;

use std::process::ExitCode;

use fathom_record::{Time, record};

use crate::arguments::DoctorArguments;
use crate::output::{Backlog, Output, OutputFormat};
use crate::signals::Signals;

record! {
    /// What was found out about one thing that measuring needs.
    #[record = "check"]
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Check {
        /// When it was found out.
        pub time: Time,
        /// `machine`, or the measurement that it is about.
        #[field(bare)]
        pub about: &'static str,
        /// What was looked at.
        #[field(bare)]
        pub subject: String,
        /// `ok`; `note` when it works, but not as well as it could; `no` when it does not.
        #[field(bare)]
        pub verdict: &'static str,
        /// What was found.
        #[field(bare)]
        pub found: String,
        /// What to do about it.
        #[field(bare)]
        pub remedy: Option<String>,
    }
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Note,
    No,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::No => "no",
        }
    }
}

/// Checks, as they are found.
struct Checks {
    time: Time,
    list: Vec<Check>,
    /// Is there a measurement that can run?
    can_measure: bool,
}

impl Checks {
    fn add(
        &mut self,
        about: &'static str,
        subject: &str,
        verdict: Verdict,
        found: impl Into<String>,
    ) -> &mut Check {
        self.list.push(Check {
            time: self.time,
            about,
            subject: subject.to_owned(),
            verdict: verdict.name(),
            found: found.into(),
            remedy: None,
        });
        // There is one: it was just added.
        let last = self.list.len() - 1;
        &mut self.list[last]
    }
}

impl Check {
    fn remedy(&mut self, remedy: impl Into<String>) {
        self.remedy = Some(remedy.into());
    }
}

/// Looks, and tells; the status is 1 when nothing can be measured.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let format = OutputFormat::from(arguments.format);
    let mut output = Output::open(None, format, Backlog::Short, &Signals::default())?;
    if format.is_for_programs() {
        checks.list.iter().for_each(|check| output.put(check));
    } else {
        output.put_text(&report::report(&checks.list));
    }
    output.finish()?;
    Ok(if checks.can_measure {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn examine() -> Checks {
    let mut checks = Checks {
        time: Time::now(),
        list: Vec::new(),
        can_measure: false,
    };
    machine::examine(&mut checks);
    echo::examine(&mut checks);
    #[cfg(feature = "live")]
    {
        live::examine(&mut checks);
        hops::examine(&mut checks);
        profile::examine(&mut checks);
        balance::examine(&mut checks);
    }
    #[cfg(not(feature = "live"))]
    checks
        .add(
            "rtt",
            "interfaces",
            Verdict::No,
            "this fathom was built for capture files only",
        )
        .remedy("build it with the feature `live`");
    checks
}

/// What cannot be measured, and what to do about it.
#[cfg(feature = "live")]
fn refused(checks: &mut Checks, about: &'static str, subject: &str, error: &fathom_measure::Error) {
    use fathom_measure::Error;

    match error {
        Error::Unsupported {
            needs,
            found,
            remedy,
        } => {
            checks
                .add(about, subject, Verdict::No, format!("{needs}, but {found}"))
                .remedy(remedy);
        }
        error => {
            checks
                .add(about, subject, Verdict::No, chain(error))
                .remedy("see what the machine lacks, above");
        }
    }
}

#[cfg(feature = "live")]
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_can_always_be_measured() {
        let checks = examine();
        assert!(checks.can_measure);
        let files = checks
            .list
            .iter()
            .find(|check| check.subject == "capture files")
            .unwrap();
        assert_eq!(files.verdict, "ok");
    }
}
