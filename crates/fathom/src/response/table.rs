//! The table of services that is shown on a terminal: what clients waited for each, over the last minute.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZero;
use std::time::Instant;

use fathom_measure::response::{Confidence, ResponseEpoch};
use fathom_record::format::display_duration;
use fathom_record::{Histogram, Protocol};
use lru::LruCache;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};

use crate::table::{Rate, Shown, bars_of, fitting_of};

/// Rows that are kept; the one that was longest without an epoch gives way.
const ROWS_MAX: NonZero<usize> = NonZero::new(1000).expect("not zero");
/// Seconds that a row remembers.
const SECONDS: usize = 60;
const NS_PER_SECOND: u64 = 1_000_000_000;
const SPACING: u16 = 2;
/// The narrowest that a service is shown.
const SERVICE_WIDTH: u16 = 26;
/// Seconds that each column of the course stands for.
const SECONDS_PER_BAR: usize = 3;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Service,
    Median,
    P99,
    Rate,
    Flows,
    Sure,
    Course,
    Waiting,
    Interface,
}

use Column::{Course, Flows, Interface, Median, P99, Service, Sure, Waiting};

const ALL: [Column; 9] = [
    Service,
    Median,
    P99,
    Column::Rate,
    Flows,
    Sure,
    Course,
    Waiting,
    Interface,
];
/// The first of these are left out last.
const BY_IMPORTANCE: [Column; 9] = [
    Service,
    Median,
    P99,
    Column::Rate,
    Sure,
    Course,
    Waiting,
    Flows,
    Interface,
];

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    protocol: Protocol,
    server: IpAddr,
    port: u16,
    interface: &'static str,
}

/// A second of a service.
#[derive(Debug, Default)]
struct Second {
    /// Since 1970.
    number: u64,
    waits: Histogram,
    sure: u64,
    flows: u32,
    waiting_ns: u64,
}

/// The epochs of one service over the last minute.
#[derive(Debug, Default)]
struct Row {
    seconds: VecDeque<Second>,
    /// Of all seconds, as of the last drawing.
    waits: Histogram,
}

impl Row {
    fn take(&mut self, epoch: &ResponseEpoch) {
        let number = epoch.time.0 / NS_PER_SECOND;
        // Epochs come in the order of their end, but for a few.
        if self.seconds.back().is_none_or(|last| last.number < number) {
            self.seconds.push_back(Second {
                number,
                ..Second::default()
            });
        }
        let Some(second) = self.seconds.back_mut() else {
            return;
        };
        let waiting = epoch.waiting_ns.unwrap_or_default();
        second.waiting_ns = second.waiting_ns.max(waiting.0);
        if let Some(latency) = epoch.latency_ns {
            let count = u64::from(epoch.causal_gaps);
            second.waits.record_many(latency.0, count);
            second.flows += 1;
            if epoch.confidence == Confidence::High {
                second.sure += count;
            }
        }
    }

    /// Forgets what is older than a minute, and puts the rest together.
    fn settle(&mut self, now: u64) {
        while let Some(first) = self.seconds.front()
            && first.number + (SECONDS as u64) < now
        {
            self.seconds.pop_front();
        }
        self.waits.clear();
        for second in &self.seconds {
            self.waits.merge(&second.waits);
        }
    }

    /// The medians of the last minute, each bar relative to the highest.
    fn course(&self, now: u64) -> String {
        let mut medians = [0; SECONDS / SECONDS_PER_BAR];
        let begin = now.saturating_sub(SECONDS as u64);
        for (number, median) in medians.iter_mut().enumerate() {
            let from = begin + (number * SECONDS_PER_BAR) as u64;
            let mut waits = Histogram::new();
            for second in &self.seconds {
                if (from..from + SECONDS_PER_BAR as u64).contains(&second.number) {
                    waits.merge(&second.waits);
                }
            }
            *median = waits.quantile(0.5).unwrap_or_default();
        }
        bars_of(&medians)
    }
}

impl Column {
    /// The least that it takes; a service takes what is left.
    fn width(self) -> u16 {
        match self {
            Service => SERVICE_WIDTH,
            Median | P99 | Waiting => 8,
            Column::Rate => 11,
            Flows => 7,
            Sure => 5,
            Course => (SECONDS / SECONDS_PER_BAR) as u16,
            Interface => 9,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Service => "service",
            Median => "p50",
            P99 => "p99",
            Column::Rate => "responses/s",
            Flows => "epochs",
            Sure => "sure",
            Course => "p50, last minute",
            Waiting => "waiting",
            Interface => "interface",
        }
    }

    fn is_number(self) -> bool {
        !matches!(self, Service | Course | Interface)
    }

