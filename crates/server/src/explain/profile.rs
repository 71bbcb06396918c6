//! Profiles: what the stacks of the ends say of stalls, windows, queues of connections.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::change::{Point, Rise, median, quantile, quantiles, rise};
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::shown;

pub(super) const SQL: &str = include_str!("profile.sql");

/// An application that takes connections so late is late.
const LATE_NS: f64 = 20e6;
/// One that is not even so late has no full queue, but does not run all the time: the kernel gives
/// a control group its share of the processor anew every 100 ms.
const FULL_NS: f64 = 200e6;
/// A rise of it, at least.
const LATE_RISE_NS: f64 = 5e6;
/// Where so many connections have such a time, all could have.
const LEAST_TOLD: usize = 3;
/// A connection is told of so long after it was made, whether it was taken or not.
const UNTOLD_NS: f64 = 2e9;
/// Parts of the time in which a closed window holds data back: worth a word, and no chance.
const CLOSED: f64 = 0.15;
const SURELY_CLOSED: f64 = 0.3;
/// Connections that take so long to be made, over the median before or the least.
const LONG_ESTABLISHMENT_NS: f64 = 100e6;
/// Shorter profiles tell little of parts of the time,
const LEAST_PROFILE_NS: u64 = 300_000_000;
/// and so do those of connections that sent for less than this.
const LEAST_BUSY_NS: u64 = 50_000_000;
/// Connections whose upper quartile stands for them: a process that is stopped now and then takes
/// some of them at once.
const TOGETHER: usize = 8;

/// What a connection did since its profile before.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) community_id: Option<String>,
    pub(super) role: Option<String>,
    pub(super) is_existing: bool,
    pub(super) source: Option<String>,
    pub(super) source_port: Option<u16>,
    pub(super) duration_ns: Option<u64>,
    pub(super) establishment_ns: Option<u64>,
    pub(super) accept_queue_ns: Option<u64>,
    pub(super) window_limited_ns: Option<u64>,
    pub(super) busy_ns: Option<u64>,
    pub(super) stalled_ns: Option<u64>,
    pub(super) start_state: Option<String>,
}

impl Row {
    fn is_role(&self, role: &str) -> bool {
        self.role.as_deref() == Some(role)
    }
}

/// A quantity of connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waited {
    pub(super) now_ns: f64,
    pub(super) before_ns: f64,
    pub(super) since_ns: Option<i64>,
}

impl Waited {
    /// What it adds now.
    pub(super) fn amount_ns(&self) -> u64 {
        (self.now_ns - self.before_ns).max(0.0) as u64
    }
}

/// How long connections waited for the application that accepts them.
pub(super) fn accept_queue(rows: &[Row]) -> Option<Waited> {
    let new = || {
        let servers = rows
            .iter()
            .filter(|row| row.is_role("server") && !row.is_existing);
        servers.filter(|row| row.start_state.as_deref() == Some("NEW"))
    };
    let are_told = new().filter(|row| row.accept_queue_ns.is_some()).count() >= LEAST_TOLD;
    // Whose application does not take it in time has no such time.
    let waited = |row: &Row| match row.accept_queue_ns {
        Some(ns) => Some(ns as f64),
        None => are_told.then_some(UNTOLD_NS),
    };
    let points: Vec<Point> = new()
        .filter_map(|row| Some((row.time_ns, waited(row)?)))
        .collect();
    let upper_quartiles = || quantiles(points.chunks_exact(TOGETHER), 0.75);
    let found =
        rise(&points, LATE_RISE_NS, 1.0).or_else(|| rise(&upper_quartiles(), LATE_RISE_NS, 1.0));
    late(&points, found, LATE_NS)
}

/// How long connections took to be made.
pub(super) fn establishment(rows: &[Row]) -> Option<Waited> {
    let points: Vec<Point> = rows
        .iter()
        .filter(|row| row.is_role("client") && !row.is_existing)
        .filter_map(|row| Some((row.time_ns, row.establishment_ns? as f64)))
        .collect();
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let least = quantile(&values, 0.0)?;
    let found = rise(&points, LONG_ESTABLISHMENT_NS, 0.5);
    late(&points, found, least + LONG_ESTABLISHMENT_NS)
}

/// A rise, or much from the beginning for a quarter of all.
fn late(points: &[Point], rise: Option<Rise>, much_ns: f64) -> Option<Waited> {
    if let Some(rise) = rise {
        let Rise {
            since_ns,
            before,
            now,
        } = rise;
        return Some(Waited {
            now_ns: now,
            before_ns: before,
            since_ns: Some(since_ns),
        });
    }
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let upper = quantile(&values, 0.75)?;
    let is_much = values.len() >= 4 && upper > much_ns;
    is_much.then_some(Waited {
        now_ns: upper,
        before_ns: 0.0,
        since_ns: None,
    })
}

