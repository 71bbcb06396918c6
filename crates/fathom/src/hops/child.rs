//! The command whose flows are probed.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::failure::say;

/// How long it may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between looks whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A command that was named on the command line.
pub(super) struct Child {
    command: Command,
    name: String,
}

/// It runs. Dropped, it is told to end, and ended if it does not.
pub(super) struct Running {
    process: std::process::Child,
    name: String,
}

impl Child {
    /// `None` where no command was named.
    ///
    /// # Errors
    /// When there is no standard error.
    pub(super) fn prepare(words: &[OsString]) -> anyhow::Result<Option<Self>> {
        let Some((program, arguments)) = words.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        // Data on standard output is fathom's alone.
        let stderr = io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .context("cannot use standard error")?;
        command.args(arguments).stdout(stderr);
        Ok(Some(Self {
            command,
            name: program.to_string_lossy().into_owned(),
        }))
    }

    /// Starts it, in the process group of fathom: Ctrl-C reaches both.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn start(mut self) -> anyhow::Result<Running> {
        let process = self
            .command
            .spawn()
            .with_context(|| format!("cannot run {}", self.name))?;
        Ok(Running {
            process,
            name: self.name,
        })
    }
}

impl Running {
    /// Whether it has ended; if it failed, that is said. fathom's own status tells of the
    /// measurement.
    pub(super) fn has_ended(&mut self) -> bool {
        match self.process.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                self.say(status);
                true
            }
            Err(_) => true,
        }
    }

    fn say(&self, status: ExitStatus) {
        if !status.success() {
            say!("{} ended with {status}", self.name);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(None)) {
            return;
        }
        // It may end meanwhile by itself.
        let _ = kill(
            Pid::from_raw(self.process.id().cast_signed()),
            Signal::SIGTERM,
        );
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}
