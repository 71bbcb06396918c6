//! Profiles of connections as the binary prints them, and what they should be.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use fathom_lab::Namespace;
use nix::sys::stat::fstat;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fathom::{Fathom, Finished};
use crate::record::Record;

/// What a connection that does nothing and meets nothing has none of; a prediction says what
/// differs.
const EVENTS: [&str; 22] = [
    "bytes_sent",
    "packets_sent",
    "bytes_received",
    "packets_received",
    "bytes_acknowledged",
    "packets_acknowledged",
    "packets_lost",
    "bytes_retransmitted",
    "packets_retransmitted",
    "syn_acks_retransmitted",
    "checksum_errors",
    "packets_duplicate",
    "bytes_duplicate",
    "packets_partially_duplicate",
    "bytes_partially_duplicate",
    "packets_out_of_order",
    "bytes_out_of_order",
    "stalls",
    "unanswered_probes",
    "packets_reported_duplicate",
    "reordering_seen",
    "packets_congestion_experienced",
];

/// What it has no value of.
const ABSENT: [&str; 3] = [
    "out_of_order_distance_mean_bytes",
    "out_of_order_distance_variance",
    "out_of_order_distance_max_bytes",
];

/// A profile as printed: values by the documented names of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Profile(Map<String, Value>);

impl Profile {
    /// The value of a field; `None` where the profile does not have it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The fields that the profile has: names and values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a field that holds a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// The value of a field that holds a text; empty where the profile does not have it.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The value of a field that holds a time span, whose name ends with `_ns`.
    pub fn span(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_nanos)
    }

    /// The value of a field that holds a time.
    pub fn time(&self, name: &str) -> Option<SystemTime> {
        humantime::parse_rfc3339(self.text(name)).ok()
    }

    /// The end that is this host.
    pub fn local(&self) -> Option<SocketAddr> {
        self.end("source", "source_port")
    }

    /// The other end.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.end("destination", "destination_port")
    }

    /// Whether one of its ends has this port.
    pub fn has_port(&self, port: u16) -> bool {
        [self.local(), self.remote()]
            .into_iter()
            .flatten()
            .any(|end| end.port() == port)
    }

    /// Whether the connection is one of `host`.
    pub fn is_of(&self, host: &Namespace) -> bool {
        fstat(host.as_fd())
            .is_ok_and(|status| self.number("network_namespace") == Some(status.st_ino))
    }

    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        matches!(
            self.text("end_state"),
            "FINISHED" | "BROKEN" | "UNREACHABLE" | "DESYNC"
        )
    }

    fn end(&self, address: &str, port: &str) -> Option<SocketAddr> {
        let address = self.text(address).parse().ok()?;
        let port = u16::try_from(self.number(port)?).ok()?;
        Some(SocketAddr::new(address, port))
    }
}

impl Fathom {
    /// Starts `fathom profile` in `namespace` and waits until its probes are attached.
    ///
    /// Start it from a thread that outlives it, as every process of the lab.
    pub fn profile(namespace: &Namespace, options: &[&str]) -> Result<Self> {
        let mut arguments = vec!["profile", "--format", "json", "--verbose"];
        arguments.extend(options);
        // It names its probes once they are attached.
        Self::spawn(namespace, &arguments)?.started(|fathom| fathom.errors().contains("probes: "))
    }

    /// The profiles of TCP connections and MPTCP subflows printed so far.
    pub fn profiles(&self) -> Vec<Profile> {
        profiles_of(self.records_after(0))
    }

    /// The profiles of MPTCP connections printed so far.
    pub fn mptcp_profiles(&self) -> Vec<Profile> {
        let profiles = self.records_after(0).into_iter();
        let profiles = profiles.filter_map(|record| match record {
            Record::MptcpProfile(profile) => Some(profile),
            _ => None,
        });
        profiles.collect()
    }
}

impl Finished {
    /// The profiles of TCP connections and MPTCP subflows among the records.
    pub fn profiles(&self) -> Vec<Profile> {
        profiles_of(self.records.clone())
    }
}

fn profiles_of(records: Vec<Record>) -> Vec<Profile> {
    let profiles = records.into_iter().filter_map(|record| match record {
        Record::Profile(profile) => Some(profile),
        _ => None,
    });
    profiles.collect()
}