/// The part of the time in which the receiver's window was closed, and whose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Closed {
    /// The Community ID of the connection.
    pub(super) id: String,
    /// 0 to 1.
    pub(super) part: f64,
    pub(super) since_ns: Option<i64>,
    /// In all.
    pub(super) limited_ns: u64,
    /// Whether the server is the one that does not read.
    pub(super) is_server: bool,
}

/// Of the connection that it held back for longest.
pub(super) fn closed(rows: &[Row]) -> Option<Closed> {
    let mut connections: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.duration_ns >= Some(LEAST_PROFILE_NS))
    {
        if let (Some(id), Some(role)) = (&row.community_id, &row.role) {
            connections.entry((id, role)).or_default().push(row);
        }
    }
    let closed = connections
        .iter()
        .filter_map(|((id, role), rows)| of_connection(id, role, rows));
    closed.max_by_key(|closed| closed.limited_ns)
}

fn of_connection(id: &str, role: &str, rows: &[&Row]) -> Option<Closed> {
    // While nothing is to be sent, no window holds anything back.
    let part = |row: &&Row| {
        let busy_ns = row.busy_ns.filter(|ns| *ns >= LEAST_BUSY_NS)?;
        let part = row.window_limited_ns? as f64 / busy_ns as f64;
        Some((row.time_ns, 1e3 * part))
    };
    let points: Vec<Point> = rows.iter().filter_map(part).collect();
    let since_ns = rise(&points, 1e3 * CLOSED / 2.0, 0.5).map(|rise| rise.since_ns);
    let since = rows
        .iter()
        .filter(|row| since_ns.is_none_or(|ns| row.time_ns >= ns));
    let (limited_ns, all_ns) = since.fold((0, 0), |(limited, all), row| {
        let ns = |it: Option<u64>| it.unwrap_or_default();
        (
            limited + ns(row.window_limited_ns),
            all + ns(row.duration_ns),
        )
    });
    let part = limited_ns as f64 / all_ns.max(1) as f64;
    let is_server = role == "client";
    (part >= CLOSED).then_some(Closed {
        id: id.to_owned(),
        part,
        since_ns,
        limited_ns,
        is_server,
    })
}

/// Time between retransmission timeouts and recoveries of established connections.
pub(super) fn stalled_ns(rows: &[Row]) -> u64 {
    let later = rows
        .iter()
        .filter(|row| row.start_state.as_deref() != Some("NEW"));
    later.filter_map(|row| row.stalled_ns).sum()
}

/// Who accepts: the server's end, if it is one.
fn server(rows: &[Row]) -> Option<String> {
    let row = rows.iter().find(|row| row.is_role("server"))?;
    Some(shown(&(row.source.clone()?, row.source_port?)))
}

/// Connections wait for the application: in a queue that fills, or while it does other things.
pub(super) fn late_to_accept(waited: &Waited, rows: &[Row], evidence: &str) -> Finding {
    let (cause, confidence) = if waited.now_ns < FULL_NS {
        (Cause::HostStall, Confidence::Medium)
    } else {
        (Cause::AcceptQueue, Confidence::High)
    };
    let text = format!(
        "the application takes connections {} after they were made, {} before: they wait in the accept queue",
        duration(waited.now_ns as u64),
        duration(waited.before_ns as u64)
    );
    let finding = Finding::new(cause, text, confidence, waited.amount_ns());
    let place = server(rows);
    Finding {
        place,
        ..finding.since(waited.since_ns).shown_by(evidence)
    }
}

