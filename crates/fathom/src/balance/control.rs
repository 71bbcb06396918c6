//! What a running balancer is asked for.

use std::io;
use std::path::Path;

use anyhow::Context;
use fathom_record::format::Format;

use crate::control::{self, Control};
use crate::output::LINE_FORMATS;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ControlRequest {
    Status(Format),
    Drain {
        server: String,
        undo: bool,
        format: Format,
    },
    /// `None`: as configured.
    Weight {
        server: String,
        weight: Option<f32>,
        format: Format,
    },
    Stop,
}

fn read_format(name: &str) -> Result<Format, String> {
    let mut known = LINE_FORMATS.iter().map(|(format, ..)| *format);
    let found = known.find(|format| format.name() == name);
    found.ok_or_else(|| format!("it knows no format \"{name}\""))
}

impl ControlRequest {
    fn line(&self) -> String {
        match self {
            Self::Status(format) => format!("status {}", format.name()),
            Self::Drain {
                server,
                undo,
                format,
            } => {
                let verb = if *undo { "undrain" } else { "drain" };
                format!("{verb} {server} {}", format.name())
            }
            Self::Weight {
                server,
                weight,
                format,
            } => {
                let weight = weight.map_or_else(|| "default".to_owned(), |it| it.to_string());
                format!("weight {server} {weight} {}", format.name())
            }
            Self::Stop => "stop".to_owned(),
        }
    }

    /// Reads a line.
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["status", format] => Ok(Self::Status(read_format(format)?)),
            [verb @ ("drain" | "undrain"), server, format] => Ok(Self::Drain {
                server: (*server).to_owned(),
                undo: *verb == "undrain",
                format: read_format(format)?,
            }),
            ["weight", server, weight, format] => Ok(Self::Weight {
                server: (*server).to_owned(),
                weight: read_weight(weight)?,
                format: read_format(format)?,
            }),
            ["stop"] => Ok(Self::Stop),
            _ => Err(format!("it does not understand \"{line}\"")),
        }
    }
}

/// Reads a weight, or `default`.
pub(super) fn read_weight(text: &str) -> Result<Option<f32>, String> {
    if text == "default" {
        return Ok(None);
    }
    let weight: Option<f32> = text.parse().ok();
    weight
        .filter(|weight| (0.001..=1000.0).contains(weight))
        .map(Some)
        .ok_or_else(|| {
            format!("the weight is \"{text}\": write a number from 0.001 to 1000, or `default`")
        })
}

/// Answers those who have come.
pub(super) fn answer(
    control: &Control,
    mut answer: impl FnMut(ControlRequest) -> Result<Vec<u8>, String>,
) {
    while let Some(asked) = control.next() {
        let answer = ControlRequest::parse(&asked.line).and_then(&mut answer);
        asked.answer(answer);
    }
}

/// Asks the balancer that runs. `None`: none does.
pub(super) fn ask(path: &Path, request: &ControlRequest) -> anyhow::Result<Option<String>> {
    let answer = control::ask(path, "balancer", &request.line())?;
    let text = answer.map(io::read_to_string).transpose();
    text.with_context(|| format!("cannot speak to the balancer at {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_read_as_they_are_written() {
        let server = || "web-1".to_owned();
        for request in [
            ControlRequest::Status(Format::Text),
            ControlRequest::Status(Format::Json),
            ControlRequest::Drain {
                server: server(),
                undo: false,
                format: Format::Text,
            },
            ControlRequest::Drain {
                server: server(),
                undo: true,
                format: Format::Json,
            },
            ControlRequest::Weight {
                server: server(),
                weight: Some(0.25),
                format: Format::Json,
            },
            ControlRequest::Weight {
                server: server(),
                weight: None,
                format: Format::Text,
            },
            ControlRequest::Stop,
        ] {
            assert_eq!(ControlRequest::parse(&request.line()), Ok(request));
        }
        for nonsense in [
            "",
            "status",
            "status xml",
            "weight a nan text",
            "weight a 0 text",
            "drain a b",
            "stop now",
        ] {
            assert!(ControlRequest::parse(nonsense).is_err(), "{nonsense}");
        }
    }
}
