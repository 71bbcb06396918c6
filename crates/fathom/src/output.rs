//! Where data goes: standard output or a file, in whole lines.

mod ppviz;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use fathom_record::Record;
use fathom_record::format::{Format, Sink};

use crate::failure::say;
use crate::signals::Signals;
use ppviz::PpvizWriter;

/// Written out when there is more than this.
const FULL_BYTES: usize = 64 << 10;

/// A pipe takes so much whole or not at all (`PIPE_BUF` on Linux).
const WHOLE_IN_PIPE_BYTES: usize = 4096;

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
    /// Comma-separated values, with a header line for each kind of record.
    Csv,
    /// What pping prints for machines, so that ppviz shows it; samples only.
    Ppviz,
}

impl OutputFormat {
    fn sink(self) -> Box<dyn Sink> {
        match self {
            Self::Text => Format::Text.sink(),
            Self::Json => Format::Json.sink(),
            Self::Csv => Format::Csv.sink(),
            Self::Ppviz => Box::new(PpvizWriter::default()),
        }
    }

    /// Does a program read it, which then wants every count as a record?
    pub(crate) fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Csv)
    }
}

/// An output that is open.
pub(crate) struct Output {
    file: File,
    is_pipe: bool,
    /// `None`: standard output.
    path: Option<PathBuf>,
    format: OutputFormat,
    sink: Box<dyn Sink>,
    buffer: Vec<u8>,
}

impl Output {
    /// Opens the file to append to it, or takes standard output.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(path: Option<&Path>, format: OutputFormat) -> anyhow::Result<Self> {
        let file = match path {
            Some(path) => open_to_append(path)?,
            // Standard output as std gives it searches every write for the last line.
            None => io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .context("cannot use standard output")?
                .into(),
        };
        Ok(Self {
            is_pipe: is_pipe(&file),
            file,
            path: path.map(Path::to_owned),
            format,
            sink: format.sink(),
            buffer: Vec::with_capacity(2 * FULL_BYTES),
        })
    }

    /// Text on standard output.
    ///
    /// # Errors
    /// When there is no standard output.
    pub(crate) fn text() -> anyhow::Result<Self> {
        Self::open(None, OutputFormat::Text)
    }

    /// How it prints.
    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Takes a record, to be written later.
    pub(crate) fn put(&mut self, record: &dyn Record) {
        self.sink.write(record, &mut self.buffer);
    }

    /// Takes a text as it is.
    pub(crate) fn put_text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    /// Is there so much that it should be written?
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= FULL_BYTES
    }

    /// Writes what was put, so that lines are whole whenever the process is killed.
    ///
    /// # Errors
    /// When it cannot be written; a reader that has gone away is among the causes as a broken pipe.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = if self.is_pipe {
            pieces(&self.buffer, WHOLE_IN_PIPE_BYTES)
                .try_for_each(|piece| self.file.write_all(piece))
        } else {
            self.file.write_all(&self.buffer)
        };
        self.buffer.clear();
        written.with_context(|| match &self.path {
            Some(path) => format!("cannot write to {}", path.display()),
            None => "cannot write to standard output".to_owned(),
        })
    }

    /// Opens the file anew if a signal asked for it, as logrotate does after it has moved the file away.
    ///
    /// # Errors
    /// As [`Output::flush`]. If the new file cannot be opened, that is said, and the old one goes on being used.
    pub(crate) fn reopen_if_asked(&mut self, signals: &Signals) -> anyhow::Result<()> {
        if !signals.take_reopen() {
            return Ok(());
        }
        self.flush()?;
        if let Some(path) = &self.path {
            match open_to_append(path) {
                Ok(file) => {
                    self.is_pipe = is_pipe(&file);
                    self.file = file;
                    // A new file has headers of its own.
                    self.sink = self.format.sink();
                }
                Err(error) => say!("fathom: {error:#}; the old file is still written to"),
            }
        }
        Ok(())
    }
}

fn open_to_append(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| format!("cannot open the output file {}", path.display()))
}

fn is_pipe(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whole lines that together have at most so many bytes; a line that has more is a piece of its own.
fn pieces(lines: &[u8], bytes_max: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let fits = rest.len().min(bytes_max);
        let end = match rest[..fits].iter().rposition(|&byte| byte == b'\n') {
            _ if fits == rest.len() => fits,
            Some(last) => last + 1,
            None => rest
                .iter()
                .position(|&byte| byte == b'\n')
                .map_or(rest.len(), |first| first + 1),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use fathom_measure::RttCount;
    use fathom_record::Time;

    use super::*;

    fn count(count: u64) -> RttCount {
        RttCount {
            time: Time(0),
            name: "samples",
            count,
        }
    }

    #[test]
    fn a_file_is_appended_to_and_has_a_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("counts.csv");
        for number in [1, 2] {
            let mut output = Output::open(Some(&path), OutputFormat::Csv).unwrap();
            output.put(&count(number));
            output.flush().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("rtt_count,"))
                .count(),
            2
        );
        assert!(text.starts_with("kind,time,name,count\n"));
    }

    proptest::proptest! {
        #[test]
        fn pieces_are_whole_lines_and_lose_nothing(lines in "(x{0,12}\n){0,20}x{0,3}", bytes_max in 1_usize..20) {
            let pieces: Vec<_> = pieces(lines.as_bytes(), bytes_max).collect();
            proptest::prop_assert_eq!(pieces.concat(), lines.as_bytes());
            let is_whole = |piece: &[u8]| piece.ends_with(b"\n");
            proptest::prop_assert!(pieces.iter().rev().skip(1).all(|piece| is_whole(piece)));
            let is_short = |piece: &&[u8]| piece.len() <= bytes_max || piece[..piece.len() - 1].iter().all(|&byte| byte != b'\n');
            proptest::prop_assert!(pieces.iter().all(is_short));
        }
    }

    #[test]
    fn a_full_disk_is_told_by_the_name_of_the_file() {
        let mut output = Output::open(Some(Path::new("/dev/full")), OutputFormat::Json).unwrap();
        output.put(&count(1));
        let error = output.flush().unwrap_err();
        assert_eq!(error.to_string(), "cannot write to /dev/full");
        let cause = error.downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::StorageFull);
    }
}
