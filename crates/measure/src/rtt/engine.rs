//! The measurement over frames that are handed to it: what the BPF program does in the kernel, with
//! tables of its own.

use super::counts::RttCounts;
use super::event::{Report, Transition, decode};
use super::flow::{Flow, Slots};
use super::{Aggregator, Settings};
use crate::native::{PACKET_MEASURABLE, fathom_reading, selection};
use crate::replay::{Dissected, Dissector, Interfaces, Offline};
use crate::rtt::native::{self, rtt_bucket, rtt_config, rtt_event, rtt_output};
use crate::table::{RemovalReason, Table};
use crate::{Counts, Error};
use fathom_record::Time;

/// Request buckets, of four requests each: 1 MiB.
const BUCKETS: u32 = 16_384;

/// Measures packet by packet; time is what the packets bring.
pub struct Engine {
    table: Table<Flow>,
    slots: Slots,
    buckets: Vec<rtt_bucket>,
    config: rtt_config,
    /// `None`: everything is selected.
    selection: Option<selection>,
    counts: RttCounts,
    output: rtt_output,
    /// The time of the last packet, in nanoseconds since 1970.
    now: u64,
}

impl Offline for Engine {
    type Report = Report;

    fn dissector(&self) -> Dissector {
        let (config, selection) = (self.config, self.selection);
        Dissector::new(move |frame| native::read(frame, selection.as_ref(), &config))
    }

    fn on_packet(
        &mut self,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        let reading = &packet.reading;
        self.counts.verdicts[reading.verdict as usize] += 1;
        if reading.verdict != PACKET_MEASURABLE {
            return;
        }
        if reading.is_selected == 0 {
            self.count(native::RTT_COUNT_FILTERED, 1);
            return;
        }
        self.now = packet.time;
        let slot = if reading.uses_flow != 0 {
            self.table.locate(&reading.packet.key, reading.hash)
        } else {
            None
        };
        let state = slot.map(|slot| {
            let flow = &mut self.table.touch(slot).state;
            self.slots.make_room(flow, reading.packet.direction);
            flow.state()
        });
        native::on_packet(
            state,
            &mut self.buckets,
            &reading.packet,
            self.now,
            &self.config,
            &mut self.output,
        );
        self.act(reading, interfaces, report);
    }
}

impl Engine {
    /// Nothing seen yet. `seed` makes the hash tables unpredictable; it changes no sample.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the selection is too long.
    pub fn new(settings: &Settings, seed: u64) -> Result<Self, Error> {
        let config = settings.to_native(seed, BUCKETS);
        Ok(Self {
            table: Table::new(settings.scope.flows as usize),
            slots: Slots::new(config),
            buckets: vec![rtt_bucket::default(); BUCKETS as usize],
            config,
            selection: settings.scope.selection.to_native_unless_empty()?,
            counts: RttCounts::default(),
            output: rtt_output::default(),
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

    fn count(&mut self, counter: u32, by: u64) {
        self.counts.counters[counter as usize] += by;
    }

    fn act(
        &mut self,
        reading: &fathom_reading,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        if self.output.actions & native::RTT_ACTION_FORGET != 0 {
            self.forget(reading, interfaces, report);
        }
        if self.output.actions & native::RTT_ACTION_OPEN != 0 {
            self.open(reading, interfaces, report);
        }
        let count = self.output.sample_count as usize;
        for sample in &self.output.samples[..count] {
            let event = rtt_event {
                key: reading.packet.key,
                time: self.now,
                sample: *sample,
                ..rtt_event::default()
            };
            report(decode(&event, None, interfaces, 0));
        }
        self.count(native::RTT_COUNT_SAMPLES, count as u64);
        if self.output.left_out != 0 {
            self.count(self.output.left_out_as, self.output.left_out.into());
        }
        self.count(
            native::RTT_COUNT_PENDING_EXPIRED,
            self.output.expired.into(),
        );
        self.count(
            native::RTT_COUNT_REQUESTS_DISPLACED,
            self.output.displaced.into(),
        );
        if self.has_events() && self.output.actions & native::RTT_ACTION_CLOSED != 0 {
            let slot = self.table.locate(&reading.packet.key, reading.hash);
            let closing = Transition::close(self.output.reason, self.now);
            if let Some(entry) = slot.map(|slot| self.table.entry(slot)) {
                report(closing.report(&entry.key, &entry.state.flow, interfaces, 0));
            }
        }
    }

    fn has_events(&self) -> bool {
        self.config.has_events != 0
    }

    /// Another connection was on these addresses and ports before.
    fn forget(
        &mut self,
        reading: &fathom_reading,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        let Some(slot) = self.table.locate(&reading.packet.key, reading.hash) else {
            return;
        };
        let has_events = self.has_events();
        let entry = self.table.entry(slot);
        if has_events && !entry.state.is_closed() {
            let closing = Transition::close(native::RTT_REASON_REPLACED, self.now);
            report(closing.report(&entry.key, &entry.state.flow, interfaces, 0));
        }
        let flow = self.table.remove(slot);
        self.slots.take_back(&flow);
        self.count(native::RTT_COUNT_FLOWS_DELETED, 1);
    }

    fn open(
        &mut self,
        reading: &fathom_reading,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        let opening = Transition {
            event_type: native::RTT_EVENT_OPEN,
            reason: self.output.reason,
            time: self.now,
        };
        let (has_events, now) = (self.has_events(), self.now);
        let (mut over, mut evicted) = (0, 0);
        let (key, hash) = (reading.packet.key, reading.hash);
        let (flow, slots) = (self.slots.flow(), &mut self.slots);
        let slot = self.table.insert(key, hash, flow, now, |entry, why| {
            slots.take_back(&entry.state);
            let reason = match why {
                RemovalReason::Over => native::RTT_REASON_TIMEOUT,
                RemovalReason::Evicted => native::RTT_REASON_EVICTED,
            };
            over += u64::from(why == RemovalReason::Over);
            evicted += u64::from(why == RemovalReason::Evicted);
            if has_events && !entry.state.is_closed() {
                let closing = Transition::close(reason, now);
                report(closing.report(&entry.key, &entry.state.flow, interfaces, 0));
            }
        });
        let packet = &reading.packet;
        let entry = self.table.entry(slot);
        native::open(
            &mut entry.state.state(),
            packet,
            now,
            &self.config,
            &mut self.output,
        );
        if has_events {
            report(opening.report(&entry.key, &entry.state.flow, interfaces, 0));
        }
        self.count(native::RTT_COUNT_FLOWS_OPENED, 1);
        self.count(native::RTT_COUNT_FLOWS_DELETED, over);
        self.counts.evicted += evicted;
    }

    /// The end of the input: flows that are still open close.
    pub fn finish(&self, interfaces: &impl Interfaces, report: &mut impl FnMut(Report)) {
        if !self.has_events() {
            return;
        }
        let closing = Transition::close(native::RTT_REASON_END, self.now);
        for entry in self.table.iter().filter(|entry| !entry.state.is_closed()) {
            report(closing.report(&entry.key, &entry.state.flow, interfaces, 0));
        }
    }

    /// Hands the traffic of all flows to an aggregator, as it does at the end of every interval.
    pub fn count_traffic(&self, aggregator: &mut Aggregator, interfaces: &impl Interfaces) {
        for (slot, entry) in self.table.iter_slots() {
            aggregator.on_flow(&entry.key, slot, &entry.state.flow, interfaces);
        }
    }
}
