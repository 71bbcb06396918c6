//! The keys, above what is shown.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Padding, Paragraph};
use unicode_width::UnicodeWidthStr;

/// Keys, and what they do.
pub type Key = (&'static str, &'static str);

/// Border and padding, at both sides.
const FRAME: u16 = 4;

/// Draws a list of keys in the middle of an area.
pub fn draw_help(frame: &mut Frame<'_>, area: Rect, keys: &[Key]) {
    let names = keys.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let lines: Vec<_> = keys
        .iter()
        .map(|&(name, what)| line(name, what, names))
        .collect();
    let longest = lines.iter().map(Line::width).max().unwrap_or_default();
    let width = (longest as u16 + FRAME).min(area.width);
    let height = (lines.len() as u16 + 2).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let border = Block::bordered()
        .title(" keys ")
        .padding(Padding::horizontal(1));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(border), place);
}

fn line(name: &'static str, what: &'static str, width: usize) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let blank = " ".repeat(width - name.width() + 2);
    Line::from(vec![
        Span::styled(name, bold),
        Span::raw(blank),
        Span::raw(what),
    ])
}
