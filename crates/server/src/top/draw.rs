//! How all is drawn.

use fathom_terminal::{Key, Palette, Severity, Table};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::columns::severity_of_age;
use super::state::State;
use super::tabs::TABS;
use super::{clock, page};

const KEYS: &[Key] = &[
    ("1 to 7, Tab", "another tab; or click on its name"),
    (
        "Enter",
        "the page of a flow; the flows of a server, network, host",
    ),
    (
        "e",
        "where the latency of a flow, a server or a host comes from",
    ),
    ("Esc", "back"),
    (
        "g",
        "flows by server, network, host, process, and each again",
    ),
    ("[  ], left, right", "back in time, and forward"),
    ("0", "the newest records again"),
    ("-  +", "a shorter range, a longer one"),
];
const SHORT_KEYS: &str = "Enter open  e explain  [ ] time  - + range  1-7 tabs  ";
/// The line of tabs needs so much to name all.
const NAMES: u16 = 72;

/// Draws all.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, palette: Palette) {
    let [tabs, head, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_tabs(frame, tabs, state);
    let status = status(state, palette);
    frame.render_widget(status, head);
    if let Some(explained) = &state.explained {
        explained.draw(frame, body, palette);
    } else if let Some(page) = &mut state.page {
        page::draw::draw(frame, body, page, state.range, &state.zone, palette);
    } else {
        let (table, list) = (&mut state.tables[state.tab], &state.lists[state.tab]);
        table.draw(frame, body, list, palette);
        if list.counts().1 == 0 {
            draw_nothing(frame, body, state);
        }
    }
    frame.render_widget(foot_line(state, palette), foot);
    let table = match &state.page {
        Some(page) => &page.table,
        None => &state.tables[state.tab],
    };
    table.draw_help(frame, frame.area(), KEYS);
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let mut spans = vec![Span::styled("fathom top", Modifier::BOLD), Span::raw(" ")];
    let mut begin = area.x + 11;
    state.tab_places.clear();
    for (place, tab) in TABS.iter().enumerate() {
        let is_open = place == state.tab;
        let text = if is_open || area.width >= NAMES {
            format!(" {} {} ", place + 1, tab.name)
        } else {
            format!(" {} ", place + 1)
        };
        let width = text.len() as u16;
        let place = Rect::new(begin, area.y, width, 1);
        state.tab_places.push(place);
        begin += width;
        let style = if is_open {
            Style::new().reversed()
        } else {
            Style::new()
        };
        spans.push(Span::styled(text, style));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Which time is shown, and how old that is.
fn status(state: &State, palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    let live = state.span.end_ns.is_none();
    spans.push(Span::styled(
        if live { "live" } else { "back in time" },
        Modifier::BOLD,
    ));
    if let (Some(range), Some(_)) = (state.range, state.newest.time_ns) {
        let range = clock::range(range, state.now_ns, &state.zone);
        spans.push(Span::raw(format!(
            "  {range} ({})",
            state.span.width.name()
        )));
    }
    if let Some(time_ns) = state.newest.time_ns {
        let age_ns = state.now_ns - time_ns;
        let severity = severity_of_age(age_ns, state.newest.interval_ns);
        if severity > Severity::Normal {
            let text = format!("  last record {} ago", clock::age(age_ns));
            spans.push(Span::styled(text, palette.style(severity)));
        }
    }
    if state.page.is_none() && state.explained.is_none() {
        let (table, list) = (&state.tables[state.tab], &state.lists[state.tab]);
        let counts = match list.counts() {
            (total, listed) if total > listed as u64 => format!("{listed} of {total}"),
            (total, _) => total.to_string(),
        };
        let (name, chosen) = (list.tab.name, table.chosen(list));
        let group = state.group_of(state.tab);
        let group = group.map_or_else(String::new, |group| format!(" by {}", group.name()));
        spans.push(Span::raw(format!("  {counts} {name}{group}  {chosen}")));
    }
    Line::from(spans)
}

/// Why there is nothing.
fn draw_nothing(frame: &mut Frame<'_>, body: Rect, state: &State) {
    let place = Rect {
        y: body.y + 1,
        height: body.height.saturating_sub(1).min(1),
        ..body
    };
    let is_told = state.lists[state.tab].is_told;
    let text = match (is_told, state.newest.time_ns) {
        _ if state.error.is_some() => "",
        (false, _) => "asking",
        (true, None) => "the store has no records yet: `fathom agent` and `fathom import` fill it",
        _ if !state.tables[state.tab].filter().is_empty() => {
            "nothing contains this text: Esc shows all"
        }
        _ => "nothing in this range: `[` goes back, `+` widens it, another tab may have more",
    };
    frame.render_widget(Line::raw(text).style(Modifier::DIM), place);
}

fn foot_line(state: &State, palette: Palette) -> Line<'static> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let table = &state.tables[state.tab];
    if let Some(error) = &state.error {
        return Line::raw(error.replace('\n', " ")).style(palette.style(Severity::Bad));
    }
    if state.explained.is_some() {
        return Line::raw("Esc back  up, down scroll  [ ] time  - + range  q quit").style(dim);
    }
    match (&state.page, table.prompt()) {
        (None, Some(prompt)) => Line::raw(prompt),
        (None, None) => Line::raw(format!("{SHORT_KEYS}{}", Table::SHORT_KEYS)).style(dim),
        (Some(page), _) => match page.table.prompt() {
            Some(prompt) => Line::raw(prompt),
            None => {
                Line::raw("Esc back  e explain  [ ] time  - + range  q quit  ? help").style(dim)
            }
        },
    }
}
