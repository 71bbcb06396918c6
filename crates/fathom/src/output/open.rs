//! Files and pipes that output is appended to.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::failure::say;
use crate::signals::Signals;

/// Opens a file, which need not be there, or a pipe, whose reader is waited for.
///
/// # Errors
/// When it cannot be opened, or it is time to end before there is a reader.
pub(super) fn open_to_append(path: &Path, signals: &Signals) -> anyhow::Result<File> {
    let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let opened = if is_pipe {
        open_pipe(path, signals)
    } else {
        OpenOptions::new().append(true).create(true).open(path)
    };
    opened.with_context(|| format!("cannot open the output file {}", path.display()))
}

/// Waits for the reader of a pipe that has a name. To open it as any file would wait, too, and no
/// signal would end that.
fn open_pipe(path: &Path, signals: &Signals) -> io::Result<File> {
    const LOOK: Duration = Duration::from_millis(50);
    let mut is_told = false;
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {
                if signals.should_stop() {
                    return Err(io::Error::other("it is a pipe that nobody reads"));
                }
                if !is_told {
                    say!(
                        "fathom: waiting for a reader of the pipe {}",
                        path.display()
                    );
                    is_told = true;
                }
                thread::sleep(LOOK);
            }
            opened => {
                let pipe = opened?;
                fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
                return Ok(pipe);
            }
        }
    }
}
