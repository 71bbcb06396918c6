//! How the page of a flow is drawn.

use std::time::Duration;

use fathom_record::format::display_duration;
use fathom_terminal::{Palette, Severity, percent, scaled};
use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};

use super::Page;
use crate::lists::Range;
use crate::lists::flow::{Event, FlowAnswer, Point};
use crate::top::chart::{Chart, GUTTER, Series};
use crate::top::clock;

/// From this width on, path and events stand beside the charts.
const WIDE: u16 = 150;
/// Lines of the smallest chart.
const CHART_LEAST: u16 = 4;
/// Events that are listed below the charts.
const EVENTS: usize = 5;

/// Draws the page.
pub(in crate::top) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    page: &mut Page,
    range: Option<Range>,
    zone: &TimeZone,
    palette: Palette,
) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::raw(page.headline()).style(Modifier::BOLD), head);
    let (Some(range), Some(answer)) = (range, page.answer.take()) else {
        let text = if page.is_told {
            "no records of this flow in this range: `[` goes back, `+` widens it"
        } else {
            "asking"
        };
        frame.render_widget(Line::raw(text), body);
        return;
    };
    let times = Times {
        range,
        step_ns: answer.step_ns,
        zone,
        palette,
    };
    let (charts, below) = parts(body, page, &answer);
    times.draw_charts(frame, charts, &answer);
    draw_path(frame, below, page, &answer.events, &times);
    page.answer = Some(answer);
}

/// Where charts are, and where path and events are.
fn parts(body: Rect, page: &Page, answer: &FlowAnswer) -> (Rect, Rect) {
    if body.width >= WIDE {
        let halves = [Constraint::Percentage(55), Constraint::Min(0)];
        let [charts, below] = Layout::horizontal(halves).spacing(2).areas(body);
        return (charts, below);
    }
    let events = answer.events.len().min(EVENTS);
    let wanted = page.ladder.len() + 1 + events + usize::from(events > 0);
    let below = (wanted as u16).min(body.height / 2);
    let [charts, below] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(below)]).areas(body);
    (charts, below)
}

fn draw_path(
    frame: &mut Frame<'_>,
    area: Rect,
    page: &mut Page,
    events: &[Event],
    times: &Times<'_>,
) {
    let is_beside = area.width < frame.area().width;
    let room = if is_beside {
        usize::from(area.height / 2)
    } else {
        EVENTS
    };
    let listed = events.len().min(room);
    let lines = listed as u16 + u16::from(listed > 0);
    let hops = page.ladder.len() as u16 + 1;
    let path = hops.min(area.height.saturating_sub(lines));
    let [path, list, _] = Layout::vertical([
        Constraint::Length(path),
        Constraint::Length(lines),
        Constraint::Min(0),
    ])
    .areas(area);
    if page.ladder.len() > 0 {
        page.table.draw(frame, path, &page.ladder, times.palette);
    } else {
        let dim = Style::new().add_modifier(Modifier::DIM);
        let text = "no path: an agent with `hops` at the sender measures it";
        frame.render_widget(Line::raw(text).style(dim), path);
    }
    let title = Line::raw("events").style(Modifier::BOLD);
    let newest = events
        .iter()
        .rev()
        .take(listed)
        .map(|event| times.line(event));
    let text = std::iter::once(title).chain(newest).collect::<Text<'_>>();
    frame.render_widget(text, list);
}

/// How times become places.
struct Times<'a> {
    range: Range,
    step_ns: i64,
    zone: &'a TimeZone,
    palette: Palette,
}

