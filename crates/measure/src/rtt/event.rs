//! From the events of the C side to records.

use std::any::Any;

use fathom_record::{Nanoseconds, Record, Schema, Time, Value, Visitor};

use super::{Method, Observed, RttFlow, RttSample};
use crate::flow::{flow_of, tags};
use crate::native::flow_key;
use crate::replay::Interfaces;
use crate::rtt::native;

/// Something to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A round trip, and the bytes that went with it if they are counted.
    Sample(RttSample, Option<SampleBytes>),
    /// A flow opened or closed.
    Flow(RttFlow),
}

impl Report {
    fn record(&self) -> &dyn Record {
        match self {
            Self::Sample(sample, _) => sample,
            Self::Flow(flow) => flow,
        }
    }
}

impl Record for Report {
    fn schema(&self) -> &'static Schema {
        self.record().schema()
    }

    fn value(&self, index: usize) -> Value<'_> {
        self.record().value(index)
    }

    fn visit(&self, visitor: &mut dyn Visitor) {
        self.record().visit(visitor);
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// IP bytes that go with a round trip of TCP, as pping counts them; where there is a handshake,
/// from its end on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleBytes {
    /// In the measured direction, up to and with the packet.
    pub sent: u64,
    /// Of these, up to and with the last packet that had given its sample when this one passed:
    /// what is between was under way.
    pub answered: u64,
    /// In the other direction, from behind the answer before up to and with this one.
    pub returned: u64,
}

fn some_unless_zero(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

/// `time_offset` is added to the times of the events to make them count from 1970, in nanoseconds.
pub(crate) fn decode(
    event: &native::rtt_event,
    traffic: Option<&[native::rtt_traffic; 2]>,
    interfaces: &impl Interfaces,
    time_offset: u64,
) -> Report {
    let time = Time(event.time.wrapping_add(time_offset));
    let direction = event.sample.direction & 1;
    let flow = flow_of(&event.key, direction);
    let (vlan, inner_vlan) = tags(event.key.vlan());
    let tunnel = some_unless_zero(event.key.tunnel);
    let interface = interfaces.name(event.key.interface);
    let Some(traffic) = traffic else {
        let has = |flag: u32| (u32::from(event.sample.flags) & flag != 0).then_some(true);
        let sample = RttSample {
            time,
            flow,
            method: Method::from_number(event.sample.method),
            rtt_ns: Nanoseconds(event.sample.rtt),
            rtt_min_ns: (event.sample.minimum != 0).then_some(Nanoseconds(event.sample.minimum)),
            is_retransmitted: has(native::RTT_SAMPLE_RETRANSMITTED),
            is_loop: has(native::RTT_SAMPLE_IS_LOOP),
            vlan,
            inner_vlan,
            tunnel,
            interface,
            observed: Observed(event.hook),
        };
        let bytes = SampleBytes {
            sent: event.sample.sent,
            answered: event.sample.answered,
            returned: event.sample.returned,
        };
        return Report::Sample(sample, (bytes.sent != 0).then_some(bytes));
    };
    let own = &traffic[usize::from(direction)];
    let reverse = &traffic[usize::from(direction ^ 1)];
    Report::Flow(RttFlow {
        time,
        flow,
        event: if u32::from(event.type_) == native::RTT_EVENT_OPEN {
            "open"
        } else {
            "close"
        },
        reason: native::reason_names()
            .get(usize::from(event.reason))
            .copied()
            .unwrap_or_default(),
        packets: own.packets,
        bytes: own.bytes,
        packets_retransmitted: own.retransmitted,
        packets_out_of_order: own.out_of_order,
        packets_congestion_experienced: own.congestion_experienced,
        reverse_packets: reverse.packets,
        reverse_bytes: reverse.bytes,
        reverse_packets_retransmitted: reverse.retransmitted,
        reverse_packets_out_of_order: reverse.out_of_order,
        reverse_packets_congestion_experienced: reverse.congestion_experienced,
        vlan,
        inner_vlan,
        tunnel,
        interface,
    })
}

/// What one end has sent so far.
pub(crate) fn traffic_of(half: &native::rtt_half) -> native::rtt_traffic {
    native::rtt_traffic {
        packets: half.packets,
        bytes: half.bytes,
        retransmitted: half.retransmitted,
        out_of_order: half.out_of_order,
        congestion_experienced: half.congestion_experienced,
        padding: 0,
    }
}

/// A flow's opening or closing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transition {
    /// `RTT_EVENT_OPEN` or `RTT_EVENT_CLOSE`.
    pub(crate) event_type: u32,
    /// `RTT_REASON_*`.
    pub(crate) reason: u32,
    /// In nanoseconds.
    pub(crate) time: u64,
}

impl Transition {
    pub(crate) fn close(reason: u32, time: u64) -> Self {
        Self {
            event_type: native::RTT_EVENT_CLOSE,
            reason,
            time,
        }
    }

    /// As a report, with the totals of the flow.
    pub(crate) fn report(
        self,
        key: &flow_key,
        flow: &native::rtt_flow,
        interfaces: &impl Interfaces,
        time_offset: u64,
    ) -> Report {
        let mut event = native::rtt_event {
            key: *key,
            time: self.time,
            type_: self.event_type as u8,
            reason: self.reason as u8,
            ..native::rtt_event::default()
        };
        event.sample.direction = flow.opener;
        let traffic = [traffic_of(&flow.half[0]), traffic_of(&flow.half[1])];
        decode(&event, Some(&traffic), interfaces, time_offset)
    }
}
