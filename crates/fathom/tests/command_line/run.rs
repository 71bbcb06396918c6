//! Running the binary.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What a run left.
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The binary, without what the environment of the tests may say.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FATHOM_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("COLUMNS", "100")
        .env("TZ", "UTC");
    command
}

/// Runs it to its end.
pub(crate) fn fathom(arguments: &[&str]) -> Outcome {
    outcome(&mut command(arguments))
}

/// Runs this command to its end.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Outcome {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A run that goes on until it is told to end.
pub(crate) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    #[cfg(feature = "live")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line on standard error.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Its exit status, and what it said on standard error since.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failure; it has ended otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
