//! What other processes and the user at the terminal ask for by signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;
#[cfg(feature = "live")]
use signal_hook::flag::register_conditional_shutdown;

/// Signals that have come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    #[cfg(feature = "live")]
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to listen: to SIGINT and SIGTERM always, even where they were ignored as in a
    /// background job of a shell, and to SIGHUP if there is a file to open anew.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn listen(has_file: bool) -> anyhow::Result<Self> {
        let signals = Self::default();
        for signal in [SIGINT, SIGTERM] {
            register(signal, Arc::clone(&signals.stop))
                .context("cannot listen to SIGINT and SIGTERM")?;
        }
        if has_file {
            register(SIGHUP, Arc::clone(&signals.reopen)).context("cannot listen to SIGHUP")?;
        }
        Ok(signals)
    }

    /// Ends the process at SIGINT with status 0, as a command that measures and has nothing to
    /// finish, even where it was ignored as in a background job of a shell.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(feature = "live")]
    pub(crate) fn end_at_interrupt() -> anyhow::Result<()> {
        let always = Arc::new(AtomicBool::new(true));
        register_conditional_shutdown(SIGINT, 0, always).context("cannot listen to SIGINT")?;
        Ok(())
    }

    /// Listens to SIGHUP for a configuration that is to be read again.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(feature = "live")]
    pub(crate) fn listen_to_reload(&self) -> anyhow::Result<()> {
        register(SIGHUP, Arc::clone(&self.reload)).context("cannot listen to SIGHUP")?;
        Ok(())
    }

    /// Is the configuration to be read again? Says so once a signal.
    #[cfg(feature = "live")]
    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Is it time to end?
    pub(crate) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// As if a signal had come.
    #[cfg(test)]
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Is the output file to be opened anew? Says so once a signal.
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }
}