    fn text(self, key: &RowKey, row: &Row, now: u64) -> String {
        let duration =
            |ns: Option<u64>| ns.map_or_else(String::new, |ns| display_duration(ns).to_string());
        match self {
            Service if key.port == 0 => format!("{} {}", key.protocol, key.server),
            Service => {
                let end = std::net::SocketAddr::new(key.server, key.port);
                format!("{} {end}", key.protocol)
            }
            Median => duration(row.waits.quantile(0.5)),
            P99 => duration(row.waits.quantile(0.99)),
            Column::Rate => {
                let first = row.seconds.front().map_or(now, |second| second.number);
                let seconds = now.saturating_sub(first).max(1);
                format!("{:.1}", row.waits.count() as f64 / seconds as f64)
            }
            Flows => {
                let epochs = row.seconds.iter().map(|second| u64::from(second.flows));
                epochs.sum::<u64>().to_string()
            }
            Sure => {
                let sure: u64 = row.seconds.iter().map(|second| second.sure).sum();
                match row.waits.count() {
                    0 => String::new(),
                    count => format!("{} %", sure * 100 / count),
                }
            }
            Course => row.course(now),
            Waiting => {
                let recent = row.seconds.back().filter(|second| second.number + 2 >= now);
                duration(recent.map(|second| second.waiting_ns).filter(|&ns| ns > 0))
            }
            Interface => key.interface.to_owned(),
        }
    }
}

/// By what rows are sorted, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Slowest,
    Responses,
    Recent,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::Slowest => Self::Responses,
            Self::Responses => Self::Recent,
            Self::Recent => Self::Slowest,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Slowest => "slowest p99",
            Self::Responses => "most responses",
            Self::Recent => "most recent",
        }
    }
}

/// The table.
pub(super) struct ServiceTable {
    rows: LruCache<RowKey, Row>,
    /// Rows that had to give way, since the start.
    left_out: u64,
    interfaces: String,
    rate: Rate,
    /// Responses since the start.
    responses: u64,
    /// Of the last epoch, in seconds since 1970.
    now: u64,
    order: Order,
    /// Rows scrolled past.
    offset: usize,
}

impl ServiceTable {
    /// An empty one.
    pub(super) fn new(interfaces: &[String]) -> Self {
        Self {
            rows: LruCache::new(ROWS_MAX),
            left_out: 0,
            interfaces: interfaces.join(", "),
            rate: Rate::new(),
            responses: 0,
            now: 0,
            order: Order::Slowest,
            offset: 0,
        }
    }

    /// Takes an epoch in.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch) {
        self.responses += u64::from(epoch.causal_gaps);
        self.now = self.now.max(epoch.time.0 / NS_PER_SECOND);
        let key = RowKey {
            protocol: epoch.flow.protocol,
            server: epoch.flow.destination,
            port: epoch.flow.destination_port,
            interface: epoch.interface,
        };
        if let Some(row) = self.rows.get_mut(&key) {
            row.take(epoch);
            return;
        }
        let mut row = Row::default();
        row.take(epoch);
        self.left_out += u64::from(self.rows.push(key, row).is_some());
    }

    /// What is to be drawn at `now`.
    pub(super) fn update(&mut self, now: Instant) {
        self.rate.update(now, self.responses);
        let second = self.now;
        for (_, row) in &mut self.rows {
            row.settle(second);
        }
    }

    fn headline(&self) -> String {
        let left_out = match self.left_out {
            0 => String::new(),
            count => format!(" ({count} left out)"),
        };
        format!(
            "fathom response  {}  {:.0} responses/s  {} services{left_out}  {} first",
            self.interfaces,
            self.rate.per_second,
            self.rows.len(),
            self.order.name(),
        )
    }

    fn sorted(&self) -> Vec<(&RowKey, &Row)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        match self.order {
            Order::Recent => {}
            Order::Responses => rows.sort_by_cached_key(|(_, row)| Reverse(row.waits.count())),
            Order::Slowest => {
                rows.sort_by_cached_key(|(_, row)| Reverse(row.waits.quantile(0.99)));
            }
        }
        rows
    }

    fn lines(&self, width: u16, height: u16) -> (String, Vec<Line<'static>>) {
        let columns = fitting_of(&ALL, &BY_IMPORTANCE, Column::width, width);
        let used: u16 = columns.iter().map(|column| column.width() + SPACING).sum();
        let spare = usize::from(width.saturating_sub(used.saturating_sub(SPACING)));
        let cell = |column: &Column, text: &str| {
            let own = usize::from(column.width());
            match column {
                Service => format!("{text:<0$.0$}", own + spare),
                column if column.is_number() => format!("{text:>own$}"),
                _ => format!("{text:<own$.own$}"),
            }
        };
        let joined = |texts: Vec<String>| texts.join(&" ".repeat(SPACING.into()));
        let titles = columns.iter().map(|column| cell(column, column.title()));
        let rows = self.sorted().into_iter().skip(self.offset);
        let rows = rows.take(height.into()).map(|(key, row)| {
            let texts = columns
                .iter()
                .map(|column| cell(column, &column.text(key, row, self.now)));
            Line::raw(joined(texts.collect()))
        });
        (joined(titles.collect()), rows.collect())
    }
}

impl Shown for ServiceTable {
    fn draw(&self, frame: &mut Frame<'_>, message: Option<&str>) {
        let [head, titles, rows, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let (title, lines) = self.lines(rows.width, rows.height);
        frame.render_widget(Line::raw(self.headline()).style(Modifier::BOLD), head);
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        frame.render_widget(Line::raw(title).style(underlined), titles);
        frame.render_widget(Text::from(lines), rows);
        let keys = "q quit  s sort  arrows, page up and down scroll";
        let foot_text = message.unwrap_or(keys);
        frame.render_widget(Line::raw(foot_text).style(Modifier::DIM), foot);
    }

    fn scroll(&mut self, rows: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    fn sort_differently(&mut self) {
        self.order = self.order.next();
        self.offset = 0;
    }
}
