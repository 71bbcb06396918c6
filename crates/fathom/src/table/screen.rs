//! The terminal that the table is shown on.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_measure::Counts;
use fathom_record::Record;
use fathom_terminal::Reaction;
use ratatui::Frame;
use ratatui::crossterm::event::Event;

use crate::failure::say;

/// Between two drawings, unless a key was pressed.
const REDRAW: Duration = Duration::from_millis(250);
/// Over how long a rate is taken.
const RATE_OVER: Duration = Duration::from_secs(1);

/// What a screen shows.
pub(crate) trait TableView {
    /// Takes a record in.
    fn take(&mut self, record: &dyn Record);

    /// What is drawn next is as of `now`, when so much is counted.
    fn update(&mut self, now: Instant, counts: &Counts);

    /// Draws all; the last line is for a message to the user, if there is one.
    fn draw(&mut self, frame: &mut Frame<'_>, message: Option<&str>);

    /// Follows a key or the mouse.
    fn on_event(&mut self, event: &Event) -> Reaction;
}

/// The table on the terminal. Dropped, the terminal is as it was; so it is after a panic.
pub(crate) struct Screen {
    /// Given back before the messages are said again.
    terminal: Option<fathom_terminal::Screen>,
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
        let terminal = fathom_terminal::Screen::open();
        Ok(Self {
            terminal: Some(terminal.context("cannot show a table on this terminal")?),
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
        let Some(terminal) = &mut self.terminal else {
            return Ok(ControlFlow::Break(()));
        };
        let mut has_changed = false;
        let event = || terminal.event(Duration::ZERO);
        while let Some(event) = event().context("cannot read the terminal")? {
            match self.view.on_event(&event) {
                Reaction::Quit | Reaction::Back => return Ok(ControlFlow::Break(())),
                Reaction::Taken | Reaction::Open => has_changed = true,
                Reaction::Ignored => {}
            }
        }
        let now = Instant::now();
        let is_old = self
            .drawn
            .is_none_or(|drawn| now.duration_since(drawn) >= REDRAW);
        if has_changed || is_old {
            ready(&mut *self.view, now)?;
            let (view, message) = (&mut self.view, self.messages.last().map(String::as_str));
            terminal
                .draw(|frame| view.draw(frame, message))
                .context("cannot write to the terminal")?;
            self.drawn = Some(now);
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.terminal = None;
        for message in &self.messages {
            say!("fathom: {message}");
        }
    }
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
