//! A running balancer is spoken to over a socket: a line with a question, and back `ok` or
//! `failed: why`, and a text behind it.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use fathom_record::format::Format;
use nix::sys::stat::{Mode, umask};

use crate::output::LINE_FORMATS;

/// A client that sends its request slower than this is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest question.
const LONGEST: u64 = 512;

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

/// The socket of a balancer that runs.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Opens it, for its owner only. The balancer is the only one with these pins: a socket that is
    /// there was left behind.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot open the socket {}", path.display());
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                bail!(
                    "{} is there, and is no socket: name another path as `socket`",
                    path.display()
                );
            }
            fs::remove_file(path).with_context(failed)?;
        }
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers those who have come.
    pub(super) fn answer(&self, mut answer: impl FnMut(ControlRequest) -> Result<Vec<u8>, String>) {
        while let Ok((stream, _)) = self.listener.accept() {
            // A client that goes away needs no answer.
            let _ = answer_one(&stream, &mut answer);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn answer_one(
    mut stream: &UnixStream,
    answer: &mut impl FnMut(ControlRequest) -> Result<Vec<u8>, String>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    match ControlRequest::parse(line.trim_end()).and_then(answer) {
        Ok(text) => {
            stream.write_all(b"ok\n")?;
            stream.write_all(&text)
        }
        Err(why) => stream.write_all(format!("failed: {why}\n").as_bytes()),
    }
}

/// Asks the balancer that runs. `None`: none does.
pub(super) fn ask(path: &Path, request: &ControlRequest) -> anyhow::Result<Option<String>> {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use the socket {}", path.display()));
        }
    };
    let failed = || format!("cannot speak to the balancer at {}", path.display());
    // It may be about to take its tables away.
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .with_context(failed)?;
    writeln!(stream, "{}", request.line()).with_context(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(failed)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(Some(text.to_owned())),
        Some((refusal, _)) => bail!(
            "the balancer says: {}",
            refusal.trim_start_matches("failed: ")
        ),
        None => bail!(
            "the balancer at {} ended before it answered",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

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

    #[test]
    fn only_the_owner_may_ask_and_has_an_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(ask(&path, &ControlRequest::Stop).unwrap().is_none());
        let control = Control::open(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let file = directory.path().join("file");
        fs::write(&file, "of somebody").unwrap();
        assert!(Control::open(&file).is_err() && file.exists());
        let asked = thread::spawn({
            let path = path.clone();
            move || {
                let known = ask(&path, &ControlRequest::Status(Format::Json));
                let unknown = ask(
                    &path,
                    &ControlRequest::Drain {
                        server: "x".to_owned(),
                        undo: false,
                        format: Format::Text,
                    },
                );
                (known, unknown)
            }
        });
        let mut answered = 0;
        while answered < 2 {
            control.answer(|request| {
                answered += 1;
                match request {
                    ControlRequest::Status(Format::Json) => Ok(b"{}\n".to_vec()),
                    _ => Err("there is no server \"x\"".to_owned()),
                }
            });
            thread::yield_now();
        }
        let (known, unknown) = asked.join().unwrap();
        assert_eq!(known.unwrap().as_deref(), Some("{}\n"));
        assert!(unknown.unwrap_err().to_string().contains("no server \"x\""));
        drop(control);
        assert!(!path.exists());
    }
}
