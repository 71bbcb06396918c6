//! What flows to one destination share: one of them is probed for all. Also the budget of all
//! probes, if no rate was set.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{FlowKey, Nanoseconds, Protocol};

use super::flow::Flow;
use super::schedule::{AHEAD, Plan, SILENT};
use crate::hops::native::HOPS_TTL_MAX;

/// Destinations that are remembered.
const DESTINATIONS_MAX: usize = 4096;
/// A flow that lives so long may take another way than the one that asks for all: it is asked, too.
const LONG: Duration = Duration::from_secs(5);
/// A flow that was not heard of for so long asks for nobody.
const HEARD: Duration = Duration::from_secs(15);
/// Probes as a share of packets: less than the hundredth that is promised.
const SHARE: f64 = 0.008;
/// Probes a second in all, however few packets there are.
const LEAST: f64 = 2.0;
/// Probes at once: some paths are explored before their packets are counted.
const ADVANCE: f64 = 32.0;
/// What is not used up is kept up to so many advances.
const KEPT: f64 = 4.0;

/// The budget of probes, which packets of flows earn.
#[derive(Debug)]
pub(super) struct ProbeBudget {
    left: f64,
    per_second: f64,
    packets: u64,
    counted: u64,
}

impl ProbeBudget {
    pub(super) fn new(now: u64) -> Self {
        Self {
            left: ADVANCE,
            per_second: LEAST,
            packets: 0,
            counted: now,
        }
    }

    /// So many packets of flows were seen since the start.
    pub(super) fn count(&mut self, packets: u64, now: u64) {
        let seconds = now.saturating_sub(self.counted) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let paid = packets.saturating_sub(self.packets) as f64 * SHARE;
        let earned = paid.max(LEAST * seconds);
        self.left = (self.left + earned).min(KEPT * ADVANCE);
        let weight = seconds.min(1.0);
        self.per_second += weight * (earned / seconds - self.per_second);
        (self.packets, self.counted) = (packets, now);
    }

    /// A probe was sent.
    pub(super) fn spend(&mut self) {
        self.left -= 1.0;
    }

    /// Probes that may be sent at once.
    pub(super) fn left(&self) -> f64 {
        self.left
    }

    /// Probes a second that flows may be asked for: less than comes in where too much was spent,
    /// more where something is left.
    pub(super) fn per_second(&self) -> f64 {
        self.per_second * (self.left / ADVANCE).clamp(0.1, 2.0)
    }
}

/// Whether a flow is probed, and for which flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ProbingRole {
    /// Not probed yet: another flow may be probed for it.
    #[default]
    Waiting,
    /// Probed for itself: a rate was set, or it lives long.
    Own,
    /// Probed for all flows to its destination.
    Leader,
}

/// Slows plans down so that all flows together have `per_second` probes, if that is less than
/// planned. It does so in steps of a half, so plans stay the same while little changes.
#[expect(clippy::cast_sign_loss, reason = "neither factor is negative")]
pub(super) fn slow_down(plans: &mut [(u32, Plan)], per_second: f64) {
    let planned: f64 = plans.iter().map(|(_, plan)| plan.per_second()).sum();
    if planned <= per_second {
        return;
    }
    let steps = (planned / per_second).log2() * 2.0;
    let factor = (steps.ceil() / 2.0).exp2();
    for (_, plan) in plans {
        for interval in &mut plan.intervals_us {
            // The cast saturates.
            *interval = (f64::from(*interval) * factor) as u32;
        }
    }
}

type DestinationKey = (IpAddr, Protocol);

fn destination_key(key: &FlowKey) -> DestinationKey {
    (key.destination, key.protocol)
}

/// What all flows to a destination together have learnt.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Destination {
    leader: Option<u32>,
    used: u64,
    /// For TTL 1, 2, …: when it was last probed, whether a router answered, and how many probes in
    /// a row had no answer since.
    hops: [Asked; HOPS_TTL_MAX as usize],
}

#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    last: u64,
    has_answered: bool,
    silent: u8,
}

impl Destination {
    /// The deepest TTL at which a router answers; 0: none is known.
    pub(super) fn deepest(&self) -> u8 {
        let answers = |asked: &Asked| asked.has_answered && usize::from(asked.silent) < SILENT;
        self.hops
            .iter()
            .rposition(answers)
            .map_or(0, |index| index as u8 + 1)
    }

    fn hop(&self, ttl: u8) -> Asked {
        let hop = self.hops.get(usize::from(ttl).wrapping_sub(1));
        hop.copied().unwrap_or_default()
    }

