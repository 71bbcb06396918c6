//! How far the reading of files has come, shown where it does not meet the data.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws a second, at most.
const REDRAWS_PER_SECOND: u8 = 5;

/// A bar on standard error, if that is a terminal and standard output is not.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Bytes of the files before this one.
    before: u64,
}

impl Progress {
    /// For so many bytes in all; `None` if it is not known.
    pub(super) fn new(total_bytes: Option<u64>) -> Self {
        let is_shown = io::stderr().is_terminal() && !io::stdout().is_terminal();
        let target = if is_shown {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total_bytes, target);
        let template = match total_bytes {
            Some(_) => {
                "{bar:40} {percent:>3} %  {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left"
            }
            None => "{spinner} {bytes}  {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, before: 0 }
    }

    /// So many bytes of the present file have been read.
    pub(super) fn at(&self, position: u64) {
        self.bar.set_position(self.before + position);
    }

    /// The present file is done, having so many bytes.
    pub(super) fn file_done(&mut self, bytes: u64) {
        self.before += bytes;
        self.bar.set_position(self.before);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
