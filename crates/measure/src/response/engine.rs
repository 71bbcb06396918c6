//! The measurement over frames that are handed to it: what the BPF program does in the kernel, with
//! tables of its own.

use fathom_record::{Nanoseconds, Time};

use super::counts::ResponseCounts;
use super::estimate::{Estimate, estimate};
use super::evidence::Evidence;
use super::reverse::{Handshakes, Responses};
use super::{Estimator, ResponseEpoch, Settings};
use crate::flow::{flow_of, tags};
use crate::native::{PACKET_MEASURABLE, flow_key, selection};
use crate::replay::{Dissected, Dissector, Interfaces, Offline};
use crate::response::native::{
    self, Requests, response_config, response_epoch, response_flow, response_handshake,
};
use crate::table::{RemovalReason, State, Table};
use crate::{Counts, Error};

/// Slots for handshakes: 128 KiB.
pub(super) const HANDSHAKES: u32 = 16_384;
/// A flow without requests for this many nanoseconds is over.
pub(super) const IDLE_NS: u64 = 60_000_000_000;

/// What is kept of a flow.
#[derive(Default)]
struct Flow {
    requests: Requests,
    /// If they are compared.
    responses: Option<Box<Responses>>,
}

impl State for Flow {
    fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.requests.flow.last) > IDLE_NS
    }
}

/// Measures packet by packet; time is what the packets bring.
pub struct Engine {
    table: Table<Flow>,
    handshakes: Vec<response_handshake>,
    config: response_config,
    estimator: Estimator,
    /// `None`: everything is selected.
    selection: Option<selection>,
    /// If responses are compared.
    seen_handshakes: Option<Handshakes>,
    counts: ResponseCounts,
    /// The time of the last packet, in nanoseconds since 1970.
    now: u64,
}

impl Engine {
    /// Nothing seen yet. `seed` makes the hash tables unpredictable. `is_compared`: the packets of
    /// servers, where there are any, tell the latency too.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the selection is too long.
    pub fn new(settings: &Settings, seed: u64, is_compared: bool) -> Result<Self, Error> {
        Ok(Self {
            table: Table::new(settings.scope.flows as usize),
            handshakes: vec![response_handshake::default(); HANDSHAKES as usize],
            config: settings.to_native(seed, HANDSHAKES)?,
            estimator: settings.estimator,
            selection: settings.scope.selection.to_native_unless_empty()?,
            seen_handshakes: is_compared.then(|| Handshakes::new(HANDSHAKES as usize)),
            counts: ResponseCounts::default(),
            now: 0,
        })
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts.into()
    }

    /// When the last packet was captured that was measured; 1970 before the first.
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    fn count(&mut self, counter: u32) {
        self.counts.counters[counter as usize] += 1;
    }

    /// A packet whose flow is in this slot.
    fn on_known(
        &mut self,
        slot: u32,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(ResponseEpoch),
    ) {
        let Dissected { time, reading } = packet;
        let entry = self.table.touch(slot);
        let requests = &mut entry.state.requests;
        let mut before = requests.flow;
        let (ended, left_out) =
            requests.on_packet(&mut self.handshakes, reading, *time, &self.config);
        let after = requests.flow;
        if ended.is_some() {
            // With the epoch went what it had counted.
            before.sent = 0;
        }
        let reverse = entry.state.responses.as_mut().and_then(|responses| {
            let average = ended.as_ref().and_then(|_| responses.take());
            if reading.packet.direction == after.direction() {
                responses.on_client(reading, *time, &before, &after);
            } else {
                responses.on_answer(reading, *time);
            }
            average
        });
        if let Some(counter) = left_out {
            self.counts.counters[counter as usize] += u64::from(reading.packet.segments);
        }
        if let Some(ended) = ended {
            self.count(native::RESPONSE_COUNT_EPOCHS);
            report(record(&ended, reverse, self.estimator, interfaces, 0));
        }
    }

    /// A packet whose flow has no state.
    fn on_unknown(
        &mut self,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(ResponseEpoch),
    ) {
        let Dissected { time, reading } = packet;
        let Some(requests) = Requests::begin(&mut self.handshakes, reading, *time, &self.config)
        else {
            return;
        };
        let opened = |handshakes: &mut Handshakes| Responses::new(handshakes.take(reading.hash));
        let mut responses = self.seen_handshakes.as_mut().map(opened).map(Box::new);
        if let Some(responses) = &mut responses {
            responses.on_request(*time, true);
        }
        let flow = Flow {
            requests,
            responses,
        };
        let (config, estimator, now) = (&self.config, self.estimator, self.now);
        let counts = &mut self.counts;
        let mut departed = |entry: &mut crate::table::Entry<Flow>, why| {
            match why {
                RemovalReason::Over => {
                    counts.counters[native::RESPONSE_COUNT_FLOWS_DELETED as usize] += 1;
                }
                RemovalReason::Evicted => counts.evicted += 1,
            }
            if let Some(last) = entry
                .state
                .end(&entry.key, now, true, config, estimator, interfaces)
            {
                counts.counters[native::RESPONSE_COUNT_EPOCHS as usize] += 1;
                report(last);
            }
        };
        self.table
            .insert(reading.packet.key, reading.hash, flow, now, &mut departed);
        self.count(native::RESPONSE_COUNT_FLOWS_OPENED);
    }

    /// Looks at another flow: is its epoch over, without a packet that would have told?
    fn sweep(&mut self, interfaces: &impl Interfaces, report: &mut impl FnMut(ResponseEpoch)) {
        let Some(entry) = self.table.next() else {
            return;
        };
        let key = entry.key;
        let ended = entry.state.end(
            &key,
            self.now,
            false,
            &self.config,
            self.estimator,
            interfaces,
        );
        if let Some(ended) = ended {
            self.count(native::RESPONSE_COUNT_EPOCHS);
            report(ended);
        }
    }