    /// Nobody has answered at this TTL for a while.
    pub(super) fn is_silent(&self, ttl: u8) -> bool {
        usize::from(self.hop(ttl).silent) >= SILENT
    }

    /// Is this the last router, as far as can be told: has nobody answered at the TTLs behind it?
    pub(super) fn is_end(&self, ttl: u8) -> bool {
        (ttl + 1..=ttl + AHEAD)
            .all(|behind| self.is_silent(behind) || u32::from(behind) > HOPS_TTL_MAX)
    }

    /// When a TTL may be asked again, if it is asked every `interval_us`.
    pub(super) fn due(&self, ttl: u8, interval_us: u32) -> u64 {
        match self.hop(ttl).last {
            0 => 0,
            last => last + u64::from(interval_us) * 1000,
        }
    }
}

/// Destinations, and who asks for them.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    known: HashMap<DestinationKey, Destination>,
}

impl Destinations {
    /// What is known of the way of a flow.
    pub(super) fn of(&self, key: &FlowKey) -> Destination {
        self.known
            .get(&destination_key(key))
            .copied()
            .unwrap_or_default()
    }

    /// Nothing is known of the way of this flow.
    pub(super) fn is_new(&self, key: &FlowKey) -> bool {
        !self.known.contains_key(&destination_key(key))
    }

    fn hop(&mut self, key: &FlowKey, ttl: u8) -> Option<&mut Asked> {
        let destination = self.known.get_mut(&destination_key(key))?;
        destination.hops.get_mut(usize::from(ttl).checked_sub(1)?)
    }

    /// A TTL of the way was asked.
    pub(super) fn ask(&mut self, key: &FlowKey, ttl: u8, sent: u64) {
        if let Some(hop) = self.hop(key, ttl) {
            hop.last = hop.last.max(sent);
        }
    }

    /// A router answered.
    pub(super) fn answer(&mut self, key: &FlowKey, ttl: u8) {
        if let Some(hop) = self.hop(key, ttl) {
            hop.has_answered = true;
            hop.silent = 0;
        }
    }

    /// No router did.
    pub(super) fn lose(&mut self, key: &FlowKey, ttl: u8) {
        if let Some(hop) = self.hop(key, ttl) {
            hop.silent = hop.silent.saturating_add(1);
        }
    }

    /// Says of flows that wait whether they are asked from now on: one to each destination, and
    /// those that live long, as far as `left` probes go.
    pub(super) fn appoint(&mut self, flows: &mut BTreeMap<u32, Flow>, now: u64, mut left: f64) {
        let since = |time: u64| Duration::from_nanos(now.saturating_sub(time));
        for (number, flow) in flows {
            let is_heard = !flow.is_closed && since(flow.heard) < HEARD;
            let is_long = is_heard && since(flow.opened) >= LONG;
            if !is_heard || flow.role == ProbingRole::Leader {
                continue;
            }
            let key = destination_key(&flow.key);
            let destination = self.known.get(&key);
            let has_leader = destination.is_some_and(|destination| destination.leader.is_some());
            let cost = destination.map_or(0, Destination::deepest) + AHEAD;
            if flow.role == ProbingRole::Own && has_leader || left < f64::from(cost) {
                continue;
            }
            if !has_leader {
                self.make_room(&key);
                let destination = self.known.entry(key).or_default();
                destination.leader = Some(*number);
                destination.used = now;
                flow.role = ProbingRole::Leader;
                left -= f64::from(cost);
            } else if is_long {
                flow.role = ProbingRole::Own;
                left -= f64::from(cost);
            }
        }
    }

    /// Lets those go who ask for others and are over.
    pub(super) fn dismiss(&mut self, flows: &mut BTreeMap<u32, Flow>, now: u64) {
        for destination in self.known.values_mut() {
            let Some(leader) = destination.leader else {
                continue;
            };
            let flow = flows.get_mut(&leader);
            let is_over = flow.as_ref().is_none_or(|flow| {
                flow.is_closed || now.saturating_sub(flow.heard) >= Nanoseconds::from(HEARD).0
            });
            if is_over {
                destination.leader = None;
                destination.used = now;
                if let Some(flow) = flow {
                    flow.role = ProbingRole::Own;
                }
            }
        }
    }

    /// The one that was not used for longest goes.
    fn make_room(&mut self, key: &DestinationKey) {
        if self.known.len() < DESTINATIONS_MAX || self.known.contains_key(key) {
            return;
        }
        let without_leader = self.known.iter();
        let oldest = without_leader.min_by_key(|(_, known)| (known.leader.is_some(), known.used));
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
