//! Loss: what is sent again, and how long clients wait for that.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::change::{Point, rise};
use super::explanation::{Cause, Confidence, Finding};
use super::flows::Flows;

pub(super) const SQL: &str = include_str!("traffic.sql");

/// Fewer lost packets, or a smaller part of all, are what networks do.
const LEAST_LOST: u64 = 5;
const LEAST_RATIO: f64 = 0.004;
/// A flow of fewer packets may still try to be one.
const LEAST_PACKETS: u64 = 6;
/// So many are no chance.
const SURE_LOST: u64 = 10;
const SURE_RATIO: f64 = 0.008;

/// What a flow carried in an interval.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) community_id: String,
    pub(super) source: String,
    pub(super) source_port: u16,
    pub(super) destination: String,
    pub(super) destination_port: u16,
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) reverse_lost: u64,
}

/// What was lost of the data of established flows: what is lost of handshakes may be refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Loss {
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) reverse_lost: u64,
    /// When packets were lost.
    pub(super) times_ns: Vec<i64>,
    /// Since when, in ns since 1970; absent where it was so from the beginning.
    pub(super) since_ns: Option<i64>,
}

impl Loss {
    pub(super) fn of(rows: &[Row], flows: &Flows) -> Self {
        let mut moments: BTreeMap<i64, (u64, u64, u64)> = BTreeMap::new();
        for row in rows {
            let is_talking = row.packets >= LEAST_PACKETS;
            if is_talking && flows.is_established(&row.community_id, row.time_ns) {
                let moment = moments.entry(row.time_ns).or_default();
                moment.0 += row.packets;
                moment.1 += row.lost;
                moment.2 += row.reverse_lost;
            }
        }
        let points: Vec<Point> = moments
            .iter()
            .map(|(time, (packets, lost, back))| {
                (*time, (lost + back) as f64 * 1e6 / (*packets).max(1) as f64)
            })
            .collect();
        let since_ns = rise(&points, LEAST_RATIO * 1e6, 0.5).map(|rise| rise.since_ns);
        let mut loss = Self {
            since_ns,
            ..Self::default()
        };
        let since = moments
            .iter()
            .filter(|(time, _)| since_ns.is_none_or(|ns| **time >= ns));
        for (time, (packets, lost, back)) in since {
            loss.packets += packets;
            loss.lost += lost;
            loss.reverse_lost += back;
            loss.times_ns.extend((lost + back > 0).then_some(*time));
        }
        loss
    }

    /// The part of packets that was lost, 0 to 1.
    pub(super) fn ratio(&self) -> f64 {
        self.all() as f64 / self.packets.max(1) as f64
    }

    pub(super) fn all(&self) -> u64 {
        self.lost + self.reverse_lost
    }
}

/// What loss there is. `amount_ns` is what a client waits for it.
pub(super) fn judge(loss: &Loss, amount_ns: u64, evidence: &str) -> Option<Finding> {
    let (all, ratio) = (loss.all(), loss.ratio());
    if all < LEAST_LOST || ratio < LEAST_RATIO {
        return None;
    }
    let confidence = if all >= SURE_LOST && ratio >= SURE_RATIO {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let way = match (loss.lost, loss.reverse_lost) {
        (there, back) if there > 4 * back => "towards the server",
        (there, back) if back > 4 * there => "towards the client",
        _ => "in both directions",
    };
    let text = format!(
        "{:.1} % of packets are lost {way}, and sent again",
        100.0 * ratio
    );
    let finding = Finding::new(Cause::Loss, text, confidence, amount_ns);
    Some(finding.since(loss.since_ns).shown_by(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(lost: u64, packets: u64) -> Loss {
        Loss {
            packets,
            lost,
            ..Loss::default()
        }
    }

    #[test]
    fn some_packets_are_always_lost() {
        assert_eq!(judge(&loss(3, 300), 0, ""), None);
        assert_eq!(judge(&loss(10, 100_000), 0, ""), None);
        let finding = judge(&loss(30, 1_000), 5, "").unwrap();
        assert_eq!(
            (finding.cause, finding.confidence),
            (Cause::Loss, Confidence::High)
        );
        assert!(finding.text.contains("3.0 %") && finding.text.contains("server"));
        let finding = judge(&loss(7, 1_000), 5, "").unwrap();
        assert_eq!(finding.confidence, Confidence::Medium);
    }
}
