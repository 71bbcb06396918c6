//! What is drawn, and how it follows keys and answers.

mod answers;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::asker::{Content, Newest, Reply, What};
use super::tabs::TABS;
use super::*;
use crate::lists::Range;
use answers::{NEWEST_S, SECOND, answer, newest, reply_to};

fn settle(state: &mut State) {
    let reply = reply_to(state.ask(), newest());
    state.take(reply);
}

/// Looked at a second after the newest record.
fn opened(list: List) -> State {
    let mut state = State::new(list, Width::Minute, TimeZone::UTC);
    state.now((NEWEST_S + 1) * SECOND);
    settle(&mut state);
    state
}

fn press(state: &mut State, keys: &[KeyCode]) {
    for &key in keys {
        let event = Event::Key(KeyEvent::new(key, KeyModifiers::NONE));
        let _ = state.on_event(&event);
    }
}

fn typed(state: &mut State, text: &str) {
    let keys: Vec<_> = text.chars().map(KeyCode::Char).collect();
    press(state, &keys);
}

fn drawn(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| draw::draw(frame, state, Palette::coloured());
    terminal.draw(draw).unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_tab_looks_like_this() {
    for tab in &TABS {
        let mut state = opened(tab.list);
        insta::assert_snapshot!(format!("tab_{}", tab.name), drawn(&mut state, 150, 8));
    }
}

#[test]
fn a_narrow_terminal_is_made_use_of() {
    let mut state = opened(List::Flows);
    insta::assert_snapshot!(drawn(&mut state, 60, 8));
    press(&mut state, &[KeyCode::Enter]);
    settle(&mut state);
    for (width, height) in [(60, 12), (12, 3), (1, 1)] {
        drawn(&mut state, width, height);
    }
}

#[test]
fn a_flow_has_everything_on_one_axis_of_time() {
    let mut state = opened(List::Flows);
    drawn(&mut state, 150, 30);
    press(&mut state, &[KeyCode::Enter]);
    assert!(drawn(&mut state, 100, 30).contains("asking"));
    settle(&mut state);
    insta::assert_snapshot!("flow_page", drawn(&mut state, 110, 34));
    insta::assert_snapshot!("wide_flow_page", drawn(&mut state, 180, 24));
    press(&mut state, &[KeyCode::Esc]);
    assert!(drawn(&mut state, 150, 30).contains("busiest first"));
}

#[test]
fn the_latency_of_a_flow_or_a_server_is_explained() {
    for (list, subject) in [(List::Flows, "flow 1:"), (List::Servers, "service ")] {
        let mut state = opened(list);
        drawn(&mut state, 150, 8);
        press(&mut state, &[KeyCode::Down, KeyCode::Char('e')]);
        let waiting = drawn(&mut state, 150, 8);
        assert!(waiting.contains(subject), "{waiting}");
        assert!(matches!(state.ask().what, What::Explanation(_)));
        settle(&mut state);
        assert!(drawn(&mut state, 150, 8).contains("nothing was measured in this range"));
        press(&mut state, &[KeyCode::Esc]);
        assert!(matches!(state.ask().what, What::List { .. }));
    }
}

#[test]
fn help_lists_all_keys() {
    let mut state = opened(List::Flows);
    typed(&mut state, "?");
    insta::assert_snapshot!(drawn(&mut state, 100, 18));
}

#[test]
fn a_filter_is_applied_at_once_and_asked_for() {
    let mut state = opened(List::Flows);
    // Digits and brackets are part of it while it is typed.
    typed(&mut state, "/2001:");
    insta::assert_snapshot!(drawn(&mut state, 120, 6));
    let What::List { filter, .. } = state.ask().what else {
        panic!("a list is asked for");
    };
    assert_eq!(filter, "2001:");
    press(&mut state, &[KeyCode::Enter]);
    typed(&mut state, "4");
    assert!(drawn(&mut state, 120, 6).contains("connection "));
}

#[test]
fn an_empty_store_says_what_fills_it() {
    let mut state = State::new(List::Flows, Width::Minute, TimeZone::UTC);
    assert!(drawn(&mut state, 100, 6).contains("asking"));
    let mut reply = reply_to(state.ask(), Newest::default());
    let told = reply.answer.as_mut().unwrap();
    told.content = Content::Rows(answer(List::Flows, &[]));
    state.take(reply);
    insta::assert_snapshot!(drawn(&mut state, 100, 6));
}

#[test]
fn an_agent_that_has_stopped_is_told() {
    let mut state = opened(List::Flows);
    assert!(!drawn(&mut state, 150, 8).contains("ago"));
    state.now((NEWEST_S + 190) * SECOND);
    assert!(drawn(&mut state, 150, 8).contains("last record 3 min ago"));
}

#[test]
fn an_error_is_told_until_the_store_answers_again() {
    let mut state = opened(List::Flows);
    let ask = state.ask();
    state.take(Reply {
        ask,
        answer: Err(anyhow::anyhow!("the disk\nis gone")),
    });
    let text = drawn(&mut state, 150, 8);
    assert!(text.contains("the disk is gone") && text.contains(":3000"));
    settle(&mut state);
    assert!(!drawn(&mut state, 150, 8).contains("gone"));
}

#[test]
fn ended_flows_leave_unless_the_past_is_looked_at() {
    let mut state = opened(List::Flows);
    assert!(!drawn(&mut state, 150, 8).contains("9000"));
    typed(&mut state, "[");
    settle(&mut state);
    let text = drawn(&mut state, 150, 8);
    assert!(text.contains(":9000") && text.contains("back in time"));
}

#[test]
fn the_selected_flow_stays_selected() {
    let mut state = opened(List::Flows);
    drawn(&mut state, 150, 8);
    press(&mut state, &[KeyCode::Down]);
    let selected = state.tables[0].selected().map(str::to_owned);
    // In another order it has another place.
    typed(&mut state, "r");
    settle(&mut state);
    drawn(&mut state, 150, 8);
    assert_eq!(state.tables[0].selected(), selected.as_deref());
}

#[test]
fn what_is_asked_follows_the_keys() {
    let mut state = opened(List::Flows);
    let old = reply_to(state.ask(), newest());
    let range = |state: &State| state.ask().span.range(NEWEST_S * SECOND);
    let seconds = |range: Range| {
        let newest = NEWEST_S * SECOND;
        (
            (range.from_ns - newest) / SECOND,
            (range.to_ns - newest) / SECOND,
        )
    };
    typed(&mut state, "[[");
    assert_eq!(seconds(range(&state)), (-120, -60));
    // An answer to what was asked before is nothing to what is shown now.
    let before = state.range;
    state.take(old);
    assert_eq!(state.range, before);
    typed(&mut state, "+");
    assert_eq!(seconds(range(&state)), (-660, -60));
    typed(&mut state, "-]");
    assert_eq!(seconds(range(&state)), (-90, -30));
    typed(&mut state, "0p");
    assert_eq!(state.ask().span.end_ns, Some(NEWEST_S * SECOND));
    typed(&mut state, "p");
    assert_eq!(state.ask().span.end_ns, None);
    typed(&mut state, "ss");
    let What::List { sort, .. } = state.ask().what else {
        panic!("a list is asked for");
    };
    assert_eq!(sort, Some("rtt_p50_ns"));
}

#[test]
fn a_server_leads_to_its_flows() {
    let mut state = opened(List::Servers);
    drawn(&mut state, 150, 8);
    press(&mut state, &[KeyCode::Enter]);
    let What::List { list, filter, .. } = state.ask().what else {
        panic!("a list is asked for");
    };
    assert_eq!((list, filter.as_str()), (List::Flows, "192.0.2.7:443"));
}

#[test]
fn flows_are_put_together() {
    let mut state = opened(List::Flows);
    typed(&mut state, "g");
    settle(&mut state);
    insta::assert_snapshot!(drawn(&mut state, 130, 6));
    press(&mut state, &[KeyCode::Enter]);
    let What::List { group, filter, .. } = state.ask().what else {
        panic!("a list is asked for");
    };
    assert_eq!((group, filter.as_str()), (None, "192.0.2.7:443"));
    // Other lists have no groups, and g means nothing there.
    typed(&mut state, "g3g");
    settle(&mut state);
    assert!(drawn(&mut state, 130, 6).contains("1 servers  slowest"));
    // After the last kind of group, each is by itself again.
    typed(&mut state, "1gggg");
    assert!(drawn(&mut state, 130, 6).contains("asking"));
    settle(&mut state);
    assert!(drawn(&mut state, 130, 6).contains("udp 10.0.0.1:2000"));
}

#[test]
fn the_mouse_opens_tabs_and_sorts() {
    let mut state = opened(List::Flows);
    let text = drawn(&mut state, 150, 8);
    let click = |state: &mut State, word: &str, row: usize| {
        let line: String = text.lines().nth(row).unwrap().chars().skip(1).collect();
        let column = line.find(word).unwrap() as u16 + 1;
        let _ = state.on_event(&Event::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row: row as u16,
            modifiers: KeyModifiers::NONE,
        }));
    };
    click(&mut state, "loss", 2);
    let What::List { sort, .. } = state.ask().what else {
        panic!("a list is asked for");
    };
    assert_eq!(sort, Some("loss_ratio"));
    click(&mut state, "servers", 0);
    assert_eq!(TABS[state.tab].list, List::Servers);
}

#[test]
fn keys_end_it() {
    let mut state = opened(List::Flows);
    for key in [
        KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE),
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert!(state.on_event(&Event::Key(key)).is_break());
    }
    let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    assert!(state.on_event(&Event::Key(escape)).is_continue());
}
