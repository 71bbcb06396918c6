//! Epochs beside what the clients waited, and beside what stolen time made of it.

use std::collections::HashMap;

use anyhow::Result;
use fathom_lab::traffic::loops::{Loop, Turn};

use super::Epoch;
use crate::stolen::Away;

/// Longer waits are those of retransmission timeouts, which are counted and not estimated.
const TIMEOUT_NS: u64 = 180_000_000;

/// An estimate and what it should be.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was printed.
    pub epoch: Epoch,
    /// What the client of the flow waited in that time, on average, in ns.
    pub truth_ns: f64,
    /// From where to where that average may have been on the way: the client or the packet waits
    /// for a processor that is away, and the other does not.
    pub seen_ns: [f64; 2],
}

impl Judged {
    /// How far the estimate is from the truth, relative to it; `None` without one.
    pub fn error(&self) -> Option<f64> {
        let estimate = self.epoch.latency_ns? as f64;
        Some((estimate - self.truth_ns) / self.truth_ns)
    }

    /// Is it off by more than a quarter?
    pub fn is_far(&self) -> bool {
        self.error().is_some_and(|error| error.abs() > 0.25)
    }

    /// The same, as far as time that was stolen just then does not explain it.
    pub fn unexplained_error(&self) -> Option<f64> {
        let estimate = self.epoch.latency_ns? as f64;
        let [least, most] = self.seen_ns;
        let nearest = estimate.clamp(least, most);
        Some((estimate - nearest) / nearest)
    }

    /// Does it say that it is sure?
    pub fn is_sure(&self) -> bool {
        self.epoch.confidence == "high"
    }
}

/// Each epoch beside what the client of its flow waited then; those that tell of no wait are left
/// out.
pub fn judge(epochs: &[Epoch], loops: &[Loop]) -> Result<Vec<Judged>> {
    let turns: HashMap<u16, &[Turn]> = loops
        .iter()
        .map(|own| (own.client.port(), own.turns.as_slice()))
        .collect();
    let away = Away::until_now();
    let mut judged = Vec::new();
    for epoch in epochs {
        let end = epoch.end_ns()?;
        let begin = end - epoch.duration_ns;
        let own = turns.get(&epoch.source_port).copied().unwrap_or_default();
        // A gap is part of the epoch in which the next request ends it.
        let triggered = own.iter().skip(1).map(|next| next.began_ns);
        let told = triggered.chain(own.last().map(|last| last.ended_ns));
        let waits = own.iter().zip(told);
        let waits: Vec<Waited> = waits
            .filter(|(turn, told)| (begin..end).contains(told.max(&turn.ended_ns)))
            .map(|(turn, told)| Waited::of(turn, told, &away))
            .collect();
        judged.extend(Waited::mean(&waits).map(|(truth_ns, seen_ns)| Judged {
            epoch: epoch.clone(),
            truth_ns,
            seen_ns,
        }));
    }
    Ok(judged)
}

/// What a client waited, and how long that may have been on the way.
#[expect(clippy::struct_field_names, reason = "their unit")]
struct Waited {
    wait_ns: u64,
    least_ns: u64,
    most_ns: u64,
}

impl Waited {
    /// `told_ns` is when the next request was about to be written.
    fn of(turn: &Turn, told_ns: u64, away: &Away) -> Self {
        let wait_ns = turn.latency_ns();
        Self {
            wait_ns,
            least_ns: wait_ns - away.between_ns(turn.began_ns, turn.ended_ns),
            most_ns: wait_ns + away.between_ns(turn.ended_ns, told_ns),
        }
    }

    /// On average, and from where to where that may have been on the way; `None` where nobody
    /// waited. What is longer than a timeout does not count, and what may be on the way may count
    /// or not.
    fn mean(waits: &[Self]) -> Option<(f64, [f64; 2])> {
        let (certain, others): (Vec<&Self>, Vec<&Self>) =
            waits.iter().partition(|one| one.wait_ns < TIMEOUT_NS);
        let count = certain.len() as f64;
        let sum = |of: &dyn Fn(&Self) -> u64| certain.iter().map(|one| of(one)).sum::<u64>() as f64;
        let truth_ns = sum(&|one| one.wait_ns) / count;
        let mut least = (sum(&|one| one.least_ns), count);
        let mut most = (sum(&|one| one.most_ns.min(TIMEOUT_NS)), count);
        for one in others.iter().filter(|one| one.least_ns < TIMEOUT_NS) {
            if (one.least_ns as f64) < least.0 / least.1 {
                least = (least.0 + one.least_ns as f64, least.1 + 1.0);
            }
            most = (most.0 + TIMEOUT_NS as f64, most.1 + 1.0);
        }
        (count > 0.0).then_some((truth_ns, [least.0 / least.1, most.0 / most.1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Truth, least and most, in tenths of milliseconds.
    fn tenths(waits: &[Waited]) -> [f64; 3] {
        let (truth_ns, [least_ns, most_ns]) = Waited::mean(waits).unwrap();
        [truth_ns, least_ns, most_ns].map(|ns| (ns / 1e5).round())
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "they are whole")]
    #[expect(clippy::single_range_in_vec_init, reason = "a list of one")]
    fn stolen_time_explains_no_more_than_itself() {
        let away = Away::of(vec![1_001 * MS..1_179 * MS]);
        let turn = |began_ns, ended_ns| Turn { began_ns, ended_ns };
        let mut waits: Vec<_> = (0..9)
            .map(|number| Waited::of(&turn(number * MS, (number + 2) * MS), 0, &away))
            .collect();
        assert_eq!(tenths(&waits), [20.0; 3]);
        // It waited for 181 ms, of which 178 may not have been on the way.
        let stalled = turn(1_000 * MS, 1_181 * MS);
        waits.push(Waited::of(&stalled, 1_181 * MS, &away));
        assert_eq!(tenths(&waits), [20.0, 20.0, 198.0]);
        // The client was away between its answer and its next request.
        let late = turn(998 * MS, 1_000 * MS);
        let waits = [Waited::of(&late, 1_100 * MS, &away)];
        assert_eq!(tenths(&waits), [20.0, 20.0, 1010.0]);
    }
}
