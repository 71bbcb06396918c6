//! Where the latency of what was selected comes from, in place of lists.

use fathom_terminal::{Palette, Reaction, Severity};
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Wrap};

use crate::explain::{Explanation, Subject};

/// An explanation, or the wait for it.
pub(super) struct Explained {
    pub(super) subject: Subject,
    lines: Vec<(String, Severity)>,
    /// Lines scrolled past.
    offset: u16,
}

impl Explained {
    /// Nothing is known yet.
    pub(super) fn new(subject: Subject) -> Self {
        let text = format!("{subject}: looking at everything that was measured");
        Self {
            subject,
            lines: vec![(text, Severity::Normal)],
            offset: 0,
        }
    }

    /// What came of it; `None`: nothing was measured of it in the range.
    pub(super) fn take(&mut self, explanation: Option<&Explanation>) {
        let nothing = || format!("{}: nothing was measured in this range", self.subject);
        self.lines = explanation.map_or_else(|| vec![(nothing(), Severity::Normal)], lines);
    }

    /// Follows a key.
    pub(super) fn on_event(&mut self, event: &Event) -> Reaction {
        let Event::Key(key) = event else {
            return Reaction::Ignored;
        };
        let last = self.lines.len().saturating_sub(1) as u16;
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

    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
        let line = |(text, severity): &(String, Severity)| {
            Line::styled(text.clone(), palette.style(*severity))
        };
        let text: Text<'_> = self.lines.iter().map(line).collect();
        let lines = Paragraph::new(text).wrap(Wrap { trim: false });
        frame.render_widget(lines.scroll((self.offset, 0)), area);
    }
}

/// The verdict stands out, then what was found; what was not measured is behind.
fn lines(explanation: &Explanation) -> Vec<(String, Severity)> {
    let text = explanation.in_brief();
    let mut is_missing = false;
    let lines = text.lines().map(|line| {
        is_missing |= line == "Not measured:";
        let severity = if line == explanation.verdict.text && explanation.verdict.cause.is_some() {
            Severity::Bad
        } else if is_missing {
            Severity::Faint
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            Severity::Notable
        } else {
            Severity::Normal
        };
        (line.to_owned(), severity)
    });
    lines.collect()
}
