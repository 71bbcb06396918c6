//! What `fathom hops` prints, and running it.

use std::net::IpAddr;

use anyhow::Result;
use fathom_lab::Namespace;
use serde::Deserialize;

use crate::record::time_ns;
use crate::{Fathom, Finished, Flow, Record};

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeOutcome {
    /// A router said that its TTL had ended.
    Answered,
    /// It was refused.
    Refused,
    /// Nobody answered.
    Lost,
}

/// A probe as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Probe {
    /// When it was sent, in ns since 1970.
    #[serde(rename = "time", deserialize_with = "time_ns")]
    pub time_ns: u64,
    /// The flow that it was sent in.
    #[serde(flatten)]
    pub flow: Flow,
    /// The TTL that it was sent with.
    pub ttl: u8,
    /// What became of it.
    pub outcome: ProbeOutcome,
    /// Who answered.
    pub responder: Option<IpAddr>,
    /// Its round trip in ns.
    pub rtt_ns: Option<u64>,
    /// Its number.
    pub probe: u32,
    /// Whether the application was silent.
    pub is_idle: bool,
    /// Its bytes, from the IP header on.
    #[serde(rename = "length_bytes")]
    pub length: u16,
    /// Whether the user's function edited it.
    pub is_edited: bool,
    /// What the user's function took out of the answer.
    pub extracted: Option<String>,
    /// What was changed on its way.
    pub changed: Option<String>,
}

/// A router over an interval as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Hop {
    /// The flow.
    #[serde(flatten)]
    pub flow: Flow,
    /// The TTL that reaches it.
    pub ttl: u8,
    /// Who answers most of the time.
    pub responder: Option<IpAddr>,
    /// Whether it is the destination.
    pub is_destination: bool,
    /// Its name.
    #[serde(rename = "responder_name")]
    pub name: Option<String>,
    /// The number of its autonomous system.
    pub as_number: Option<u32>,
    /// Probes whose fate is known.
    #[serde(rename = "probes_sent")]
    pub sent: u64,
    /// Of them, those without an answer.
    #[serde(rename = "probes_lost")]
    pub lost: u64,
    /// Why there was none.
    pub silence: Option<String>,
    /// The shortest round trip.
    pub rtt_min_ns: Option<u64>,
    /// The standard deviation of round trips.
    pub rtt_stdev_ns: Option<u64>,
    /// The median round trip.
    pub rtt_p50_ns: Option<u64>,
    /// Routers on the way back, where they are not those of the way there.
    pub routers_back: Option<u8>,
    /// What is remarkable.
    pub marks: Option<String>,
}

/// A link that packets wait for, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Congestion {
    /// The end of the second that was judged, in ns since 1970.
    #[serde(rename = "time", deserialize_with = "time_ns")]
    pub time_ns: u64,
    /// The number of the link.
    pub ttl: u8,
    /// The router at its near end.
    pub near: IpAddr,
    /// The router at its far end.
    pub far: Option<IpAddr>,
    /// Which way packets wait.
    pub direction: String,
    /// What it adds to round trips.
    pub queue_ns: u64,
}

/// A change of route as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RouteChange {
    /// When it was first seen, in ns since 1970.
    #[serde(rename = "time", deserialize_with = "time_ns")]
    pub time_ns: u64,
    /// `route` or `flap`.
    pub change: String,
    /// The first hop that is another.
    pub ttl: u8,
    /// Who was there.
    pub old: IpAddr,
    /// Who is there.
    pub new: IpAddr,
    /// Routers on the old path.
    pub old_length: u8,
    /// Routers on the new path.
    pub new_length: u8,
}

/// One of several ways to a destination as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Way {
    /// Its routers, by spaces.
    pub path: String,
    /// Flows that took it.
    pub flows: u32,
    /// The median of its round trips.
    pub rtt_p50_ns: Option<u64>,
    /// How it compares.
    pub verdict: Option<String>,
    /// That ways of one kind differ so.
    pub p_value: Option<serde_json::Number>,
}

impl Fathom {
    /// Starts `fathom hops` at `interface` of `namespace`, every probe told, and waits until its
    /// programs are attached.
    ///
    /// Start it from a thread that outlives it, as every process of the lab.
    pub fn hops(namespace: &Namespace, interface: &str, options: &[&str]) -> Result<Self> {
        let mut arguments = vec!["hops", "--format", "json", "--verbose", "--each-probe"];
        arguments.extend(["--interface", interface]);
        arguments.extend(options);
        let attached = format!("{interface}: ");
        // With a command it may be over by now.
        Self::spawn(namespace, &arguments)?.started(|fathom| fathom.errors().contains(&attached))
    }

    /// Starts `fathom hops` in `namespace` with a host among the options, every probe told.
    ///
    /// Start it from a thread that outlives it, as every process of the lab.
    pub fn hops_to(namespace: &Namespace, options: &[&str]) -> Result<Self> {
        let arguments = ["hops", "--format", "json", "--each-probe"];
        Self::spawn(namespace, &[&arguments, options].concat())
    }

    /// The summaries of destinations that were printed so far.
    pub fn destinations(&self) -> Vec<Hop> {
        hops_of(&self.records_after(0), true)
    }

    /// The probes whose fate was printed so far.
    pub fn probes(&self) -> Vec<Probe> {
        probes_of(self.records_after(0))
    }
}

impl Finished {
    /// The probes among the records.
    pub fn probes(&self) -> Vec<Probe> {
        probes_of(self.records.clone())
    }

    /// The summaries of routers among the records.
    pub fn hops(&self) -> Vec<Hop> {
        hops_of(&self.records, false)
    }

    /// The summaries of destinations among the records.
    pub fn destinations(&self) -> Vec<Hop> {
        hops_of(&self.records, true)
    }
}

fn hops_of(records: &[Record], are_destinations: bool) -> Vec<Hop> {
    let hops = records.iter().filter_map(|record| match record {
        Record::Hop(hop) if hop.is_destination == are_destinations => Some(hop.clone()),
        _ => None,
    });
    hops.collect()
}

fn probes_of(records: Vec<Record>) -> Vec<Probe> {
    let probes = records.into_iter().filter_map(|record| match record {
        Record::Probe(probe) => Some(probe),
        _ => None,
    });
    probes.collect()
}
