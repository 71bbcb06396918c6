//! The terminal that the table is shown on.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_measure::Counts;
use fathom_record::Record;
use nix::unistd::{getpgrp, tcgetpgrp};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

use crate::failure::say;

/// Between two drawings, unless a key was pressed.
const REDRAW: Duration = Duration::from_millis(250);
/// Over how long a rate is taken.
const RATE_OVER: Duration = Duration::from_secs(1);
/// Rows that page up and page down move by.
const PAGE: isize = 20;

/// What a screen shows.
pub(crate) trait TableView {
    /// Takes a record in.
    fn take(&mut self, record: &dyn Record);

    /// What is drawn next is as of `now`, when so much is counted.
    fn update(&mut self, now: Instant, counts: &Counts);

    /// Draws all; the last line is for a message to the user, if there is one.
    fn draw(&self, frame: &mut Frame<'_>, message: Option<&str>);

    /// Moves by so many rows, not beyond the ends.
    fn scroll(&mut self, rows: isize);

    /// Takes the next order of rows.
    fn sort_differently(&mut self);
}

/// The table on the terminal. Dropped, the terminal is as it was; so it is after a panic.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    pub(crate) view: Box<dyn TableView>,
    messages: Vec<String>,
    drawn: Option<Instant>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When it does not let itself be.
    pub(crate) fn open(view: Box<dyn TableView>) -> anyhow::Result<Self> {
        Ok(Self {
            terminal: ratatui::try_init().context("cannot show a table on this terminal")?,
            view,
            messages: Vec::new(),
            drawn: None,
        })
    }

    /// Shows a message, and says it again when the terminal is given back.
    pub(crate) fn say(&mut self, message: String) {
        self.messages.push(message);
    }

    /// Follows the keys, and draws if it is time. What is shown is made `ready` only then.
    ///
    /// # Errors
    /// When the terminal is gone, or `ready` fails.
    pub(crate) fn refresh(
        &mut self,
        ready: impl FnOnce(&mut dyn TableView, Instant) -> anyhow::Result<()>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let mut has_changed = false;
        while event::poll(Duration::ZERO).context("cannot read the terminal")? {
            match event::read().context("cannot read the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if self.on_key(key).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    has_changed = true;
                }
                Event::Resize(..) => has_changed = true,
                _ => {}
            }
        }
        let now = Instant::now();
        let is_old = self
            .drawn
            .is_none_or(|drawn| now.duration_since(drawn) >= REDRAW);
        if has_changed || is_old {
            ready(&mut *self.view, now)?;
            let (view, message) = (&self.view, self.messages.last().map(String::as_str));
            self.terminal
                .draw(|frame| view.draw(frame, message))
                .context("cannot write to the terminal")?;
            self.drawn = Some(now);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn on_key(&mut self, key: KeyEvent) -> ControlFlow<()> {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return ControlFlow::Break(());
            }
            KeyCode::Char('s') => self.view.sort_differently(),
            KeyCode::Down => self.view.scroll(1),
            KeyCode::Up => self.view.scroll(-1),
            KeyCode::PageDown => self.view.scroll(PAGE),
            KeyCode::PageUp => self.view.scroll(-PAGE),
            KeyCode::Home => self.view.scroll(isize::MIN),
            KeyCode::End => self.view.scroll(isize::MAX),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
        for message in &self.messages {
            say!("fathom: {message}");
        }
    }
}

/// Is standard output a terminal, and ours? A job in the background would be stopped as soon as it
/// set the terminal up.
pub(crate) fn is_looked_at() -> bool {
    io::stdout().is_terminal()
        && tcgetpgrp(io::stdout()).is_ok_and(|foreground| foreground == getpgrp())
}

/// How many there are a second of something that is counted.
pub(super) struct Rate {
    since: Instant,
    /// At that time.
    count: u64,
    /// Over the last second.
    pub(super) per_second: f64,
}

impl Rate {
    /// From now on.
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            count: 0,
            per_second: 0.0,
        }
    }

    /// There are `count` by now.
    pub(super) fn update(&mut self, now: Instant, count: u64) {
        let passed = now.duration_since(self.since);
        if passed >= RATE_OVER {
            self.per_second = (count - self.count) as f64 / passed.as_secs_f64();
            (self.since, self.count) = (now, count);
        }
    }
}
