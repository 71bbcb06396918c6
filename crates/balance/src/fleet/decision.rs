//! A decision about a service: a plain value, from which rings are written, and records told.

use std::net::IpAddr;
use std::sync::Arc;

use fathom_record::Time;

use crate::controller::{Latency, Measurement, ServerVerdict};
use crate::health::State;
use crate::maglev::{Share, ring};
use crate::record::BalanceWeight;

/// A share that has changed by less, relatively, is left as it is in the ring.
const LEAST_CHANGE: f64 = 0.005;

/// How the new flows of a service are divided from now on, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Index of the service in the configuration.
    pub service: usize,
    /// Its name.
    pub name: Arc<str>,
    /// Entries of its ring.
    pub ring_size: u32,
    /// Do its weights follow from measurements?
    pub has_policy: bool,
    /// Its servers, in the order of its configuration.
    pub members: Vec<Member>,
    /// Is the ring another one than after the decision before? To make and write one takes
    /// milliseconds, and moves flows.
    pub changes_ring: bool,
}

/// What was decided for a server of a service, and from what.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Index of the server in the configuration.
    pub server: usize,
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub address: IpAddr,
    /// What was measured of it in the last interval of the controller.
    pub measured: Measurement,
    /// What the controller said of that.
    pub verdict: ServerVerdict,
    /// Its part of new flows, 0 to 1.
    pub share: f64,
    /// How it stands.
    pub state: State,
}

impl Decision {
    /// The ring: for each entry the server's index in the configuration; empty when no server gets
    /// new flows.
    pub fn ring(&self) -> Vec<usize> {
        let members = self.members.iter();
        let names: Vec<_> = members.map(|member| member.address.to_string()).collect();
        let shares: Vec<_> = names
            .iter()
            .zip(&self.members)
            .map(|(name, member)| Share {
                name,
                weight: member.share,
            })
            .collect();
        let entries = ring(self.ring_size, &shares).unwrap_or_default();
        entries
            .into_iter()
            .map(|member| self.members[usize::from(member)].server)
            .collect()
    }

    /// The shares of all members.
    pub fn shares(&self) -> Vec<f64> {
        self.members.iter().map(|member| member.share).collect()
    }

    /// The record of a member: the decision, and what was measured since its last record.
    pub fn record(&self, member: &Member, latency: Option<Latency>, time: Time) -> BalanceWeight {
        let measured = Measurement {
            latency,
            ..member.measured
        };
        BalanceWeight::new(
            time,
            (&self.name, &member.name, member.address),
            member.share,
            self.has_policy.then_some(member.verdict.factor),
            &measured,
            member.state,
            member.verdict.why,
        )
    }

    /// The records of all members, as of the last interval of the controller.
    pub fn records(&self, time: Time) -> impl Iterator<Item = BalanceWeight> {
        let members = self.members.iter();
        members.map(move |member| self.record(member, member.measured.latency, time))
    }
}

impl Member {
    /// One that nothing is known of yet.
    pub(super) fn new(address: IpAddr) -> Self {
        Self {
            server: 0,
            name: "".into(),
            address,
            measured: Measurement::default(),
            verdict: ServerVerdict::default(),
            share: 0.0,
            state: State::Unknown,
        }
    }
}

/// Would both give the same ring, nearly?
pub(super) fn are_alike(shares: &[f64], before: &[f64]) -> bool {
    let is_alike = |(now, before): (&f64, &f64)| {
        (*now > 0.0) == (*before > 0.0) && (now - before).abs() <= LEAST_CHANGE * before
    };
    shares.len() == before.len() && !shares.is_empty() && shares.iter().zip(before).all(is_alike)
}
