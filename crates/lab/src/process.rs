//! Child processes that do not outlive their owner, and waiting for conditions with a deadline.

use std::process::{Child, Command, ExitStatus, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::{Error, Result};

/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running child, killed with its process group and reaped when dropped.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// let namespace = fathom_lab::Namespace::new("client")?;
/// let mut command = namespace.command("ping");
/// command.args(["-c", "3", "127.0.0.1"]);
/// let output = fathom_lab::Process::start(&mut command)?.output(Duration::from_secs(10))?;
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Process {
    program: String,
    /// Empty once the child's output was collected.
    child: Option<Child>,
}

impl Process {
    /// Starts `command`, which should come from [`Namespace::command`](crate::Namespace::command):
    /// that gives it a group of its own.
    ///
    /// # Errors
    /// [`Error::Start`] when the program is missing.
    pub fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        match command.spawn() {
            Ok(child) => Ok(Self {
                program,
                child: Some(child),
            }),
            Err(source) => Err(Error::Start { program, source }),
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Processor time that it has used so far, all its threads together.
    ///
    /// # Errors
    /// [`Error::Runtime`] when it has ended.
    pub fn cpu_time(&self) -> Result<Duration> {
        let process = Pid::from_raw(self.id().cast_signed());
        let time = ClockId::pid_cpu_clock_id(process).and_then(ClockId::now);
        time.map(Duration::from)
            .map_err(|errno| Error::runtime("read the clock of a process", errno))
    }

    /// Its exit status if it has ended.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the kernel cannot tell.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = self.child.as_mut() else {
            return Ok(None);
        };
        child
            .try_wait()
            .map_err(|source| Error::runtime(format!("wait for `{}`", self.program), source))
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// [`Error::Deadline`] when it still runs after `patience`; it keeps running.
    pub fn wait_with_deadline(&mut self, patience: Duration) -> Result<ExitStatus> {
        let what = format!("the end of `{}`", self.program);
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Error::Deadline {
                    what,
                    waited: patience,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for the end of the process and returns what its piped outputs held; a reader drains
    /// them meanwhile.
    ///
    /// # Errors
    /// [`Error::Deadline`] when it still runs after `patience`; it is killed then.
    pub fn output(mut self, patience: Duration) -> Result<Output> {
        let program = self.program.clone();
        let group = Pid::from_raw(self.id().cast_signed());
        let Some(child) = self.child.take() else {
            return Err(Error::runtime(
                format!("wait for `{program}`"),
                std::io::Error::from(std::io::ErrorKind::NotFound),
            ));
        };
        let reader = thread::spawn(move || child.wait_with_output());
        let in_time = wait_until(patience, &format!("the end of `{program}`"), || {
            reader.is_finished()
        });
        if in_time.is_err() {
            // The reader has not reaped the child, or it would be finished: the id is still the
            // child's.
            let _ = killpg(group, Signal::SIGKILL);
        }
        let output = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|source| Error::runtime(format!("wait for `{program}`"), source))?;
        in_time.map(|()| output)
    }

    /// Asks the process to end with `signal`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the process has ended already.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        nix::sys::signal::kill(Pid::from_raw(self.id().cast_signed()), signal)
            .map_err(|source| Error::runtime(format!("signal `{}`", self.program), source))
    }

    /// The same with all that the process has started, as a terminal does at Ctrl-C.
    ///
    /// # Errors
    /// [`Error::Runtime`] when all of them have ended already.
    pub fn signal_group(&self, signal: Signal) -> Result<()> {
        killpg(Pid::from_raw(self.id().cast_signed()), signal)
            .map_err(|source| Error::runtime(format!("signal `{}`", self.program), source))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut() {
            let group = Pid::from_raw(child.id().cast_signed());
            // Only while unreaped is the id surely the child's; its group goes with it.
            if matches!(child.try_wait(), Ok(None)) {
                let _ = killpg(group, Signal::SIGKILL);
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Polls `condition` until it is true.
///
/// # Errors
/// [`Error::Deadline`] naming `what` when it is not true after `patience`.
pub fn wait_until(
    patience: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let looked = Instant::now();
        if condition() {
            break;
        }
        if Instant::now() >= deadline {
            return Err(Error::Deadline {
                what: what.to_owned(),
                waited: patience,
            });
        }
        // A condition that takes long to look at leaves the processors to what it waits for.
        thread::sleep(POLL_INTERVAL.max(4 * looked.elapsed()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    fn sleeper() -> Process {
        Process::start(
            Command::new("sleep")
                .arg("60")
                .process_group(0)
                .stdout(Stdio::piped()),
        )
        .unwrap()
    }

    #[test]
    fn dropped_process_is_gone() {
        let process = sleeper();
        let path = format!("/proc/{}", process.id());
        assert!(std::path::Path::new(&path).exists());
        drop(process);
        assert!(!std::path::Path::new(&path).exists());
    }

    #[test]
    fn deadline_is_reported_and_kills() {
        let mut process = sleeper();
        let patience = Duration::from_millis(20);
        assert!(matches!(
            process.wait_with_deadline(patience),
            Err(Error::Deadline { .. })
        ));
        assert!(matches!(
            process.output(patience),
            Err(Error::Deadline { .. })
        ));
    }

    #[test]
    fn output_is_collected() {
        let mut command = Command::new("echo");
        command.arg("here").stdout(Stdio::piped());
        let output = Process::start(&mut command)
            .unwrap()
            .output(Duration::from_secs(10))
            .unwrap();
        assert_eq!(output.stdout, b"here\n");
    }
}
