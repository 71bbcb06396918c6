//! Input that may keep us waiting: standard input, pipes, devices. Waiting for it ends when the
//! process is to end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};

use crate::signals::Signals;

/// How often a wait looks for signals, in milliseconds.
const LOOK_MS: u16 = 50;

/// A stream that ends early when the process is to end.
pub(super) struct Stream {
    file: File,
    signals: Signals,
}

impl Stream {
    /// Standard input.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn standard_input(signals: &Signals) -> io::Result<Self> {
        let file = io::stdin().as_fd().try_clone_to_owned()?.into();
        Ok(Self {
            file,
            signals: signals.clone(),
        })
    }

    /// A pipe or device by its path. A pipe that has no writer yet is not waited for here, but when
    /// it is read.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(path: &str, signals: &Signals) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        Ok(Self {
            file,
            signals: signals.clone(),
        })
    }

    /// Waits for bytes or the end. `false`: the process is to end.
    fn wait(&self) -> io::Result<bool> {
        while !self.signals.should_stop() {
            let mut waiting = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, LOOK_MS) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.wait()? {
                return Ok(0);
            }
            match self.file.read(buffer) {
                // Another reader of the same pipe was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}