    /// The end of the input: the epochs that are under way end.
    pub fn finish(&mut self, interfaces: &impl Interfaces, report: &mut impl FnMut(ResponseEpoch)) {
        let (config, estimator, now) = (&self.config, self.estimator, self.now);
        for entry in self.table.iter_mut() {
            let key = entry.key;
            if let Some(last) = entry
                .state
                .end(&key, now, true, config, estimator, interfaces)
            {
                self.counts.counters[native::RESPONSE_COUNT_EPOCHS as usize] += 1;
                report(last);
            }
        }
    }
}

impl Offline for Engine {
    type Report = ResponseEpoch;

    fn dissector(&self) -> Dissector {
        let (config, selection) = (self.config, self.selection);
        Dissector::new(move |frame| native::read(frame, selection.as_ref(), &config))
    }

    fn on_packet(
        &mut self,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(ResponseEpoch),
    ) {
        let reading = &packet.reading;
        self.counts.verdicts[reading.verdict as usize] += 1;
        if reading.verdict != PACKET_MEASURABLE {
            return;
        }
        if reading.is_selected == 0 {
            return self.count(native::RESPONSE_COUNT_FILTERED);
        }
        if u32::from(reading.direction) == native::RESPONSE_DIRECTION_NONE {
            return self.count(native::RESPONSE_COUNT_UNDIRECTED);
        }
        if self.config.sampled != 0 && reading.hash as u32 >= self.config.sampled {
            return self.count(native::RESPONSE_COUNT_NOT_SAMPLED);
        }
        self.now = packet.time;
        if let Some(handshakes) = &mut self.seen_handshakes {
            handshakes.on_packet(reading, packet.time);
        }
        match self.table.locate(&reading.packet.key, reading.hash) {
            Some(slot) => self.on_known(slot, packet, interfaces, report),
            None => self.on_unknown(packet, interfaces, report),
        }
        self.sweep(interfaces, report);
    }
}

impl Flow {
    /// Ends the epoch if it is over, or `at_once`.
    fn end(
        &mut self,
        key: &flow_key,
        now: u64,
        at_once: bool,
        config: &response_config,
        estimator: Estimator,
        interfaces: &impl Interfaces,
    ) -> Option<ResponseEpoch> {
        let ended = self.requests.end_epoch(key, now, at_once, config)?;
        let reverse = self
            .responses
            .as_mut()
            .and_then(|responses| responses.take());
        let mut record = record(&ended, reverse, estimator, interfaces, 0);
        record.waiting_ns = waiting(key, &ended.flow, now);
        Some(record)
    }
}

/// How long the last request of a flow has been unanswered. Only TCP tells: a client acknowledges
/// an answer, be it in a packet without data.
pub(super) fn waiting(key: &flow_key, flow: &response_flow, now: u64) -> Option<Nanoseconds> {
    let is_unanswered = key.protocol() == 6 && flow.tcp().pure_age == 0;
    is_unanswered.then(|| Nanoseconds(now.saturating_sub(flow.last)))
}

/// `time_offset` is added to the times of the epoch to make them count from 1970, in nanoseconds.
pub(super) fn record(
    epoch: &response_epoch,
    reverse_ns: Option<f64>,
    estimator: Estimator,
    interfaces: &impl Interfaces,
    time_offset: u64,
) -> ResponseEpoch {
    let evidence = Evidence::read(epoch, estimator);
    let (estimate, estimator) = estimate(&evidence, estimator);
    let (vlan, inner_vlan) = tags(epoch.key.vlan());
    let length = epoch.end.saturating_sub(epoch.begin);
    ResponseEpoch {
        time: Time(epoch.end.wrapping_add(time_offset)),
        flow: flow_of(&epoch.key, epoch.flow.direction()),
        duration_ns: Nanoseconds(length),
        latency_ns: estimate.latency_ns.map(nanoseconds),
        think_ns: think_ns(&evidence, &estimate)
            .filter(|_| estimator == Estimator::Timestamps)
            .map(nanoseconds),
        reverse_latency_ns: reverse_ns.filter(|_| !estimate.slides).map(nanoseconds),
        confidence: estimate.confidence,
        causal_gaps: estimate.causal,
        concurrency: estimate.concurrency,
        timeout_gaps: evidence.timeouts,
        idle_gaps: evidence.idle,
        packets_repeated: evidence.repeated,
        waiting_ns: None,
        handshake_ns: evidence.handshake_ns.map(nanoseconds),
        reason: estimate.reason,
        estimator,
        vlan,
        inner_vlan,
        tunnel: (epoch.key.tunnel != 0).then_some(epoch.key.tunnel),
        interface: interfaces.name(epoch.key.interface),
    }
}

/// What the client thought before a request, on average: what is no latency of a gap.
fn think_ns(evidence: &Evidence, estimate: &Estimate) -> Option<f64> {
    let think = evidence.think?;
    let is_whole = estimate.causal != 0 && !estimate.slides;
    let latency_ns = estimate.latency_ns.filter(|_| is_whole);
    Some(latency_ns.map_or(think.mean_ns, |latency_ns| {
        (evidence.retained_ns / f64::from(estimate.causal) - latency_ns).max(0.0)
    }))
}

#[expect(clippy::cast_sign_loss, reason = "no latency is negative")]
fn nanoseconds(number: f64) -> Nanoseconds {
    Nanoseconds(number.round() as u64)
}
