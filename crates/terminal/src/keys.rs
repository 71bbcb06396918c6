//! What keys and the mouse do to a table.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use crate::help::Key;
use crate::table::{Keys, Rows, Table, height_of};

/// Lines that a turn of the wheel moves by.
const WHEEL: isize = 3;

/// What became of something that the user did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// The table has followed.
    Taken,
    /// It is nothing to the table.
    Ignored,
    /// The user wants back to where the table was opened from.
    Back,
    /// The user wants the selected row opened.
    Open,
    /// The user has seen enough.
    Quit,
}

impl Table {
    /// What these keys do, for the help.
    pub const KEYS: &'static [Key] = &[
        ("q", "quit"),
        ("arrows, page keys, home, end", "move; the wheel does, too"),
        ("s  r", "another order, reversed; or click on a title"),
        ("/", "only rows with a text; Esc shows all"),
        ("p, space", "pause, and go on"),
        ("?", "this help; any key closes it"),
    ];

    /// The most important of them, for the last line.
    pub const SHORT_KEYS: &'static str = "q quit  s sort  / filter  p pause  ? help";

    /// Follows a key or the mouse.
    pub fn on_event<R: Rows>(&mut self, event: &Event, rows: &R) -> Reaction {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(*key, rows),
            Event::Mouse(mouse) if !self.takes_all_keys() => self.on_mouse(*mouse, rows),
            Event::Resize(..) => Reaction::Taken,
            _ => Reaction::Ignored,
        }
    }

    fn on_key<R: Rows>(&mut self, key: KeyEvent, rows: &R) -> Reaction {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Reaction::Quit,
                _ => Reaction::Ignored,
            };
        }
        match self.keys {
            Keys::Rows => return self.on_row_key(key.code, rows),
            Keys::Filter => self.type_filter(key.code),
            Keys::Help => self.keys = Keys::Rows,
        }
        Reaction::Taken
    }

    fn on_row_key<R: Rows>(&mut self, code: KeyCode, rows: &R) -> Reaction {
        let page = self.rows.height.max(2).cast_signed() as isize - 1;
        match code {
            KeyCode::Char('q') => return Reaction::Quit,
            KeyCode::Esc if self.filter.is_empty() => return Reaction::Back,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter if self.selected.is_some() => return Reaction::Open,
            KeyCode::Char('s') => self.take_order(self.order + 1, false, rows),
            KeyCode::Char('r') => self.take_order(self.order, !self.is_reversed, rows),
            KeyCode::Char('/') => self.keys = Keys::Filter,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?') => self.keys = Keys::Help,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, rows),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1, rows),
            KeyCode::PageDown => self.move_by(page, rows),
            KeyCode::PageUp => self.move_by(-page, rows),
            KeyCode::Home => self.move_by(isize::MIN, rows),
            KeyCode::End => self.move_by(isize::MAX, rows),
            _ => return Reaction::Ignored,
        }
        Reaction::Taken
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.keys = Keys::Rows,
            KeyCode::Esc => {
                self.filter.clear();
                self.keys = Keys::Rows;
            }
            _ => {}
        }
        self.offset = 0;
    }

    fn on_mouse<R: Rows>(&mut self, mouse: MouseEvent, rows: &R) -> Reaction {
        let place = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollDown => self.move_by(WHEEL, rows),
            MouseEventKind::ScrollUp => self.move_by(-WHEEL, rows),
            MouseEventKind::Down(MouseButton::Left) => return self.click(place, rows),
            _ => return Reaction::Ignored,
        }
        Reaction::Taken
    }

    /// A title sorts by its column, and again the other way round; a row is selected, and opened
    /// if it is already.
    fn click<R: Rows>(&mut self, place: Position, rows: &R) -> Reaction {
        if let Some(column) = self.title_at(place) {
            let of_column = |order: &crate::Order| order.column == Some(column);
            if let Some(order) = rows.orders().iter().position(of_column) {
                let is_again = order == self.order && !self.is_reversed;
                self.take_order(order, is_again, rows);
            }
            return Reaction::Taken;
        }
        let Some((_, old)) = self.selected.as_ref().filter(|_| self.rows.contains(place)) else {
            return Reaction::Ignored;
        };
        let new = self.offset + usize::from(place.y - self.rows.y);
        if new == *old {
            return Reaction::Open;
        }
        if let Some(row) = self.shown(rows).get(new) {
            self.selected = Some((rows.key(row), new));
        }
        Reaction::Taken
    }

    fn take_order<R: Rows>(&mut self, order: usize, is_reversed: bool, rows: &R) {
        self.order = order % rows.orders().len().max(1);
        self.is_reversed = is_reversed;
        self.offset = 0;
    }

    /// Moves what is selected, or all, by so many lines, not beyond the ends.
    pub fn move_by<R: Rows>(&mut self, lines: isize, rows: &R) {
        let shown = self.shown(rows);
        if let Some((_, place)) = &self.selected {
            let last = shown.len().saturating_sub(1);
            let place = place.saturating_add_signed(lines).min(last);
            self.selected = shown.get(place).map(|row| (rows.key(row), place));
        } else {
            let height: usize = shown.iter().map(|row| height_of(rows, row)).sum();
            let last = height.saturating_sub(1);
            self.offset = self.offset.saturating_add_signed(lines).min(last);
        }
    }
}
