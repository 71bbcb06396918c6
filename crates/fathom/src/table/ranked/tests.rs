//! What tables show, and how they follow keys and the mouse.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::*;

/// What a terminal of this size shows.
pub(crate) fn drawn(
    width: u16,
    height: u16,
    table: &mut dyn TableView,
    message: Option<&str>,
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| table.draw(frame, message)).unwrap();
    terminal.backend().to_string()
}

/// Presses keys, one after the other.
pub(crate) fn press(table: &mut dyn TableView, keys: &[KeyCode]) {
    for &key in keys {
        table.on_event(&Event::Key(KeyEvent::new(key, KeyModifiers::NONE)));
    }
}

/// Numbers, each with as many lines below its title.
#[derive(Clone)]
struct Numbers(Recent<u64, u64>);

impl Rows for Numbers {
    type Key = u64;
    type Row = u64;

    const COMMAND: &'static str = "count";
    const COUNTED: &'static str = "numbers";
    const OF: &'static str = "numbers";
    const COLUMNS: &'static [Column] = &[Column::wide("line", 4, 0)];
    const SORT_KEYS: &'static [SortKey<u64>] = &[
        SortKey {
            name: "greatest",
            title: "line",
            key: Some(|number| *number),
        },
        SortKey {
            name: "most recent",
            title: "",
            key: None,
        },
    ];

    fn take(&mut self, _: &dyn Record) {}

    fn rows(&self) -> &Recent<u64, u64> {
        &self.0
    }

    fn counted(&self) -> u64 {
        0
    }

    fn title(row: &u64) -> Option<String> {
        Some(row.to_string())
    }

    fn height(row: &u64) -> usize {
        *row as usize
    }

    fn lines(&self, row: &u64) -> Vec<Vec<Cell>> {
        (0..*row)
            .map(|line| vec![format!("{row}.{line}").into()])
            .collect()
    }
}

fn table(numbers: impl IntoIterator<Item = u64>) -> Ranked<Numbers> {
    let mut rows = Numbers(Recent::new());
    for number in numbers {
        rows.0.row(number, || number);
    }
    Ranked::new(rows, &["eth0".to_owned()])
}

/// The rows that there is room for.
fn shown(table: &mut Ranked<Numbers>, height: u16) -> Vec<String> {
    let text = drawn(60, height + 4, table, None);
    let lines = text.lines().map(|line| line.trim_matches('"').trim());
    let lines: Vec<_> = lines.map(str::to_owned).collect();
    let rows = lines[3..lines.len() - 1].iter();
    rows.filter(|line| !line.is_empty()).cloned().collect()
}

#[test]
fn rows_are_ranked_and_scrolled_by_lines_to_the_ends() {
    let mut table = table([2, 1]);
    assert_eq!(shown(&mut table, 9), ["2", "2.0", "2.1", "1", "1.0"]);
    press(&mut table, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(shown(&mut table, 2), ["2.1", "1"]);
    press(&mut table, &[KeyCode::End]);
    assert_eq!(shown(&mut table, 9), ["1.0"]);
    press(&mut table, &[KeyCode::Home]);
    assert_eq!(shown(&mut table, 1), ["2"]);
    press(&mut table, &[KeyCode::Down, KeyCode::Char('s')]);
    assert_eq!(shown(&mut table, 9), ["1", "1.0", "2", "2.0", "2.1"]);
    press(&mut table, &[KeyCode::Char('s'), KeyCode::Char('r')]);
    assert_eq!(shown(&mut table, 9), ["1", "1.0", "2", "2.0", "2.1"]);
    press(&mut table, &[KeyCode::Char('r')]);
    assert_eq!(shown(&mut table, 2), ["2", "2.0"]);
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut table = table([2, 1]);
    // What quits otherwise is a letter here.
    press(&mut table, &[KeyCode::Char('/'), KeyCode::Char('q')]);
    assert_eq!(shown(&mut table, 9), [""; 0]);
    assert!(drawn(70, 9, &mut table, None).contains("/q\u{2588}"));
    let keys = [KeyCode::Backspace, KeyCode::Char('1'), KeyCode::Char('.')];
    press(&mut table, &keys);
    press(&mut table, &[KeyCode::Enter]);
    assert_eq!(shown(&mut table, 9), ["1", "1.0"]);
    assert!(drawn(70, 9, &mut table, None).contains("filter \"1.\""));
    press(&mut table, &[KeyCode::Esc]);
    assert_eq!(shown(&mut table, 9).len(), 5);
}

#[test]
fn a_paused_table_stays_as_it_is() {
    let mut table = table([2]);
    press(&mut table, &[KeyCode::Char('p')]);
    table.rows.0.row(1, || 1);
    assert_eq!(shown(&mut table, 9), ["2", "2.0", "2.1"]);
    assert!(drawn(70, 9, &mut table, None).contains("paused"));
    press(&mut table, &[KeyCode::Char(' ')]);
    assert_eq!(shown(&mut table, 9).len(), 5);
}

#[test]
fn help_lies_above_the_table_until_a_key_is_pressed() {
    let mut table = table([2]);
    press(&mut table, &[KeyCode::Char('?')]);
    insta::assert_snapshot!(drawn(80, 12, &mut table, None));
    let key = Event::Key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE));
    assert_eq!(table.on_event(&key), Reaction::Taken);
    assert_eq!(table.on_event(&key), Reaction::Quit);
    drawn(1, 1, &mut table, None);
}

#[test]
fn the_mouse_scrolls_and_sorts() {
    let mut table = table([1, 2]);
    press(&mut table, &[KeyCode::Char('s')]);
    assert_eq!(shown(&mut table, 9)[0], "2", "the most recent");
    let mut turn = |kind, row| {
        table.on_event(&Event::Mouse(MouseEvent {
            kind,
            column: 1,
            row,
            modifiers: KeyModifiers::NONE,
        }));
        shown(&mut table, 9)
    };
    assert_eq!(turn(MouseEventKind::ScrollDown, 5), ["1", "1.0"]);
    assert_eq!(turn(MouseEventKind::Down(MouseButton::Left), 2)[0], "2");
    assert_eq!(turn(MouseEventKind::Down(MouseButton::Left), 2)[0], "1");
}
