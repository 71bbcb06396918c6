//! The `fathom` binary at work.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use fathom_lab::{Namespace, Process, wait_until};
use nix::sys::signal::Signal;

use super::memory::{Memory, has_links};

/// How long it may take to load its programs, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running fathom, killed when dropped.
#[derive(Debug)]
pub struct Measured {
    process: Process,
    output: PathBuf,
}

/// What it printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Lines that are samples.
    pub samples: u64,
    /// Lines that are aggregates.
    pub aggregates: u64,
    /// What was lost, refused or left out, by name.
    pub counts: Vec<(String, u64)>,
    /// What it said on standard error.
    pub said: String,
}

impl Finished {
    /// Everything that was lost on the way to the output.
    pub fn lost(&self) -> u64 {
        let lost = self.counts.iter().filter(|(name, _)| name.contains("lost"));
        lost.map(|(_, count)| count).sum()
    }

    fn add(&mut self, line: &str) {
        if line.starts_with(r#"{"kind":"rtt","#) {
            self.samples += 1;
        } else if line.starts_with(r#"{"kind":"rtt_aggregate","#) {
            self.aggregates += 1;
        } else if line.starts_with(r#"{"kind":"count","#) {
            let name = text_between(line, r#""name":""#, "\"");
            let count = text_between(line, r#""count":"#, "}").parse().unwrap_or(0);
            // Counted since the start: the last one holds.
            self.counts.retain(|(known, _)| known != name);
            self.counts.push((name.to_owned(), count));
        }
    }
}

fn text_between<'a>(line: &'a str, before: &str, after: &str) -> &'a str {
    let rest = line.split_once(before).map_or("", |(_, rest)| rest);
    rest.split_once(after).map_or(rest, |(text, _)| text)
}

impl Measured {
    pub(super) fn start(
        namespace: &Namespace,
        fathom: &Path,
        arguments: &[&str],
        output: PathBuf,
    ) -> anyhow::Result<Self> {
        let create =
            |path: &Path| File::create(path).with_context(|| format!("create {}", path.display()));
        let mut command = namespace.command(&fathom.to_string_lossy());
        command
            .args(arguments)
            .stdout(create(&output)?)
            .stderr(create(&errors_of(&output))?);
        let mut measured = Self {
            process: Process::start(&mut command)?,
            output,
        };
        let mut has_ended = false;
        let waited = wait_until(PATIENCE, "fathom to attach its programs", || {
            has_ended = !matches!(measured.process.status(), Ok(None));
            has_ended || has_links(measured.process.id())
        });
        if has_ended || waited.is_err() {
            bail!("fathom does not measure: {}", measured.errors());
        }
        Ok(measured)
    }

    /// Processor time it used so far, of user and kernel.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(self.process.cpu_time()?)
    }

    /// What it takes of memory now.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.process.id())
    }

    /// Ends it as Ctrl-C does, reads what it printed, and removes that.
    pub fn stop(mut self) -> anyhow::Result<Finished> {
        self.process.signal(Signal::SIGINT)?;
        let status = self.process.wait_with_deadline(PATIENCE)?;
        ensure!(
            status.success(),
            "fathom ended with {status}: {}",
            self.errors()
        );
        let file =
            File::open(&self.output).with_context(|| format!("open {}", self.output.display()))?;
        let mut finished = Finished {
            said: self.errors(),
            ..Finished::default()
        };
        for line in BufReader::with_capacity(1 << 20, file).lines() {
            finished.add(&line.context("read what fathom printed")?);
        }
        Ok(finished)
    }

    fn errors(&self) -> String {
        fs::read_to_string(errors_of(&self.output)).unwrap_or_default()
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        // Hundreds of megabytes that nobody wants; failing means that they are gone already.
        let _ = fs::remove_file(&self.output);
        let _ = fs::remove_file(errors_of(&self.output));
    }
}

fn errors_of(output: &Path) -> PathBuf {
    output.with_extension("errors")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_kind() {
        let mut finished = Finished::default();
        for line in [
            r#"{"kind":"rtt","time":"2026-11-20T12:00:00Z","rtt_ns":7}"#,
            r#"{"kind":"count","time":"2026-11-20T12:00:00Z","name":"samples lost: ring buffer full","count":7}"#,
            r#"{"kind":"rtt_aggregate","time":"2026-11-20T12:00:00Z"}"#,
            r#"{"kind":"count","time":"2026-11-20T12:00:05Z","name":"samples lost: ring buffer full","count":9}"#,
            r#"{"kind":"count","time":"2026-11-20T12:00:05Z","name":"flows opened","count":3}"#,
        ] {
            finished.add(line);
        }
        assert_eq!(
            (finished.samples, finished.aggregates, finished.lost()),
            (1, 1, 9)
        );
        assert_eq!(finished.counts.len(), 2);
    }
}
