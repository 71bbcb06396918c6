//! How failures are told, and the exit status they give.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use fathom_measure::Error as MeasureError;

use crate::configuration;

/// The user asked for something that cannot be meant: exit status 2.
#[derive(Debug)]
pub(crate) struct WrongUsage(String);

impl WrongUsage {
    /// As any error, with a sentence for the user.
    pub(crate) fn error(sentence: String) -> anyhow::Error {
        Self(sentence).into()
    }
}

impl fmt::Display for WrongUsage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Writes a line to standard error. Nobody may be listening there any more, which is no failure.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::failure::say_line(format_args!($($text)*))
    };
}
pub(crate) use say;

/// See [`say`](macro@say).
pub(crate) fn say_line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Tells the chain of causes and what to do, and gives the exit status.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader has read enough.
        return ExitCode::SUCCESS;
    }
    say!("fathom: {error}");
    for cause in error.chain().skip(1) {
        say!("  because: {cause}");
    }
    if is_wrong_usage(error) {
        match configuration::command_asked_for() {
            Some(command) => say!("Try `fathom {command} --help`."),
            None => say!("Try `fathom --help`."),
        }
        return ExitCode::from(2);
    }
    if let Some(advice) = advice(error) {
        say!("{advice}");
    }
    ExitCode::FAILURE
}

fn is_wrong_usage(error: &anyhow::Error) -> bool {
    error.is::<WrongUsage>() || matches!(error.downcast_ref(), Some(MeasureError::TooMany { .. }))
}

fn system_error(error: &anyhow::Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// Input is never a pipe that breaks: only its writer would learn of it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    system_error(error).is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// What the user can do, where the message does not say it yet.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(MeasureError::Kernel { .. }) = error.downcast_ref() {
        return Some("Run `fathom doctor` to see what can be measured here.");
    }
    if let Some(MeasureError::Capture { .. }) = error.downcast_ref()
        && system_error(error).is_none()
    {
        return Some(
            "Give a pcap or pcapng file, as tcpdump, dumpcap or Wireshark write it; it may be compressed by gzip or zstd.",
        );
    }
    if error
        .chain()
        .any(<dyn std::error::Error>::is::<fathom_ipfix::Error>)
    {
        return Some("Check what --export says, and whether the collector runs.");
    }
    match system_error(error)?.kind() {
        io::ErrorKind::NotFound => Some("Check the name and the directory."),
        io::ErrorKind::PermissionDenied => {
            Some("Check the permissions, or run as a user who has them.")
        }
        io::ErrorKind::IsADirectory => Some("Give a file, not a directory."),
        io::ErrorKind::AddrInUse => {
            Some("Another program listens there: end it, or choose another port.")
        }
        io::ErrorKind::AddrNotAvailable => {
            Some("Choose an address of this machine: `ip address` lists them.")
        }
        io::ErrorKind::StorageFull => {
            Some("Free some space, or choose another file with --output.")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_decide_the_status_and_the_advice() {
        let failed = |kind| {
            anyhow::Result::<()>::Err(io::Error::from(kind).into())
                .context("cannot write")
                .unwrap_err()
        };
        assert!(is_broken_pipe(&failed(io::ErrorKind::BrokenPipe)));
        assert!(
            advice(&failed(io::ErrorKind::StorageFull))
                .unwrap()
                .contains("--output")
        );
        assert!(is_wrong_usage(&WrongUsage::error("no".to_owned())));
        let too_many = MeasureError::TooMany {
            what: "ports",
            given: 17,
            room: 16,
        };
        assert!(is_wrong_usage(&too_many.into()));
    }
}
