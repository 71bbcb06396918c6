//! The binary as a child process, its records read while it runs.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_lab::{Namespace, Process, wait_until};
use nix::sys::signal::Signal;

use crate::responses::{Epoch, Wait};
use crate::{Record, Sample, attached_programs};

/// The options that measure every packet that can be, not a selection.
pub const EVERY_PACKET: [&str; 4] = ["--sample-interval", "0", "--per-rtt", "0"];

/// How long the binary may take to load its programs, or to end. An emulated machine verifies them
/// in half a minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// The binary under test: `FATHOM_BINARY` if set, else the one that was built with the running test
/// or demonstration.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("FATHOM_BINARY") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().context("find the running executable")?;
    // Tests run from `deps` below the directory of the binaries.
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join("fathom"))
        .find(|path| path.is_file())
        .context("there is no fathom binary here yet: build it with `cargo build -p fathom`")
}

/// `fathom rtt --format json`, running; killed when dropped.
#[derive(Debug)]
pub struct Fathom {
    process: Process,
    output: Arc<Mutex<Output>>,
    readers: [JoinHandle<()>; 2],
}

/// What was printed so far.
#[derive(Debug, Default)]
struct Output {
    records: Vec<Record>,
    /// A line of stdout that is no record.
    bad_line: Option<String>,
    errors: String,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its records in the order of printing.
    pub records: Vec<Record>,
    /// Its standard error.
    pub errors: String,
}

impl Finished {
    /// The round trips among the records.
    pub fn samples(&self) -> Vec<Sample> {
        samples_of(&self.records)
    }

    /// The epochs of `fathom response` among the records.
    pub fn epochs(&self) -> Vec<Epoch> {
        let epochs = self.records.iter().filter_map(|record| match record {
            Record::Response(epoch) => Some(epoch.clone()),
            _ => None,
        });
        epochs.collect()
    }

    /// The waits of `fathom response --waiting` among the records.
    pub fn waits(&self) -> Vec<Wait> {
        let waits = self.records.iter().filter_map(|record| match record {
            Record::ResponseWait(wait) => Some(wait.clone()),
            _ => None,
        });
        waits.collect()
    }