/// A receiver does not read. `responses` are those that the connection waited for.
pub(super) fn not_reading(closed: &Closed, responses: f64, evidence: &str) -> Finding {
    let who = if closed.is_server {
        "the server"
    } else {
        "the client"
    };
    let text = format!(
        "{who} does not read: its window holds the data of a connection back for {:.0} % of the time",
        100.0 * closed.part
    );
    let sure = closed.part >= SURELY_CLOSED;
    let confidence = if sure {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let amount_ns = (closed.limited_ns as f64 / responses.max(1.0)) as u64;
    let finding = Finding::new(Cause::ReceiveBuffer, text, confidence, amount_ns);
    finding.at(who).since(closed.since_ns).shown_by(evidence)
}

/// Connections are made late.
pub(super) fn late_to_establish(waited: &Waited, evidence: &str) -> Finding {
    let text = format!(
        "connections take {} to be made, {} before",
        duration(waited.now_ns as u64),
        duration(waited.before_ns as u64)
    );
    let amount_ns = waited.amount_ns();
    let finding = Finding::new(Cause::Establishment, text, Confidence::Medium, amount_ns);
    finding.since(waited.since_ns).shown_by(evidence)
}

/// The median of what connections take to be made.
pub(super) fn usual_establishment_ns(rows: &[Row]) -> Option<f64> {
    let made = rows
        .iter()
        .filter(|row| row.is_role("client") && !row.is_existing);
    median(
        &made
            .filter_map(|row| Some(row.establishment_ns? as f64))
            .collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_ns: i64, role: &str) -> Row {
        Row {
            time_ns,
            community_id: None,
            role: Some(role.to_owned()),
            is_existing: false,
            source: Some("192.0.2.1".to_owned()),
            source_port: Some(80),
            duration_ns: Some(1_000_000_000),
            establishment_ns: None,
            accept_queue_ns: None,
            window_limited_ns: None,
            busy_ns: None,
            stalled_ns: None,
            start_state: None,
        }
    }

    #[test]
    fn a_late_application_is_told_since_when() {
        let queued = |time, ns| Row {
            accept_queue_ns: Some(ns),
            start_state: Some("NEW".to_owned()),
            ..row(time, "server")
        };
        let early = (0..5).map(|time| queued(time, 50_000));
        let late = (5..10).map(|time| queued(time, 400_000_000));
        let rows: Vec<_> = early.chain(late).collect();
        let waited = accept_queue(&rows).unwrap();
        assert_eq!(waited.since_ns, Some(5));
        let finding = late_to_accept(&waited, &rows, "");
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.place.as_deref(), Some("192.0.2.1:80"));
        assert_eq!(accept_queue(&rows[..5]), None);
        // One whose process waits for its turn of the processor accepts after that.
        let brief = Waited {
            now_ns: 60e6,
            ..waited
        };
        let finding = late_to_accept(&brief, &rows, "");
        assert_eq!(finding.cause, Cause::HostStall);
        assert_eq!(finding.confidence, Confidence::Medium);
        // Those that are not taken at all are the latest.
        let mut rows = rows[..5].to_vec();
        let untold = |time| Row {
            accept_queue_ns: None,
            ..queued(time, 0)
        };
        rows.extend((5..10).map(untold));
        assert_eq!(accept_queue(&rows).unwrap().since_ns, Some(5));
        assert_eq!(accept_queue(&rows[5..]), None);
    }

    #[test]
    fn a_process_that_is_stopped_now_and_then_accepts_some_at_once() {
        // Six of ten wait, after half of the time.
        let rows = |ns| {
            let queued = (0..80).map(move |time| Row {
                accept_queue_ns: Some(if time >= 40 && time % 10 >= 4 {
                    ns
                } else {
                    200_000
                }),
                start_state: Some("NEW".to_owned()),
                ..row(time, "server")
            });
            queued.collect::<Vec<_>>()
        };
        let waited = accept_queue(&rows(40_000_000)).unwrap();
        assert_eq!(waited.since_ns, Some(40));
        assert_eq!(waited.amount_ns(), 39_800_000);
        assert_eq!(accept_queue(&rows(4_000_000)), None);
    }

    #[test]
    fn a_closed_window_is_the_other_ends() {
        let limited = |time, ns| Row {
            window_limited_ns: Some(ns),
            community_id: Some("1:one".to_owned()),
            ..row(time, "client")
        };
        let rows: Vec<_> = (0..6).map(|time| limited(time, 700_000_000)).collect();
        let closed = closed(&rows).unwrap();
        assert!(closed.is_server && closed.part > 0.6);
        let finding = not_reading(&closed, 420.0, "");
        assert_eq!(finding.amount_ns, 10_000_000);
        assert_eq!(finding.confidence, Confidence::High);
    }

    #[test]
    fn a_window_that_holds_back_whenever_there_is_something_to_send_is_closed() {
        let sent = |time, limited_ms: u64, busy_ms: u64| Row {
            window_limited_ns: Some(limited_ms * 1_000_000),
            busy_ns: Some(busy_ms * 1_000_000),
            community_id: Some("1:one".to_owned()),
            ..row(time, "client")
        };
        // Seconds of a connection that sends now and then.
        let before = [(40, 236), (36, 108), (0, 72), (4, 148), (24, 68), (24, 140)];
        let during = [
            (456, 484),
            (232, 296),
            (0, 0),
            (660, 780),
            (0, 0),
            (304, 364),
        ];
        let seconds = (0..).zip(before.into_iter().chain(during));
        let rows: Vec<_> = seconds
            .map(|(time, (limited, busy))| sent(time, limited, busy))
            .collect();
        let closed = closed(&rows).unwrap();
        assert_eq!(closed.since_ns, Some(6));
        assert!((0.27..0.28).contains(&closed.part), "{}", closed.part);
        assert_eq!(super::closed(&rows[..6]), None);
    }
}
