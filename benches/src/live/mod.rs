//! The `fathom` binary on a live interface, fed with connections that a benchmark makes up: what it
//! takes, and what it gives.

mod exchange;
mod measured;
mod memory;

pub use exchange::{Answers, Exchanges, link_address};
pub use measured::{Finished, Measured};
pub use memory::{KernelObject, Memory};

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use fathom_lab::Namespace;

/// The interface on which fathom measures.
pub const INTERFACE: &str = "eth0";
const SENDING_INTERFACE: &str = "gen0";

/// Two namespaces joined by a veth pair: packets sent in one arrive in the other, whose hosts they
/// are not meant for.
#[derive(Debug)]
pub struct Bench {
    sender: Namespace,
    observer: Namespace,
}

impl Bench {
    /// Sets both up.
    pub fn new() -> anyhow::Result<Self> {
        let sender = Namespace::new("sender")?;
        let observer = Namespace::new("observer")?;
        sender.connect(SENDING_INTERFACE, &observer, INTERFACE)?;
        sender.set_offloads(SENDING_INTERFACE, false)?;
        observer.set_offloads(INTERFACE, false)?;
        Ok(Self { sender, observer })
    }

    /// Starts `fathom rtt -i eth0 --format json` with more options; what it prints goes to the file
    /// `output`.
    pub fn measure(
        &self,
        fathom: &Path,
        options: &[&str],
        output: PathBuf,
    ) -> anyhow::Result<Measured> {
        let arguments = ["rtt", "--interface", INTERFACE, "--format", "json"];
        let arguments = [&arguments[..], options].concat();
        Measured::start(&self.observer, fathom, &arguments, output)
    }

    /// Starts `fathom agent -i eth0`. Store and socket are in `directory`.
    pub fn agent(&self, fathom: &Path, directory: &Path) -> anyhow::Result<Measured> {
        let (store, socket) = (directory.join("store"), directory.join("socket"));
        let named = [&store, &socket].map(|path| path.to_string_lossy().into_owned());
        let arguments = ["agent", "--interface", INTERFACE];
        let arguments = [
            &arguments[..],
            &["--store", &named[0], "--socket", &named[1]],
        ]
        .concat();
        self.agent_with(fathom, &arguments, directory)
    }

    /// Starts `fathom agent -i eth0` with a configuration file. Its socket and `records.json` are
    /// in `directory`.
    pub fn configured_agent(
        &self,
        fathom: &Path,
        file: &Path,
        directory: &Path,
    ) -> anyhow::Result<Measured> {
        let (socket, records) = (directory.join("socket"), directory.join("records.json"));
        let named = [file, &socket, &records].map(|path| path.to_string_lossy().into_owned());
        let arguments = [
            "--config",
            &named[0],
            "agent",
            "--interface",
            INTERFACE,
            "--socket",
            &named[1],
            "--output",
            &named[2],
            "--format",
            "json",
        ];
        self.agent_with(fathom, &arguments, directory)
    }

    fn agent_with(
        &self,
        fathom: &Path,
        arguments: &[&str],
        directory: &Path,
    ) -> anyhow::Result<Measured> {
        let output = directory.join("agent");
        let agent = Measured::start(&self.observer, fathom, arguments, output)?;
        // Of several measurements, that of packets is attached last. It answers when all are.
        ask_agent(fathom, directory, "status")?;
        Ok(agent)
    }

    /// Makes connections up whose packets all arrive at fathom's interface.
    pub fn exchanges(&self, flows: u32, answers: Answers) -> anyhow::Result<Exchanges> {
        self.sender
            .enter(|| Exchanges::open(SENDING_INTERFACE, flows, answers))?
            .context("open a socket to send frames with")
    }
}

/// Has the agent whose socket is in `directory` do what `request` says, and waits until it has.
pub fn ask_agent(fathom: &Path, directory: &Path, request: &str) -> anyhow::Result<()> {
    let mut command = Command::new(fathom);
    command.args(["agent", "--socket"]);
    command.arg(directory.join("socket")).arg(request);
    let output = command
        .output()
        .with_context(|| format!("ask for {request}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "no {request}: {said}");
    Ok(())
}
