//! `fathom balance`, as a process of the balancer's namespace, with a configuration and pins of its
//! own. What it pins lies on a BPF file system that nothing but its own mount namespace has: with
//! the last process in there all of it is gone, whatever ends the test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::binary;
use anyhow::{Context, Result, ensure};
use fathom_lab::{Namespace, Process, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// How long it may take to begin, to end, or to do what it was told.
const PATIENCE: Duration = Duration::from_secs(120);

/// A balancer, running or not.
#[derive(Debug)]
pub struct Balancer {
    namespace: Namespace,
    directory: TempDir,
    /// Keeps the mount namespace while no other process is in it.
    holder: Process,
    process: Option<Process>,
}

impl Balancer {
    /// Starts it with this configuration, but for interfaces, pins and socket.
    pub fn start(namespace: &Namespace, configuration: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mounted = directory.path().join("bpf");
        fs::create_dir(&mounted)?;
        let mut command = namespace.command("unshare");
        command.args(["--mount", "sh", "-c"]);
        command.arg("mount -t bpf bpf \"$1\" && exec sleep infinity");
        command.arg("sh").arg(&mounted);
        let holder = Process::start(&mut command)?;
        let mounts = format!("/proc/{}/mounts", holder.id());
        let point = format!(" {} bpf ", mounted.display());
        wait_until(PATIENCE, "a BPF file system", || {
            fs::read_to_string(&mounts).is_ok_and(|mounts| mounts.contains(&point))
        })?;
        let mut balancer = Self {
            namespace: namespace.clone(),
            directory,
            holder,
            process: None,
        };
        balancer.configure(configuration)?;
        balancer.run()?;
        Ok(balancer)
    }

    /// Writes its configuration.
    pub fn configure(&self, configuration: &str) -> Result<()> {
        let ends = self.ends();
        let text = format!("interfaces = [\"eth0\"]\n{ends}{configuration}");
        fs::write(self.file(), text)?;
        // For those who speak to it: what is balanced may be written wrong, on purpose.
        fs::write(self.ends_file(), ends)?;
        Ok(())
    }

    /// The lines that every configuration begins with.
    fn ends(&self) -> String {
        let socket = self.directory.path().join("socket");
        let (pins, socket) = (self.pins(), socket.display());
        let pins = pins.display();
        format!("pins = '{pins}'\nsocket = '{socket}'\n")
    }

    /// In its mount namespace.
    fn pins(&self) -> PathBuf {
        self.directory.path().join("bpf/fathom")
    }

    /// `fathom balance`, where its pins are.
    fn command(&self) -> Result<Command> {
        let mut command = self.namespace.command("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command.arg("--").arg(binary()?).arg("balance");
        Ok(command)
    }

    fn ends_file(&self) -> PathBuf {
        self.directory.path().join("ends.toml")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("lb.toml")
    }

    /// Starts the process, and waits until it answers.
    pub fn run(&mut self) -> Result<()> {
        let said = File::options()
            .append(true)
            .create(true)
            .open(self.directory.path().join("errors"))?;
        let told = File::options()
            .append(true)
            .create(true)
            .open(self.directory.path().join("records"))?;
        let mut command = self.command()?;
        command
            .args(["--format", "json", "--config"])
            .arg(self.file());
        command.stdout(told).stderr(said);
        self.process = Some(Process::start(&mut command)?);
        let answers = wait_until(PATIENCE, "fathom balance to answer", || {
            self.ask(&["status", "--format", "json"]).is_ok()
        });
        answers.with_context(|| self.said())
    }

    /// What it has said on standard error, all its processes.
    pub fn said(&self) -> String {
        fs::read_to_string(self.directory.path().join("errors")).unwrap_or_default()
    }

    /// The records that it has printed.
    pub fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.path().join("records")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Runs `fathom balance` with these words. Returns its standard output.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = self.command()?;
        command.args(words).arg("--config").arg(self.ends_file());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Process::start(&mut command)?.output(PATIENCE)?;
        ensure!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The records of its status.
    pub fn status(&self) -> Result<Vec<Value>> {
        let text = self.ask(&["status", "--format", "json"])?;
        text.lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }

    /// A field of the record of this kind about this server.
    pub fn field(&self, kind: &str, server: &str, field: &str) -> Result<Value> {
        let records = self.status()?;
        let mut own = records
            .iter()
            .filter(|record| record["kind"] == kind && record["server"] == server);
        let record = own
            .next()
            .with_context(|| format!("no {kind} of {server}"))?;
        Ok(record[field].clone())
    }

    /// Waits until a server has a share of new connections within these bounds. Returns how long
    /// that took.
    pub fn wait_for_share(&self, server: &str, least: f64, most: f64) -> Result<Duration> {
        let begin = std::time::Instant::now();
        wait_until(PATIENCE, "a share of new connections", || {
            let share = self
                .field("balance", server, "share")
                .ok()
                .and_then(|share| share.as_f64());
            share.is_some_and(|share| (least..=most).contains(&share))
        })
        .with_context(|| format!("{:?}\n{}", self.status(), self.said()))?;
        Ok(begin.elapsed())
    }

    /// Has it read its configuration again.
    pub fn reload(&self) -> Result<()> {
        let count = || self.said().matches("read again").count();
        let before = count();
        self.process
            .as_ref()
            .context("it runs")?
            .signal(Signal::SIGHUP)?;
        wait_until(PATIENCE, "the configuration to be read", || {
            count() > before
        })
        .with_context(|| self.said())
    }

    /// The same with a configuration that it must refuse. Returns what it says.
    pub fn reload_refused(&self) -> Result<String> {
        let before = self.said().len();
        self.process
            .as_ref()
            .context("it runs")?
            .signal(Signal::SIGHUP)?;
        wait_until(PATIENCE, "a refusal", || self.said().len() > before)?;
        Ok(self.said()[before..].to_owned())
    }

    /// Ends the process by this signal.
    pub fn end(&mut self, signal: Signal) -> Result<()> {
        let mut process = self.process.take().context("it runs")?;
        process.signal(signal)?;
        process.wait_with_deadline(PATIENCE)?;
        Ok(())
    }

    /// Takes everything away, as a user does. Returns whether all is gone.
    pub fn stop(&mut self) -> Result<bool> {
        self.ask(&["stop"])?;
        if let Some(mut process) = self.process.take() {
            process.wait_with_deadline(PATIENCE)?;
        }
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let pins = root.join(self.pins().strip_prefix("/")?);
        // The kernel detaches what is pinned no more a moment later, in the background.
        let gone = wait_until(PATIENCE, "what was pinned and attached to go", || {
            let link = self.namespace.run("ip link show eth0");
            !pins.exists() && link.is_ok_and(|link| !link.contains("xdp"))
        });
        Ok(gone.is_ok())
    }
}
