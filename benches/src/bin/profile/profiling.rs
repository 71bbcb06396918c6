//! The `fathom` binary at work: `fathom profile` in the namespace of the traffic, as on a host of
//! its own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use fathom_lab::{Namespace, Process, wait_until};
use nix::sys::signal::Signal;

/// How long it may take to attach its probes, or to end with what it still has to print.
const PATIENCE: Duration = Duration::from_secs(60);

/// How fathom is run.
#[derive(Debug, Clone)]
pub(super) struct Invocation {
    /// The binary.
    pub(super) fathom: PathBuf,
    /// More options of `fathom profile`.
    pub(super) options: Vec<String>,
    /// A folder for what it says.
    pub(super) folder: PathBuf,
    pub(super) output: Output,
}

/// What it does with profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Prints them as JSON.
    Json,
    /// Exports them over UDP to [`COLLECTOR`].
    Ipfix,
    /// Keeps them in a store.
    Store,
}

/// Where a collector listens.
pub(super) const COLLECTOR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4_739);

/// A running `fathom profile`, killed when dropped.
pub(super) struct Profiling {
    process: Process,
    messages: PathBuf,
}

impl Invocation {
    /// An empty store.
    fn store(&self) -> anyhow::Result<PathBuf> {
        let store = self.folder.join("profile-store");
        if store.exists() {
            fs::remove_dir_all(&store).context("remove the store before")?;
        }
        Ok(store)
    }

    /// Starts it, and waits until its probes are attached; what it prints goes to `output`.
    pub(super) fn start(
        &self,
        namespace: &Namespace,
        output: impl Into<Stdio>,
    ) -> anyhow::Result<Profiling> {
        let messages = self.folder.join("profile.messages");
        let file =
            File::create(&messages).with_context(|| format!("create {}", messages.display()))?;
        let mut command = namespace.command(&self.fathom.to_string_lossy());
        command
            .args(["profile", "--verbose"])
            .args(match self.output {
                Output::Json => ["--format".to_owned(), "json".to_owned()],
                Output::Ipfix => ["--export".to_owned(), format!("ipfix+udp://{COLLECTOR}")],
                Output::Store => ["--store".to_owned(), self.store()?.display().to_string()],
            })
            // As an agent has it.
            .args((self.output == Output::Store).then_some("--coalesce"))
            .args(&self.options)
            .stdout(output)
            .stderr(file);
        let mut profiling = Profiling {
            process: Process::start(&mut command)?,
            messages,
        };
        let mut has_ended = false;
        let waited = wait_until(PATIENCE, "fathom to attach its probes", || {
            has_ended = !matches!(profiling.process.status(), Ok(None));
            // Said when all are attached.
            has_ended || profiling.messages().contains("probes: ")
        });
        if has_ended || waited.is_err() {
            bail!("fathom does not profile: {}", profiling.messages());
        }
        Ok(profiling)
    }
}

impl Profiling {
    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it as Ctrl-C does, and returns what it counted, by name.
    pub(super) fn stop(mut self) -> anyhow::Result<Vec<(String, u64)>> {
        self.process.signal(Signal::SIGINT)?;
        let status = self.process.wait_with_deadline(PATIENCE)?;
        let messages = self.messages();
        ensure!(status.success(), "fathom ended with {status}: {messages}");
        Ok(counts(&messages))
    }

    fn messages(&self) -> String {
        fs::read_to_string(&self.messages).unwrap_or_default()
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        // Failing means that it is gone already.
        let _ = fs::remove_file(&self.messages);
    }
}

/// The lines of a name and a number, two spaces before each.
fn counts(messages: &str) -> Vec<(String, u64)> {
    let lines = messages.lines();
    lines
        .filter_map(|line| line.strip_prefix("  ")?.rsplit_once("  "))
        .filter_map(|(name, count)| Some((name.trim().to_owned(), count.parse().ok()?)))
        .collect()
}

/// How many of the counted things were lost.
pub(super) fn lost(counts: &[(String, u64)]) -> u64 {
    let lost = counts
        .iter()
        .filter(|(name, _)| name.contains("lost") || name.contains("forgotten"));
    lost.map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let messages = "probes: tracepoint\n7 profiles in 3.0 s\n  moments lost: ring full  12\n  segments skipped  3\n";
        let counts = counts(messages);
        assert_eq!(counts.len(), 2);
        assert_eq!(counts[0], ("moments lost: ring full".to_owned(), 12));
        assert_eq!(lost(&counts), 12);
    }
}