impl Times<'_> {
    /// As many charts as there is room for, the marks of events, and the axis of time.
    fn draw_charts(&self, frame: &mut Frame<'_>, area: Rect, answer: &FlowAnswer) {
        let [charts, marks, axis] = Layout::vertical([
            Constraint::Min(0),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(area);
        let mut drawn = all_charts(&answer.series, answer.step_ns);
        drawn.truncate(usize::from(charts.height / CHART_LEAST).max(1));
        let rows = Layout::vertical(drawn.iter().map(|_| Constraint::Fill(1))).split(charts);
        for (chart, row) in drawn.iter().zip(rows.iter()) {
            chart.draw(frame, *row, self.range, self.step_ns, self.palette);
        }
        frame.render_widget(self.marks(&answer.events, marks.width), marks);
        frame.render_widget(self.axis(axis.width), axis);
    }

    /// A mark for each event, where its time is on the axis.
    fn marks(&self, events: &[Event], width: u16) -> Line<'static> {
        let cells = usize::from(width.saturating_sub(GUTTER));
        let mut marks = vec![None; cells];
        let length = u128::from(
            (self.range.to_ns - self.range.from_ns)
                .max(1)
                .unsigned_abs(),
        );
        for event in events {
            let time_ns = clock::parsed(&event.time).unwrap_or_default();
            let passed = u128::from((time_ns - self.range.from_ns).max(0).unsigned_abs());
            let place = (passed * cells as u128 / length) as usize;
            if let Some(mark) = marks.get_mut(place.min(cells.saturating_sub(1))) {
                *mark = Some(severity(event)).max(*mark);
            }
        }
        let gutter = format!("{:>1$}  ", "events", usize::from(GUTTER) - 2);
        let dim = Style::new().add_modifier(Modifier::DIM);
        let mut spans = vec![Span::styled(gutter, dim)];
        spans.extend(marks.into_iter().map(|mark| match mark {
            Some(severity) => Span::styled("▲", self.palette.style(severity)),
            None => Span::raw(" "),
        }));
        Line::from(spans)
    }

    /// Times at both ends and in the middle.
    fn axis(&self, width: u16) -> Line<'static> {
        let middle_ns = self.range.from_ns.midpoint(self.range.to_ns);
        let times = [self.range.from_ns, middle_ns, self.range.to_ns];
        let [from, middle, to] = times.map(|ns| clock::time_of_day(ns, self.zone));
        let cells = usize::from(width.saturating_sub(GUTTER));
        let gutter = usize::from(GUTTER);
        let half = (cells / 2).saturating_sub(4);
        let rest = cells.saturating_sub(half + 8);
        let text = format!("{:gutter$}{from:<half$}{middle:<8}{to:>rest$}", "");
        Line::raw(text).style(Modifier::DIM)
    }

    fn line(&self, event: &Event) -> Line<'static> {
        let time_ns = clock::parsed(&event.time).unwrap_or_default();
        let time = clock::time_of_day(time_ns, self.zone);
        let text = event.text.as_deref().unwrap_or_default();
        let text = format!("{time}  {:<10}  {text}", event.kind);
        Line::raw(text).style(self.palette.style(severity(event)))
    }
}

/// What was measured of the flow: charts without values are left out.
fn all_charts(series: &[Point], step_ns: i64) -> Vec<Chart> {
    let bits = 8e9 / step_ns.max(1) as f64;
    let of = |name, value: fn(&Point) -> Option<f64>| of_unit(series, name, 1.0, value);
    let ns = |ns| {
        let length = Duration::from_secs_f64(ns / 1e9);
        display_duration(length.as_nanos() as u64).to_string()
    };
    let mut charts = vec![
        Chart {
            title: "round trip",
            series: vec![
                of("towards the server, p50", |it| {
                    it.rtt_p50_ns.map(|ns| ns as f64)
                }),
                of("p99", |it| it.rtt_p99_ns.map(|ns| ns as f64)),
                of("towards the client, p50", |it| {
                    it.client_rtt_p50_ns.map(|ns| ns as f64)
                }),
            ],
            shown: ns,
            least: 1_000.0,
        },
        Chart {
            title: "response",
            series: vec![
                of("p50", |it| it.latency_p50_ns.map(|ns| ns as f64)),
                of("p99", |it| it.latency_p99_ns.map(|ns| ns as f64)),
            ],
            shown: ns,
            least: 1_000.0,
        },
        Chart {
            title: "bit/s",
            series: vec![
                of_unit(series, "towards the server", bits, |it| {
                    it.bytes.map(|it| it as f64)
                }),
                of_unit(series, "back", bits, |it| {
                    it.reverse_bytes.map(|it| it as f64)
                }),
            ],
            shown: scaled,
            least: 1_000.0,
        },
        Chart {
            title: "loss",
            series: vec![
                of("towards the server", |it| it.loss_ratio),
                of("back", |it| it.reverse_loss_ratio),
            ],
            shown: |ratio| percent(Some(ratio)),
            least: 0.01,
        },
    ];
    for chart in &mut charts {
        chart.series.retain(Series::has_values);
    }
    charts.retain(|chart| !chart.series.is_empty());
    charts
}

fn of_unit(
    series: &[Point],
    name: &'static str,
    factor: f64,
    value: fn(&Point) -> Option<f64>,
) -> Series {
    let point = |point: &Point| {
        let value = value(point).map(|value| value * factor);
        Some((clock::parsed(&point.time)?, value))
    };
    Series {
        name,
        points: series.iter().filter_map(point).collect(),
    }
}

/// What a flow does of itself is no trouble.
fn severity(event: &Event) -> Severity {
    match event.kind.as_str() {
        "profile" => Severity::Normal,
        "congestion" | "waiting" => Severity::Bad,
        _ => Severity::Notable,
    }
}

impl Page {
    fn headline(&self) -> String {
        let interface = self
            .answer
            .as_ref()
            .and_then(|it| it.flow.interface.as_deref());
        let place = match interface {
            Some(interface) => format!("{}, {interface}", self.host),
            None => self.host.clone(),
        };
        format!("{}  seen at {place}  {}", self.name, self.community_id)
    }
}