/// What a profile should be: where it starts and ends, and everything that happened in it. What is
/// not said to have happened did not.
#[derive(Debug, Clone)]
pub struct Prediction {
    start_state: &'static str,
    end_state: &'static str,
    reason: &'static str,
    values: Vec<(&'static str, Value)>,
    spans: Vec<(&'static str, RangeInclusive<Duration>)>,
}

impl Prediction {
    /// A profile in which nothing happened but what ends it.
    pub fn new(start_state: &'static str, end_state: &'static str, reason: &'static str) -> Self {
        Self {
            start_state,
            end_state,
            reason,
            values: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// A field has exactly this value; `Value::Null`: the profile does not have the field.
    #[must_use]
    pub fn with(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.values.push((field, value.into()));
        self
    }

    /// A time span lies in these bounds, in place of others that were predicted before.
    #[must_use]
    pub fn within(mut self, field: &'static str, bounds: RangeInclusive<Duration>) -> Self {
        self.spans.retain(|(name, _)| *name != field);
        self.spans.push((field, bounds));
        self
    }

    /// What is otherwise in `profile`, in words.
    fn differences(&self, profile: &Profile) -> Vec<String> {
        let mut predicted = Map::new();
        for name in EVENTS {
            predicted.insert(name.to_owned(), 0.into());
        }
        for name in ABSENT {
            predicted.insert(name.to_owned(), Value::Null);
        }
        for (name, text) in [
            ("start_state", self.start_state),
            ("end_state", self.end_state),
            ("reason", self.reason),
        ] {
            predicted.insert(name.to_owned(), text.into());
        }
        for (name, value) in &self.values {
            predicted.insert((*name).to_owned(), value.clone());
        }
        // What a kernel cannot tell is named by whoever runs the cases there.
        let missing = std::env::var("FATHOM_TEST_WITHOUT").unwrap_or_default();
        predicted.retain(|name, _| !missing.split(',').any(|missing| missing == name));
        let mut differences = Vec::new();
        for (name, value) in &predicted {
            let found = profile.get(name).unwrap_or(&Value::Null);
            if found != value {
                differences.push(format!("{name} is {found}, not {value}"));
            }
        }
        for (name, bounds) in &self.spans {
            match profile.span(name) {
                Some(found) if bounds.contains(&found) => {}
                found => differences.push(format!("{name} is {found:?}, not {bounds:?}")),
            }
        }
        differences
    }
}

/// Holds the profiles of a connection against what was predicted: so many, in this order, with
/// these values.
///
/// # Panics
/// When anything differs; then with all that does.
#[track_caller]
pub fn check(whose: &str, profiles: &[Profile], predictions: &[Prediction]) {
    let mut complaint = String::new();
    if profiles.len() != predictions.len() {
        let _ = writeln!(
            complaint,
            "{} profiles, not {}",
            profiles.len(),
            predictions.len()
        );
    }
    for (number, (profile, prediction)) in profiles.iter().zip(predictions).enumerate() {
        for difference in prediction.differences(profile) {
            let _ = writeln!(complaint, "profile {}: {difference}", number + 1);
        }
    }
    assert!(
        complaint.is_empty(),
        "{whose}:\n{complaint}{}",
        lines(profiles)
    );
}

fn lines(profiles: &[Profile]) -> String {
    let lines = profiles
        .iter()
        .map(|profile| serde_json::to_string(&profile.0).unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Profile {
        let mut fields = Map::new();
        for name in EVENTS {
            fields.insert(name.to_owned(), 0.into());
        }
        for (name, value) in [
            ("start_state", Value::from("NEW")),
            ("end_state", "ESTABLISHED".into()),
            ("reason", "established".into()),
            ("source", "fd77:1::1".into()),
            ("source_port", 4000.into()),
            ("destination", "fd77:2::1".into()),
            ("destination_port", 80.into()),
            ("establishment_ns", 40_000_000.into()),
        ] {
            fields.insert(name.to_owned(), value);
        }
        Profile(fields)
    }

    #[test]
    fn a_prediction_tells_every_difference() {
        let right = Prediction::new("NEW", "ESTABLISHED", "established");
        let bounds = |low, high| Duration::from_millis(low)..=Duration::from_millis(high);
        let right = right.within("establishment_ns", bounds(40, 41));
        assert_eq!(right.differences(&calm()), Vec::<String>::new());
        let wrong = right
            .with("stalls", 1)
            .with("is_existing", true)
            .within("stalled_ns", bounds(0, 1));
        let differences = wrong.differences(&calm());
        assert_eq!(differences.len(), 3, "{differences:?}");
    }

    #[test]
    fn a_line_is_read() {
        let line = r#"{"kind":"profile","source":"10.77.1.1","source_port":4000,"destination":"10.77.2.1",
            "destination_port":80,"end_state":"FINISHED","stalled_ns":5}"#;
        let Record::Profile(profile) = serde_json::from_str(line).expect("it is a record") else {
            panic!("{line}");
        };
        assert!(profile.is_last() && profile.has_port(80) && profile.has_port(4000));
        assert_eq!(profile.span("stalled_ns"), Some(Duration::from_nanos(5)));
        assert_eq!(profile.get("kind"), None);
    }
}