    /// The last value of the count called `name`; zero when it was never printed.
    pub fn count(&self, name: &str) -> u64 {
        let last = self.records.iter().rev().find_map(|record| match record {
            Record::Count(count) if count.name == name => Some(count.count),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

impl Fathom {
    /// Starts `fathom rtt` in `namespace` and waits until the programs are attached to all
    /// `interfaces`.
    ///
    /// Start it from a thread that outlives it, as every process of the lab.
    pub fn start(namespace: &Namespace, interfaces: &[&str], options: &[&str]) -> Result<Self> {
        Self::start_command("rtt", namespace, interfaces, options)
    }

    /// The same with another command that measures on interfaces.
    pub fn start_command(
        command: &str,
        namespace: &Namespace,
        interfaces: &[&str],
        options: &[&str],
    ) -> Result<Self> {
        let before = interfaces
            .iter()
            .map(|interface| attached_programs(namespace, interface))
            .collect::<Result<Vec<_>>>()?;
        let mut arguments = vec![command, "--format", "json"];
        for interface in interfaces {
            arguments.extend(["--interface", interface]);
        }
        arguments.extend(options);
        Self::spawn(namespace, &arguments)?.started(|_| {
            interfaces.iter().zip(&before).all(|(interface, before)| {
                // One of each direction.
                attached_programs(namespace, interface).is_ok_and(|now| now >= before + 2)
            })
        })
    }

    /// Waits until it is at work, as `is_at_work` sees it.
    pub(crate) fn started(mut self, is_at_work: impl Fn(&Self) -> bool) -> Result<Self> {
        let waited = wait_until(PATIENCE, "fathom to attach its programs", || {
            let has_ended = !matches!(self.process.status(), Ok(None));
            // What it said last may not have been read yet.
            let is_read = self.readers.iter().all(JoinHandle::is_finished);
            is_at_work(&self) || (has_ended && is_read)
        });
        if waited.is_err() || !is_at_work(&self) {
            let state = match self.process.status() {
                Ok(None) => "runs, but does not measure".to_owned(),
                ended => format!("ended ({ended:?})"),
            };
            bail!("fathom {state}: {}", self.errors());
        }
        Ok(self)
    }

    /// Runs over capture files to the end.
    pub fn replay(file: &Path, options: &[&str]) -> Result<Finished> {
        Self::replay_command("rtt", file, options)
    }

    /// The same with another command that measures.
    pub fn replay_command(command: &str, file: &Path, options: &[&str]) -> Result<Finished> {
        let file = file
            .to_str()
            .context("the name of the capture is not UTF-8")?;
        let namespace = Namespace::new("replay")?;
        let mut arguments = vec![command, "--format", "json"];
        arguments.extend(options);
        arguments.push(file);
        let fathom = Self::spawn(&namespace, &arguments)?;
        let finished = fathom.join()?;
        ensure!(
            finished.status.success(),
            "fathom over {file} failed: {}",
            finished.errors
        );
        Ok(finished)
    }

    pub(crate) fn spawn(namespace: &Namespace, arguments: &[&str]) -> Result<Self> {
        let path = binary()?;
        let path = path
            .to_str()
            .context("the path of the binary is not UTF-8")?;
        let (stdout, its_stdout) = std::io::pipe().context("make a pipe")?;
        let (stderr, its_stderr) = std::io::pipe().context("make a pipe")?;
        let output = Arc::new(Mutex::new(Output::default()));
        let mut command = namespace.command(path);
        command
            .args(arguments)
            .stdout(its_stdout)
            .stderr(its_stderr);
        let process = Process::start(&mut command)?;
        // It holds the other ends of the pipes, which would never end.
        drop(command);
        let (records, errors) = (Arc::clone(&output), Arc::clone(&output));
        let readers = [
            std::thread::spawn(move || read_records(stdout, &records)),
            std::thread::spawn(move || read_errors(stderr, &errors)),
        ];
        Ok(Self {
            process,
            output,
            readers,
        })
    }

    /// The round trips printed so far.
    pub fn samples(&self) -> Vec<Sample> {
        samples_of(&self.lock().records)
    }

    /// Whether a round trip that `is_wanted` was printed.
    pub fn has_sample(&self, is_wanted: impl Fn(&Sample) -> bool) -> bool {
        self.lock().records.iter().any(|record| match record {
            Record::Sample(sample) => is_wanted(sample),
            _ => false,
        })
    }

    /// The records printed since the first `seen` ones.
    pub fn records_after(&self, seen: usize) -> Vec<Record> {
        let output = self.lock();
        output.records.get(seen..).unwrap_or_default().to_vec()
    }

    /// What it has said on standard error so far.
    pub fn errors(&self) -> String {
        self.lock().errors.clone()
    }

    /// The running process, to look at it or to signal it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Ends it as Ctrl-C does and returns what it printed.
    pub fn finish(self) -> Result<Finished> {
        let finished = self.end(Signal::SIGINT)?;
        ensure!(
            finished.status.success(),
            "fathom ended with {}: {}",
            finished.status,
            finished.errors
        );
        Ok(finished)
    }

    /// Ends it with `signal` and returns what it printed, whatever its status.
    pub fn end(self, signal: Signal) -> Result<Finished> {
        self.process.signal(signal)?;
        self.join()
    }

    /// Waits until it ends by itself and returns what it printed.
    pub fn join(mut self) -> Result<Finished> {
        let status = self.process.wait_with_deadline(PATIENCE)?;
        for reader in self.readers {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let output = std::mem::take(&mut *output);
        if let Some(line) = output.bad_line {
            bail!("fathom printed a line that is no record: {line:?}");
        }
        Ok(Finished {
            status,
            records: output.records,
            errors: output.errors,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn samples_of(records: &[Record]) -> Vec<Sample> {
    let samples = records.iter().filter_map(|record| match record {
        Record::Sample(sample) => Some(sample.clone()),
        _ => None,
    });
    samples.collect()
}

fn read_records(pipe: PipeReader, output: &Mutex<Output>) {
    let mut reader = BufReader::new(pipe);
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(1..)) {
        // A line without its end is one that a killed process did not finish. By way of a value:
        // where some crate asks serde_json for arbitrary precision, numbers that are not whole can
        // else not be read into an enum by its tag.
        let record = serde_json::from_str(&line)
            .ok()
            .filter(|_| line.ends_with('\n'))
            .and_then(|value: serde_json::Value| serde_json::from_value(value).ok());
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        match record {
            Some(record) => output.records.push(record),
            None => output.bad_line = Some(line.clone()),
        }
        line.clear();
    }
}

fn read_errors(mut pipe: PipeReader, output: &Mutex<Output>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]);
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.errors.push_str(&text);
    }
}
