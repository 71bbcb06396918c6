//! The terminal that the table is shown on.

use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_measure::Counts;
use fathom_measure::rtt::RttSample;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Table;
use super::draw::{Surroundings, draw};
use crate::failure::say;

/// Between two drawings, unless a key was pressed.
const REDRAW: Duration = Duration::from_millis(250);
/// Over how long the rate of samples is taken.
const RATE_OVER: Duration = Duration::from_secs(1);
/// Rows that page up and page down move by.
const PAGE: isize = 20;

/// Does the user want more?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    More,
    Done,
}

/// The table on the terminal. Dropped, the terminal is as it was; so it is after a panic.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    table: Table,
    interfaces: String,
    messages: Vec<String>,
    drawn: Option<Instant>,
    rate: Rate,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When it does not let itself be.
    pub(crate) fn open(interfaces: &[String]) -> anyhow::Result<Self> {
        Ok(Self {
            terminal: ratatui::try_init().context("cannot show a table on this terminal")?,
            table: Table::new(),
            interfaces: interfaces.join(", "),
            messages: Vec::new(),
            drawn: None,
            rate: Rate {
                since: Instant::now(),
                samples: 0,
                per_second: 0.0,
            },
        })
    }

    /// Takes a sample in.
    pub(crate) fn take(&mut self, sample: &RttSample) {
        self.table.take(sample);
    }

    /// Shows a message, and says it again when the terminal is given back.
    pub(crate) fn say(&mut self, message: String) {
        self.messages.push(message);
    }

    /// Follows the keys, and draws if it is time. `counts` is asked for only then.
    ///
    /// # Errors
    /// When the terminal is gone, or `counts` fails.
    pub(crate) fn refresh(
        &mut self,
        counts: impl FnOnce() -> anyhow::Result<Counts>,
    ) -> anyhow::Result<Wish> {
        let mut has_changed = false;
        while event::poll(Duration::ZERO).context("cannot read the terminal")? {
            match event::read().context("cannot read the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if self.on_key(key) == Wish::Done {
                        return Ok(Wish::Done);
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
            self.rate.update(now, self.table.samples);
            self.draw(&counts()?)?;
            self.drawn = Some(now);
        }
        Ok(Wish::More)
    }

    fn draw(&mut self, counts: &Counts) -> anyhow::Result<()> {
        let surroundings = Surroundings {
            interfaces: &self.interfaces,
            samples_per_second: self.rate.per_second,
            counts,
            message: self.messages.last().map(String::as_str),
        };
        self.terminal
            .draw(|frame| draw(frame, &self.table, &surroundings))
            .context("cannot write to the terminal")?;
        Ok(())
    }

    fn on_key(&mut self, key: KeyEvent) -> Wish {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Done,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Wish::Done;
            }
            KeyCode::Char('s') => self.table.sort_differently(),
            KeyCode::Down => self.table.scroll(1),
            KeyCode::Up => self.table.scroll(-1),
            KeyCode::PageDown => self.table.scroll(PAGE),
            KeyCode::PageUp => self.table.scroll(-PAGE),
            KeyCode::Home => self.table.scroll(isize::MIN),
            KeyCode::End => self.table.scroll(isize::MAX),
            _ => {}
        }
        Wish::More
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

/// Samples a second.
struct Rate {
    since: Instant,
    /// At that time.
    samples: u64,
    per_second: f64,
}

impl Rate {
    fn update(&mut self, now: Instant, samples: u64) {
        let passed = now.duration_since(self.since);
        if passed >= RATE_OVER {
            self.per_second = (samples - self.samples) as f64 / passed.as_secs_f64();
            (self.since, self.samples) = (now, samples);
        }
    }
}
