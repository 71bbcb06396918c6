//! `fathom doctor`: what this kernel, these privileges and this machine allow, and what to do about
//! the rest.

mod advice;
#[cfg(feature = "live")]
pub(crate) mod live;
mod machine;
mod report;

use std::process::ExitCode;

use fathom_record::format::Format;
use fathom_record::{Time, record};

use crate::MEASUREMENTS;
use crate::arguments::{DoctorArguments, OutputTarget};
use crate::output::{Backlog, Output};
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
        /// `ok`; `note` when it works, but not as well as it could, or when not every use needs it;
        /// `no` when it does not work.
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
pub(crate) enum Verdict {
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
pub(crate) struct Checks {
    time: Time,
    list: Vec<Check>,
}

impl Checks {
    fn new(time: Time) -> Self {
        Self {
            time,
            list: Vec::new(),
        }
    }

    /// It works.
    pub(crate) fn ok(&mut self, about: &'static str, subject: &str, found: impl Into<String>) {
        self.add(about, subject, Verdict::Ok, found.into(), None);
    }

    /// It works, but not as well as it could, or not every use needs it.
    pub(crate) fn note(
        &mut self,
        about: &'static str,
        subject: &str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(
            about,
            subject,
            Verdict::Note,
            found.into(),
            Some(remedy.into()),
        );
    }

    /// It does not work.
    pub(crate) fn no(
        &mut self,
        about: &'static str,
        subject: &str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(
            about,
            subject,
            Verdict::No,
            found.into(),
            Some(remedy.into()),
        );
    }

    fn add(
        &mut self,
        about: &'static str,
        subject: &str,
        verdict: Verdict,
        found: String,
        remedy: Option<String>,
    ) {
        self.list.push(Check {
            time: self.time,
            about,
            subject: subject.to_owned(),
            verdict: verdict.name(),
            found,
            remedy,
        });
    }

    /// What cannot be measured, and what to do about it.
    #[cfg(feature = "live")]
    pub(crate) fn refused(
        &mut self,
        about: &'static str,
        subject: &str,
        verdict: Verdict,
        error: &fathom_measure::Error,
    ) {
        use fathom_measure::Error;

        let (found, remedy) = match error {
            Error::Unsupported {
                needs,
                found,
                remedy,
            } => (format!("{needs}, but {found}"), remedy.clone()),
            error => (chain(error), REPORT.to_owned()),
        };
        self.add(about, subject, verdict, found, Some(remedy));
    }
}

/// Where the kernel says something that nobody expected.
#[cfg(feature = "live")]
pub(crate) const REPORT: &str =
    "see what the machine lacks, above; if it lacks nothing, report this with the kernel's version";

/// Looks, and tells; the status is 1 when a measurement does not work as it is.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let format = arguments.format;
    let mut output = Output::open(
        &OutputTarget::default(),
        format,
        Check::SCHEMA,
        Backlog::Short,
        &Signals::default(),
    )?;
    if format == Format::Text {
        output.put_text(&report::report(&checks));
        output.put_text(&advice::next(&checks, &first_command()));
    } else {
        for check in &checks {
            output.put(check);
        }
    }
    output.finish()?;
    let is_no = |check: &Check| check.verdict == Verdict::No.name();
    Ok(if checks.iter().any(is_no) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Each measurement at the same time: nearly all of it is that which the kernel takes to verify
/// programs.
fn examine() -> Vec<Check> {
    let time = Time::now();
    let examiners = MEASUREMENTS.iter().map(|measurement| measurement.examine);
    #[cfg(feature = "live")]
    let examiners = examiners.chain([crate::balance::doctor::examine as fn(&mut Checks)]);
    let mut checks = Checks::new(time);
    machine::examine(&mut checks);
    let lists = std::thread::scope(|scope| {
        let threads: Vec<_> = examiners
            .map(|examine| {
                scope.spawn(move || {
                    let mut checks = Checks::new(time);
                    examine(&mut checks);
                    checks.list
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Vec<_>>()
    });
    checks.list.extend(lists.into_iter().flatten());
    checks.list
}

/// One to begin with here.
fn first_command() -> String {
    #[cfg(feature = "live")]
    return format!("fathom rtt -i {}", live::first_interface());
    #[cfg(not(feature = "live"))]
    "fathom rtt FILE".to_owned()
}

#[cfg(feature = "live")]
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
    fn what_is_not_ok_has_a_remedy() {
        let checks = examine();
        for check in &checks {
            assert_eq!(check.remedy.is_none(), check.verdict == "ok", "{check:?}");
        }
        let files = checks.iter().find(|check| check.subject == "capture files");
        assert_eq!(files.map(|check| check.verdict), Some("ok"));
    }
}
