//! What an agent that runs is asked for.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use fathom_record::format::Format;

use super::arguments::AgentAction;
use super::capture::End;
use crate::control;
use crate::signals::Signals;

/// A request, as a line of words.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Status(Format),
    Reload,
    Capture {
        ends: Vec<End>,
        duration: Duration,
        format: Format,
    },
}

impl Request {
    fn of(action: &AgentAction) -> Self {
        match action {
            AgentAction::Status { format } => Self::Status(*format),
            AgentAction::Reload => Self::Reload,
            AgentAction::Capture {
                end,
                duration,
                format,
            } => Self::Capture {
                ends: end.clone(),
                duration: *duration,
                format: *format,
            },
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Status(format) => format!("status {}", format.name()),
            Self::Reload => "reload".to_owned(),
            Self::Capture {
                ends,
                duration,
                format,
            } => {
                let ends: Vec<_> = ends.iter().map(End::to_string).collect();
                let (format, ms) = (format.name(), duration.as_millis());
                format!("capture {format} {ms} {}", ends.join(" "))
            }
        }
    }

    /// Reads a line.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let format = |name: &str| name.parse().map_err(|_| format!("no format {name}"));
        match words.as_slice() {
            ["status", name] => Ok(Self::Status(format(name)?)),
            ["reload"] => Ok(Self::Reload),
            ["capture", name, ms, ends @ ..] if matches!(ends.len(), 1 | 2) => {
                let ms = ms.parse().map_err(|_| format!("{ms} is no duration"))?;
                let ends: Result<_, _> = ends.iter().map(|end| end.parse()).collect();
                Ok(Self::Capture {
                    ends: ends?,
                    duration: Duration::from_millis(ms),
                    format: format(name)?,
                })
            }
            _ => Err(format!("it does not understand \"{line}\"")),
        }
    }
}

/// Asks the agent, and prints what it answers.
///
/// # Errors
/// When none runs, or it refuses.
pub(super) fn ask(socket: &Path, action: &AgentAction) -> anyhow::Result<()> {
    if matches!(action, AgentAction::Capture { .. }) {
        Signals::end_at_interrupt()?;
    }
    let answer = control::ask(socket, "agent", &Request::of(action).line())?;
    let Some(mut answer) = answer else {
        bail!(
            "no agent has the socket {}: start one with `fathom agent`, or name its --socket",
            socket.display()
        );
    };
    let mut output = io::stdout().lock();
    io::copy(&mut answer, &mut output).context("cannot print what the agent says")?;
    output.flush().context("cannot print what the agent says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_they_are_written() {
        let ends = [
            "192.0.2.1:443",
            "[2001:db8::1]:40000",
            "192.0.2.9",
            "2001:db8::/32",
        ];
        let ends = ends.map(|end| end.parse().unwrap());
        let capture = |ends: &[End]| Request::Capture {
            ends: ends.to_vec(),
            duration: Duration::from_millis(1500),
            format: Format::Text,
        };
        for request in [
            Request::Status(Format::Json),
            Request::Reload,
            capture(&ends[..2]),
            capture(&ends[2..3]),
            capture(&ends[2..]),
        ] {
            assert_eq!(Request::parse(&request.line()), Ok(request));
        }
        for wrong in [
            "",
            "status",
            "status xml",
            "reload now",
            "capture text 1000",
            "capture text x 192.0.2.1",
            "capture text 1000 192.0.2.1 192.0.2.2 192.0.2.3",
        ] {
            assert!(Request::parse(wrong).is_err(), "{wrong}");
        }
    }
}
