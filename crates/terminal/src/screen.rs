//! The terminal that tables are shown on.

use std::io::{self, IsTerminal};
use std::panic;
use std::sync::Once;
use std::time::Duration;

use nix::unistd::{getpgrp, tcgetpgrp};
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::{DefaultTerminal, Frame};

/// The terminal, taken over. Dropped, it is as it was; so it is after a panic.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal over, with its mouse.
    ///
    /// # Errors
    /// When it does not let itself be.
    pub fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        let terminal = ratatui::try_init()?;
        HOOK.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                release_mouse();
                next(panic);
            }));
        });
        let screen = Self { terminal };
        execute!(io::stdout(), EnableMouseCapture)?;
        Ok(screen)
    }

    /// Draws all.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// What the user did next, if something comes within this time.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn event(&self, within: Duration) -> io::Result<Option<Event>> {
        event::poll(within)?.then(event::read).transpose()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        release_mouse();
        ratatui::restore();
    }
}

fn release_mouse() {
    // Nothing can be done where the terminal is gone.
    let _ = execute!(io::stdout(), DisableMouseCapture);
}

/// Is standard output a terminal, and ours? A job in the background would be stopped as soon as it
/// set the terminal up.
pub fn is_looked_at() -> bool {
    io::stdout().is_terminal()
        && tcgetpgrp(io::stdout()).is_ok_and(|foreground| foreground == getpgrp())
}
