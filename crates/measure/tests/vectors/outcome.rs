//! What a run gives, in one form for the expectation, the native path and the BPF path.

use std::collections::BTreeMap;
use std::fmt;

use fathom_measure::rtt::{Method, Report, RttFlow, RttSample, SampleBytes};
use fathom_record::FlowKey;

/// A sample or a flow event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Sample(Sample),
    Flow(Change),
}

/// Where in the stack of tags and tunnels a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) vlan: Option<u16>,
    pub(crate) inner_vlan: Option<u16>,
    pub(crate) tunnel: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// From the start of the vector.
    pub(crate) time_ns: u64,
    pub(crate) method: Method,
    pub(crate) flow: FlowKey,
    pub(crate) rtt_ns: u64,
    pub(crate) minimum_ns: Option<u64>,
    pub(crate) is_retransmitted: bool,
    pub(crate) is_loop: bool,
    pub(crate) place: Place,
    pub(crate) bytes: Option<SampleBytes>,
}

/// A flow that opened or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// From the start of the vector.
    pub(crate) time_ns: u64,
    pub(crate) flow: FlowKey,
    pub(crate) is_open: bool,
    pub(crate) reason: &'static str,
    /// Of both directions; an expectation need not give them.
    pub(crate) traffic: Option<[Traffic; 2]>,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) retransmitted: u32,
    pub(crate) out_of_order: u32,
    pub(crate) congestion_experienced: u32,
}

/// All that a run gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Run {
    pub(crate) outcomes: Vec<Outcome>,
    /// What is counted, by the names that users see, without zeros.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Outcome {
    /// From a record, whose time counts from `start_ns`.
    pub(crate) fn from_report(report: &Report, start_ns: u64) -> Self {
        match report {
            Report::Sample(sample, bytes) => Self::Sample(from_sample(sample, *bytes, start_ns)),
            Report::Flow(flow) => Self::Flow(from_flow(flow, start_ns)),
        }
    }

    /// Is this what was expected? An expectation may leave the traffic of a flow out.
    pub(crate) fn meets(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Flow(own), Self::Flow(expected)) if expected.traffic.is_none() => {
                Change {
                    traffic: None,
                    ..*own
                } == *expected
            }
            _ => self == expected,
        }
    }
}

fn from_sample(sample: &RttSample, bytes: Option<SampleBytes>, start_ns: u64) -> Sample {
    Sample {
        time_ns: sample.time.0.wrapping_sub(start_ns),
        method: sample.method,
        flow: sample.flow,
        rtt_ns: sample.rtt_ns.0,
        minimum_ns: sample.rtt_min_ns.map(|minimum| minimum.0),
        is_retransmitted: sample.is_retransmitted.unwrap_or_default(),
        is_loop: sample.is_loop.unwrap_or_default(),
        place: Place {
            vlan: sample.vlan,
            inner_vlan: sample.inner_vlan,
            tunnel: sample.tunnel,
        },
        bytes,
    }
}

fn from_flow(flow: &RttFlow, start_ns: u64) -> Change {
    let own = Traffic {
        packets: flow.packets,
        bytes: flow.bytes,
        retransmitted: flow.packets_retransmitted,
        out_of_order: flow.packets_out_of_order,
        congestion_experienced: flow.packets_congestion_experienced,
    };
    let reverse = Traffic {
        packets: flow.reverse_packets,
        bytes: flow.reverse_bytes,
        retransmitted: flow.reverse_packets_retransmitted,
        out_of_order: flow.reverse_packets_out_of_order,
        congestion_experienced: flow.reverse_packets_congestion_experienced,
    };
    Change {
        time_ns: flow.time.0.wrapping_sub(start_ns),
        flow: flow.flow,
        is_open: flow.event == "open",
        reason: flow.reason,
        traffic: Some([own, reverse]),
        place: Place {
            vlan: flow.vlan,
            inner_vlan: flow.inner_vlan,
            tunnel: flow.tunnel,
        },
    }
    .settled()
}

impl Change {
    /// A flow that is still there at the end is told at no time that means anything: here at none.
    pub(crate) fn settled(mut self) -> Self {
        if self.reason == "end of measurement" {
            self.time_ns = 0;
        }
        self
    }
}

impl Run {
    /// Flows that end with the input come in no order: here by their keys.
    pub(crate) fn sort_end(&mut self) {
        let is_end = |outcome: &Outcome| matches!(outcome, Outcome::Flow(flow) if flow.reason == "end of measurement");
        let first = self
            .outcomes
            .iter()
            .position(is_end)
            .unwrap_or(self.outcomes.len());
        self.outcomes[first..].sort_by_key(|outcome| match outcome {
            Outcome::Flow(flow) => (
                flow.flow,
                flow.place.vlan,
                flow.place.inner_vlan,
                flow.place.tunnel,
            ),
            Outcome::Sample(sample) => (sample.flow, None, None, None),
        });
    }
}

/// As it would stand in a vector.
impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample(sample) => {
                let ms = |ns: u64| ns as f64 / 1e6;
                write!(
                    formatter,
                    "@{} ms = {} {} {} ms",
                    ms(sample.time_ns),
                    sample.method,
                    sample.flow,
                    ms(sample.rtt_ns)
                )?;
                if let Some(minimum) = sample.minimum_ns {
                    write!(formatter, " min {} ms", ms(minimum))?;
                }
                if sample.is_retransmitted {
                    formatter.write_str(" retransmitted")?;
                }
                if sample.is_loop {
                    formatter.write_str(" loop")?;
                }
                if let Some(bytes) = sample.bytes {
                    let SampleBytes {
                        sent,
                        answered,
                        returned,
                    } = bytes;
                    write!(formatter, " bytes {sent}/{answered}/{returned}")?;
                }
                write!(formatter, "{}", sample.place)
            }
            Self::Flow(flow) => {
                let what = if flow.is_open { "open" } else { "close" };
                write!(
                    formatter,
                    "@{} ns = {what} {} by {}{}",
                    flow.time_ns, flow.flow, flow.reason, flow.place
                )?;
                if let Some([own, reverse]) = &flow.traffic {
                    write!(formatter, " {own} / {reverse}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.vlan, self.inner_vlan) {
            (Some(outer), Some(inner)) => write!(formatter, " vlan {outer}/{inner}")?,
            (Some(only), None) => write!(formatter, " vlan {only}")?,
            _ => {}
        }
        self.tunnel
            .map_or(Ok(()), |tunnel| write!(formatter, " tunnel {tunnel}"))
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "packets {} bytes {} retransmitted {} out-of-order {} ce {}",
            self.packets,
            self.bytes,
            self.retransmitted,
            self.out_of_order,
            self.congestion_experienced
        )
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.outcomes {
            writeln!(formatter, "  {outcome}")?;
        }
        writeln!(formatter, "  {:?}", self.counts)
    }
}
