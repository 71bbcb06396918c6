//! What columns of tabs are made of.

use fathom_terminal::{Cell, Column, Severity, duration, percent, scaled};

use super::clock;
use super::fields::Fields;

/// A column of a tab.
pub(super) struct Shown {
    pub(super) column: Column,
    /// What the order by it is called, as in `slowest p99 first`; empty: rows are not put into it.
    pub(super) order: &'static str,
    /// The column of the list.
    pub(super) of: &'static str,
    cell: fn(&Fields<'_>, &'static str) -> Cell,
}

impl Shown {
    /// What it shows of a row.
    pub(super) fn cell(&self, fields: &Fields<'_>) -> Cell {
        (self.cell)(fields, self.of)
    }
}

/// One that rows may go by.
pub(super) const fn by(
    column: Column,
    order: &'static str,
    of: &'static str,
    cell: fn(&Fields<'_>, &'static str) -> Cell,
) -> Shown {
    Shown {
        column,
        order,
        of,
        cell,
    }
}

/// One that rows do not go by.
pub(super) const fn only(
    column: Column,
    of: &'static str,
    cell: fn(&Fields<'_>, &'static str) -> Cell,
) -> Shown {
    by(column, "", of, cell)
}

pub(super) fn text(fields: &Fields<'_>, of: &'static str) -> Cell {
    fields.text(of).to_owned().into()
}

/// Both ends.
pub(super) fn flow(fields: &Fields<'_>, _: &'static str) -> Cell {
    fields.flow().into()
}

/// The server's end.
pub(super) fn server(fields: &Fields<'_>, _: &'static str) -> Cell {
    let endpoint = fields.endpoint("destination", "destination_port");
    format!("{} {endpoint}", fields.text("protocol")).into()
}

pub(super) fn router(fields: &Fields<'_>, _: &'static str) -> Cell {
    router_name(fields.text("responder"), fields.text("responder_name")).into()
}

/// A router by its name and address; `*` where none answers.
pub(super) fn router_name(address: &str, name: &str) -> String {
    match (address, name) {
        ("", _) => "*".to_owned(),
        (address, "") => address.to_owned(),
        (address, name) => format!("{name} ({address})"),
    }
}

/// A duration that says nothing by itself: a round trip may have a long way.
pub(super) fn time(fields: &Fields<'_>, of: &'static str) -> Cell {
    duration(fields.ns(of)).into()
}

/// What somebody waited.
pub(super) fn latency(fields: &Fields<'_>, of: &'static str) -> Cell {
    let ns = fields.ns(of).filter(|ns| *ns > 0);
    Cell::rated(duration(ns), Severity::of_latency(ns))
}

/// What a queue adds.
pub(super) fn queue(fields: &Fields<'_>, of: &'static str) -> Cell {
    let ns = fields.ns(of);
    Cell::rated(duration(ns), Severity::of_queue(ns))
}

/// A round trip, by what it is above the shortest.
pub(super) fn above_least(fields: &Fields<'_>, of: &'static str) -> Cell {
    let queue = fields.ns(of).zip(fields.ns("rtt_min_ns"));
    let queue = queue.map(|(ns, least)| ns.saturating_sub(least));
    Cell::rated(duration(fields.ns(of)), Severity::of_queue(queue))
}

pub(super) fn loss(fields: &Fields<'_>, of: &'static str) -> Cell {
    let ratio = fields.number(of);
    Cell::rated(percent(ratio), Severity::of_loss(ratio))
}

/// Probes that got no answer: routers answer few on purpose, which is no trouble.
pub(super) fn unanswered(fields: &Fields<'_>, of: &'static str) -> Cell {
    percent(fields.number(of)).into()
}

pub(super) fn whole_percent(fields: &Fields<'_>, of: &'static str) -> Cell {
    let share = fields.number(of);
    let share = share.map(|share| format!("{:.0} %", share * 100.0));
    share.unwrap_or_default().into()
}

/// Bytes of a range as bits a second.
pub(super) fn bits(fields: &Fields<'_>, of: &'static str) -> Cell {
    let rate = fields.number(of).map(|bytes| bytes * 8.0 / fields.seconds);
    rate.map_or_else(String::new, scaled).into()
}

/// A count of a range a second.
pub(super) fn rate(fields: &Fields<'_>, of: &'static str) -> Cell {
    let rate = fields.number(of).map(|count| count / fields.seconds);
    let text = rate.map(|rate| format!("{rate:.1}"));
    text.unwrap_or_default().into()
}

pub(super) fn bytes(fields: &Fields<'_>, of: &'static str) -> Cell {
    fields.number(of).map_or_else(String::new, scaled).into()
}

pub(super) fn count(fields: &Fields<'_>, of: &'static str) -> Cell {
    let text = fields.number(of).map(|number| format!("{number:.0}"));
    text.unwrap_or_default().into()
}

/// A count of something that should not be there at all.
pub(super) fn trouble(fields: &Fields<'_>, of: &'static str) -> Cell {
    let severity = match fields.number(of) {
        Some(number) if number > 0.0 => Severity::Notable,
        _ => Severity::Normal,
    };
    Cell::rated(count(fields, of).text, severity)
}

/// How long ago something was.
pub(super) fn age(fields: &Fields<'_>, of: &'static str) -> Cell {
    let age = fields.time_ns(of).map(|ns| clock::age(fields.now_ns - ns));
    age.unwrap_or_default().into()
}

/// The same of the last record of an agent.
pub(super) fn agent_age(fields: &Fields<'_>, of: &'static str) -> Cell {
    let age_ns = fields.now_ns - fields.time_ns(of).unwrap_or(fields.now_ns);
    let severity = severity_of_age(age_ns, fields.ns("interval_ns"));
    Cell::rated(age(fields, of).text, severity)
}

/// An agent that says nothing for some intervals is late, and for many more it is dead. Short
/// intervals come late on a busy machine, too.
pub(super) fn severity_of_age(age_ns: i64, interval_ns: Option<u64>) -> Severity {
    const SECOND_NS: i64 = 1_000_000_000;
    let interval_ns = interval_ns.and_then(|ns| i64::try_from(ns).ok());
    let interval_ns = interval_ns.unwrap_or(10 * SECOND_NS);
    let late_ns = interval_ns.saturating_mul(3).max(15 * SECOND_NS);
    let dead_ns = interval_ns.saturating_mul(10).max(60 * SECOND_NS);
    match age_ns {
        age if age >= dead_ns => Severity::Bad,
        age if age >= late_ns => Severity::Notable,
        _ => Severity::Normal,
    }
}
