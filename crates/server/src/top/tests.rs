//! What is drawn, and how it follows keys and answers.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use serde_json::{Value, json};

use super::asker::{Ask, Content, Newest, Reply, Told, What};
use super::columns::TABS;
use super::*;
use crate::lists::flow::FlowAnswer;
use crate::lists::{Answer, Range};

const SECOND: i64 = 1_000_000_000;
/// 2025-11-24T16:00:00Z.
const NEWEST_S: i64 = 1_764_000_000;

/// A time so many seconds before the newest record.
fn before(seconds: i64) -> String {
    let time = Timestamp::from_second(NEWEST_S - seconds).unwrap();
    time.to_string()
}

/// Rows of a list, from some of their columns.
fn answer(list: List, rows: &[Value]) -> Answer {
    let values = |row: &Value| {
        let columns = list.columns().iter();
        columns
            .map(|it| row.get(it.name).cloned().unwrap_or_default())
            .collect()
    };
    Answer {
        columns: list.columns().to_vec(),
        rows: rows.iter().map(values).collect(),
        total: rows.len() as u64,
        sort: "",
    }
}

fn flow(port: u16, seconds_ago: i64, more: &Value) -> Value {
    let mut row = json!({
        "source": "10.0.0.1", "source_port": port, "protocol": "tcp",
        "destination": "192.0.2.7", "destination_port": 443,
        "bytes": 60_000 * u64::from(port), "reverse_bytes": 9_000_000,
        "rtt_p50_ns": 20_100_000, "rtt_p99_ns": 24_000_000, "client_rtt_p50_ns": 900_000,
        "latency_p50_ns": 35_000_000, "latency_p99_ns": 1_200_000_000_u64,
        "loss_ratio": 0.012, "reverse_loss_ratio": 0.07,
        "host": "gateway", "interface": "eth0", "last_time": before(seconds_ago),
        "community_id": format!("1:{port}"),
    });
    row.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    row
}

/// Rows of every tab.
fn rows_of(list: List) -> Vec<Value> {
    let host = json!({"host": "gateway", "last_time": before(0)});
    let row = |mut more: Value| {
        more.as_object_mut()
            .unwrap()
            .extend(host.as_object().unwrap().clone());
        more
    };
    match list {
        List::Flows => vec![
            flow(1000, 0, &json!({})),
            flow(
                3000,
                10,
                &json!({"source": "2001:db8::1", "rtt_p50_ns": null}),
            ),
            flow(2000, 10, &json!({"loss_ratio": null, "protocol": "udp"})),
            flow(9000, 50, &json!({})),
        ],
        List::Hops => vec![
            row(json!({
                "ttl": 2, "responder": "192.0.2.2", "responder_name": "core1.example.net",
                "rtt_p50_ns": 4_000_000, "rtt_p99_ns": 90_000_000, "queue_ns": 86_000_000,
                "loss_ratio": 0.25, "silence": "rate limited", "flows": 3, "probes_sent": 40,
            })),
            row(json!({"ttl": 3, "responder": null, "loss_ratio": 1.0, "probes_sent": 12})),
        ],
        List::Servers => vec![row(json!({
            "destination": "192.0.2.7", "destination_port": 443, "protocol": "tcp",
            "latency_p50_ns": 35_000_000, "latency_p90_ns": 120_000_000,
            "latency_p99_ns": 1_200_000_000_u64, "responses": 600.0, "flows": 12, "sure": 0.93,
        }))],
        List::Connections => vec![row(json!({
            "source": "10.0.0.1", "source_port": 5000, "protocol": "tcp", "process": "nginx",
            "destination": "192.0.2.7", "destination_port": 443, "reason": "FIN",
            "duration_ns": 3_000_000_000_u64, "establishment_ns": 21_000_000,
            "rtt_mean_ns": 20_000_000, "bytes_sent": 1_200, "bytes_received": 4_500_000,
            "packets_lost": 3, "stalled_ns": 400_000_000, "community_id": "1:5000",
        }))],
        List::Networks => vec![row(json!({
            "network": "192.0.2.0/24", "flows": 9, "rtt_min_ns": 19_000_000,
            "rtt_p50_ns": 20_000_000, "rtt_p99_ns": 240_000_000, "rtt_samples": 12_345,
        }))],
        List::Dns => vec![row(json!({
            "query_name": "www.example.net", "query_type": "A", "resolver": "192.0.2.53",
            "queries": 20, "failures": 2, "retries": 0, "latency_p50_ns": 900_000,
            "latency_p99_ns": 5_000_000_000_u64, "process": "curl",
        }))],
        List::Hosts => vec![row(json!({
            "measurements": "rtt, traffic", "records": 1_234_567, "version": "0.1.0",
            "interfaces": "eth0", "labels": "site=ber1", "interval_ns": 10_000_000_000_u64,
        }))],
    }
}

fn newest() -> Newest {
    Newest {
        time_ns: Some(NEWEST_S * SECOND),
        interval_ns: Some(10_000_000_000),
    }
}

/// Answers what is asked, as a store would.
fn reply_to(ask: Ask, newest: Newest) -> Reply {
    let content = match &ask.what {
        What::List { list, .. } => Content::Rows(answer(*list, &rows_of(*list))),
        What::Flow { .. } => Content::Flow(Some(Box::new(page()))),
    };
    let range = ask.span.range(newest.time_ns.unwrap_or_default());
    Reply {
        ask,
        answer: Ok(Told {
            newest,
            range,
            content,
        }),
    }
}

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

/// A flow of which everything was measured.
fn page() -> FlowAnswer {
    let point = |step: i64| {
        let is_loaded = (8..=16).contains(&step);
        let factor = if is_loaded { 4 } else { 1 };
        serde_json::from_value(json!({
            "time": before(60 - 2 * step), "bytes": 20_000 * factor, "reverse_bytes": 90_000 * factor,
            "loss_ratio": if is_loaded { 0.02 } else { 0.0 },
            "rtt_p50_ns": 20_000_000 * factor, "rtt_p99_ns": 26_000_000 * factor,
            "client_rtt_p50_ns": 1_000_000, "latency_p50_ns": 30_000_000 * factor,
        }))
        .unwrap()
    };
    let hop = |ttl: u64, queue_ns: Option<u64>| {
        serde_json::from_value(json!({
            "ttl": ttl, "responder": format!("192.0.2.{ttl}"), "rtt_p50_ns": ttl * 4_000_000,
            "rtt_p99_ns": ttl * 5_000_000, "queue_ns": queue_ns,
            "probes_sent": 40, "probes_lost": ttl - 1,
        }))
        .unwrap()
    };
    let event = |seconds_ago: i64, kind: &str, text: &str| {
        let time = before(seconds_ago);
        serde_json::from_value(json!({"time": time, "kind": kind, "text": text})).unwrap()
    };
    let found = flow(1000, 0, &json!({"first_time": before(60)}));
    FlowAnswer {
        flow: serde_json::from_value(found).unwrap(),
        series: (1..=30).map(point).collect(),
        step_ns: 2 * SECOND,
        hops: vec![
            hop(1, Some(200_000)),
            hop(2, Some(86_000_000)),
            hop(3, None),
        ],
        events: vec![
            event(44, "congestion", "hop 2 (192.0.2.2) adds 86 ms, forward"),
            event(2, "profile", "FIN"),
        ],
    }
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
