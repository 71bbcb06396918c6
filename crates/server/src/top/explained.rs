//! Where the latency of what was selected comes from, in place of lists.

use fathom_terminal::Reaction;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::widgets::{Paragraph, Wrap};

use crate::explain::{Explanation, Subject};

/// An explanation, or the wait for it.
pub(super) struct Explained {
    pub(super) subject: Subject,
    text: String,
    /// Lines scrolled past.
    offset: u16,
}

impl Explained {
    /// Nothing is known yet.
    pub(super) fn new(subject: Subject) -> Self {
        let text = format!("{subject}: looking at everything that was measured");
        Self {
            subject,
            text,
            offset: 0,
        }
    }

    /// What came of it; `None`: nothing was measured of it in the range.
    pub(super) fn take(&mut self, explanation: Option<&Explanation>) {
        self.text = match explanation {
            Some(explanation) => explanation.in_brief(),
            None => format!("{}: nothing was measured in this range", self.subject),
        };
    }

    /// Follows a key.
    pub(super) fn on_event(&mut self, event: &Event) -> Reaction {
        let Event::Key(key) = event else {
            return Reaction::Ignored;
        };
        let last = self.text.lines().count().saturating_sub(1) as u16;
        match key.code {
            _ if key.kind == KeyEventKind::Release => return Reaction::Ignored,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('e') => return Reaction::Back,
            KeyCode::Char('q') => return Reaction::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Reaction::Quit;
            }
            KeyCode::Up => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down => self.offset = (self.offset + 1).min(last),
            _ => return Reaction::Ignored,
        }
        Reaction::Taken
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let lines = Paragraph::new(self.text.as_str()).wrap(Wrap { trim: false });
        frame.render_widget(lines.scroll((self.offset, 0)), area);
    }
}
