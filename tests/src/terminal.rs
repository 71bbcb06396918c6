//! A terminal that tests press keys on.

use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fathom_lab::wait_until;
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(60);

/// A window of tmux, of a server of its own; dropped, both are gone.
#[derive(Debug)]
pub struct Terminal {
    server: String,
}

impl Terminal {
    /// Runs a command of the shell in a window of this size. What it showed remains when it has
    /// ended.
    pub fn open(name: &str, columns: u16, rows: u16, command: &str) -> Result<Self> {
        let server = format!("fathom-{name}-{}", std::process::id());
        let terminal = Self { server };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&[
            &["-f", "/dev/null", "start-server", ";"][..],
            &["set-option", "-g", "remain-on-exit", "on", ";"],
            &["new-session", "-d", "-x", &columns, "-y", &rows, command],
        ])?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&[&str]]) -> Result<Output> {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.server]).args(arguments.concat());
        // Another tmux around this process is none of its business.
        let output = tmux.env_remove("TMUX").output();
        let output = output.context("cannot run tmux: `make setup` installs it")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tmux {arguments:?}: {stderr}");
        Ok(output)
    }

    /// Presses keys, by the names that tmux has for them.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys]).map(drop)
    }

    /// Clicks on a cell, as a terminal tells it.
    pub fn click(&self, column: usize, row: usize) -> Result<()> {
        self.press(&["-l", &format!("\x1b[<0;{};{}M", column + 1, row + 1)])
    }

    /// What it shows.
    pub fn text(&self) -> Result<String> {
        let output = self.tmux(&[&["capture-pane", "-p"]])?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same with its colours, as sequences of escapes.
    pub fn coloured(&self) -> Result<String> {
        let output = self.tmux(&[&["capture-pane", "-e", "-p"]])?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until all this is shown, and returns all.
    pub fn shows(&self, wanted: &[&str]) -> Result<String> {
        let mut text = self.text()?;
        let shown = wait_until(PATIENCE, "the terminal to show it", || {
            text = self.text().unwrap_or_default();
            wanted.iter().all(|part| text.contains(part))
        });
        shown.with_context(|| format!("{wanted:?} is not in:\n{text}"))?;
        Ok(text)
    }

    /// The process that was started in it.
    pub fn process(&self) -> Result<Pid> {
        let output = self.tmux(&[&["list-panes", "-F", "#{pane_pid}"]])?;
        let text = String::from_utf8(output.stdout)?;
        Ok(Pid::from_raw(text.trim().parse()?))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have gone with its window.
        let _ = self.tmux(&[&["kill-server"]]);
    }
}
