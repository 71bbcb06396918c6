//! The programs, as children.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use fathom_lab::wait_until;
use fathom_tests::binary;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::capture::{HEADER_BYTES, echoes};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with all that a test keeps.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// What a program has said.
    pub(crate) fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The answer of `fathom query`, a line for each row.
    pub(crate) fn ask(&self, statement: &str) -> Vec<String> {
        let output = fathom(&[
            "query",
            "--store",
            &self.text("store"),
            "--format",
            "csv",
            statement,
        ]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{statement}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// How many records of a kind the store has.
    pub(crate) fn rows(&self, kind: &str) -> usize {
        let tables = self.ask("SELECT table_name FROM information_schema.tables");
        if !tables.contains(&kind.to_owned()) {
            return 0;
        }
        self.ask(&format!("SELECT count(*) FROM {kind}"))[0]
            .parse()
            .unwrap()
    }

    /// How many round trips the store has, and how many different ones.
    pub(crate) fn samples(&self) -> (usize, usize) {
        match self.rows("rtt") {
            0 => (0, 0),
            all => {
                let different = &self.ask("SELECT count(DISTINCT time) FROM rtt")[0];
                (all, different.parse().unwrap())
            }
        }
    }
}

/// Runs a command to its end.
pub(crate) fn fathom(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary().unwrap());
    command.args(arguments).output().unwrap()
}

/// A port that nobody listens at.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A program that runs, killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) input: Option<ChildStdin>,
}

impl Running {
    /// Starts one, whose words go to files of the place.
    pub(crate) fn start(place: &Place, name: &str, arguments: &[&str]) -> Self {
        let file = |end| File::create(place.path(&format!("{name}.{end}"))).unwrap();
        let mut child = Command::new(binary().unwrap())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        Self { child, input }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end; was that a success?
    pub(crate) fn end(mut self) -> bool {
        drop(self.input.take());
        let mut status = None;
        wait_until(PATIENCE, "the program to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .unwrap();
        status.unwrap().success()
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent that reads a capture which grows: live, as far as it can tell.
pub(crate) struct Agent {
    pub(crate) process: Running,
    /// Echoes so far.
    pub(crate) echoes: u32,
}

impl Agent {
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        let measure = ["rtt", "-", "--sample-interval", "0", "--per-rtt", "0"];
        let mut process = Running::start(place, "agent", &[&measure, options].concat());
        process.write(&echoes(0..0));
        Self { process, echoes: 0 }
    }

    /// So many more echoes pass.
    pub(crate) fn more(&mut self, count: u32) {
        let numbers = self.echoes..self.echoes + count;
        self.echoes += count;
        self.process.write(&echoes(numbers)[HEADER_BYTES..]);
    }

    /// Echoes pass until something is so. Captures are read a few hundred packets at a time.
    pub(crate) fn more_until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(PATIENCE, what, || {
            self.more(500);
            is_so()
        })
        .unwrap();
    }
}

/// Starts a collector that keeps what it gets in `store`, and waits until it listens.
pub(crate) fn collect(place: &Place, listen: &[&str]) -> Running {
    let store = place.text("store");
    let mut arguments = vec!["collect", "--store", &store];
    for url in listen {
        arguments.extend(["--listen", url]);
    }
    let collector = Running::start(place, "collector", &arguments);
    wait_until(PATIENCE, "the collector to listen", || {
        place.said("collector.err").matches("listening at").count() >= listen.len()
    })
    .unwrap();
    collector
}

/// How many records wait in a spool.
pub(crate) fn rows_in(spool: &Path) -> usize {
    let mut rows = 0;
    let Ok(directories) = std::fs::read_dir(spool) else {
        return 0;
    };
    for directory in directories {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            let mut bytes = Vec::new();
            // It may be gone by now.
            let _ = File::open(file.unwrap().path()).map(|mut file| file.read_to_end(&mut bytes));
            let mut rest = bytes.as_slice();
            // Of each batch: its number, 36 bytes with the rows last; then 12 bytes with a length.
            while rest.starts_with(b"fthn") && rest.len() > 48 {
                let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
                let length = 48 + number(40) as usize;
                if rest.len() < length {
                    break;
                }
                rows += number(32) as usize;
                rest = &rest[length..];
            }
        }
    }
    rows
}
