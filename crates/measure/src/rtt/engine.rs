//! The measurement over frames that are handed to it: what the BPF program does in the kernel, with tables of its own.

use super::event::{Interfaces, Report, decode, traffic_of};
use super::table::{Departure, Entry, Table};
use super::{Aggregator, Settings};
use crate::native::{
    self, Frame, packet, rtt_bucket, rtt_config, rtt_event, rtt_output, selection,
};
use crate::{Counts, Error};

/// Request buckets, of four requests each: 1 MiB.
const BUCKETS: u32 = 16_384;

/// Measures frame by frame; time is what the frames bring.
pub struct Engine {
    table: Table,
    buckets: Vec<rtt_bucket>,
    config: rtt_config,
    selection: selection,
    counts: Counts,
    packet: packet,
    now: u64,
}

impl Engine {
    /// Nothing seen yet. `seed` makes the hash tables unpredictable; it changes no sample.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the selection is too long.
    pub fn new(settings: &Settings, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            table: Table::new(settings.flows as usize, settings.slots as usize),
            buckets: vec![rtt_bucket::default(); BUCKETS as usize],
            config: settings.to_native(seed, BUCKETS),
            selection: settings.selection.to_native()?,
            counts: Counts::default(),
            packet: packet::default(),
            now: 0,
        })
    }

    /// What was counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a frame in, seen at `now` nanoseconds since 1970; `report` gets what comes of it.
    pub(crate) fn on_frame(
        &mut self,
        now: u64,
        frame: &Frame<'_>,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        let verdict = native::parse(frame, self.config.has_tunnels != 0, &mut self.packet);
        self.counts.verdicts[verdict as usize] += 1;
        if verdict != native::PACKET_MEASURABLE {
            return;
        }
        if !native::admits(&self.selection, &self.packet.key) {
            self.count(native::RTT_COUNT_FILTERED, 1);
            return;
        }
        self.now = now;
        self.measure(interfaces, report);
    }

    fn count(&mut self, counter: u32, by: u64) {
        self.counts.counters[counter as usize] += by;
    }

    fn measure(&mut self, interfaces: &impl Interfaces, report: &mut impl FnMut(Report)) {
        let mut output = rtt_output::default();
        let hash = native::hash(&self.packet.key, self.config.seed);
        let place = if native::uses_flow(&self.packet) {
            self.table.locate(&self.packet.key, hash)
        } else {
            None
        };
        let bucket = if native::uses_bucket(&self.packet, place.is_some(), &self.config) {
            let hash = native::bucket_hash(&self.packet, self.config.seed);
            let index = hash as u32 & self.config.bucket_mask;
            Some((&mut self.buckets[index as usize], hash))
        } else {
            None
        };
        let state = place.map(|place| self.table.touch(place, self.packet.direction).state());
        native::on_packet(
            state,
            bucket,
            &self.packet,
            self.now,
            &self.config,
            &mut output,
        );
        self.act(hash, output, interfaces, report);
    }

    fn act(
        &mut self,
        hash: u64,
        mut output: rtt_output,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        if output.actions & native::RTT_ACTION_FORGET != 0 {
            self.forget(hash, interfaces, report);
        }
        if output.actions & native::RTT_ACTION_OPEN != 0 {
            self.open(hash, &mut output, interfaces, report);
        }
        for sample in &output.samples[..output.sample_count as usize] {
            let event = rtt_event {
                key: self.packet.key,
                time: self.now,
                sample: *sample,
                ..rtt_event::default()
            };
            report(decode(&event, None, interfaces, 0));
        }
        self.count(native::RTT_COUNT_SAMPLES, output.sample_count.into());
        self.count(native::RTT_COUNT_PENDING_EXPIRED, output.expired.into());
        self.count(
            native::RTT_COUNT_REQUESTS_DISPLACED,
            output.displaced.into(),
        );
        if self.config.has_events != 0 && output.actions & native::RTT_ACTION_CLOSED != 0 {
            if let Some(place) = self.table.locate(&self.packet.key, hash) {
                let (type_, direction) = (native::RTT_EVENT_CLOSE, self.packet.direction);
                let entry = self.table.entry(place);
                report(flow_report(
                    entry,
                    type_,
                    output.reason,
                    direction,
                    self.now,
                    interfaces,
                ));
            }
        }
    }

    /// Another connection was on these addresses and ports before.
    fn forget(&mut self, hash: u64, interfaces: &impl Interfaces, report: &mut impl FnMut(Report)) {
        let Some(place) = self.table.locate(&self.packet.key, hash) else {
            return;
        };
        let entry = self.table.entry(place);
        if self.config.has_events != 0 && !entry.is_closed() {
            let (type_, why) = (native::RTT_EVENT_CLOSE, native::RTT_REASON_REPLACED);
            report(flow_report(entry, type_, why, 0, self.now, interfaces));
        }
        self.table.remove(place);
        self.count(native::RTT_COUNT_FLOWS_DELETED, 1);
    }

    fn open(
        &mut self,
        hash: u64,
        output: &mut rtt_output,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Report),
    ) {
        let (has_events, now) = (self.config.has_events != 0, self.now);
        let (mut over, mut evicted) = (0, 0);
        let entry = self.table.insert(self.packet.key, hash, now, |entry, why| {
            let reason = match why {
                Departure::Over => native::RTT_REASON_TIMEOUT,
                Departure::Evicted => native::RTT_REASON_EVICTED,
            };
            over += u64::from(why == Departure::Over);
            evicted += u64::from(why == Departure::Evicted);
            if has_events && !entry.is_closed() {
                report(flow_report(
                    entry,
                    native::RTT_EVENT_CLOSE,
                    reason,
                    0,
                    now,
                    interfaces,
                ));
            }
        });
        native::open(&mut entry.state(), &self.packet, now, &self.config, output);
        if has_events {
            let (type_, direction) = (native::RTT_EVENT_OPEN, self.packet.direction);
            report(flow_report(
                entry,
                type_,
                output.reason,
                direction,
                now,
                interfaces,
            ));
        }
        self.count(native::RTT_COUNT_FLOWS_OPENED, 1);
        self.count(native::RTT_COUNT_FLOWS_DELETED, over);
        self.counts.evicted += evicted;
    }

    /// The end of the input: flows that are still open close.
    pub(crate) fn finish(&self, interfaces: &impl Interfaces, report: &mut impl FnMut(Report)) {
        if self.config.has_events == 0 {
            return;
        }
        for entry in self.table.iter().filter(|entry| !entry.is_closed()) {
            let (type_, why) = (native::RTT_EVENT_CLOSE, native::RTT_REASON_END);
            report(flow_report(entry, type_, why, 0, self.now, interfaces));
        }
    }

    /// Hands the traffic of all flows to an aggregator, as it does at the end of every interval.
    pub(crate) fn count_traffic(&self, aggregator: &mut Aggregator, interfaces: &impl Interfaces) {
        for entry in self.table.iter() {
            aggregator.on_flow(&entry.key, &entry.flow, interfaces);
        }
    }
}

fn flow_report(
    entry: &Entry,
    type_: u32,
    reason: u32,
    direction: u8,
    now: u64,
    interfaces: &impl Interfaces,
) -> Report {
    let mut event = rtt_event {
        key: entry.key,
        time: now,
        type_: type_ as u8,
        reason: reason as u8,
        ..rtt_event::default()
    };
    event.sample.direction = direction;
    let traffic = [
        traffic_of(&entry.flow.half[0]),
        traffic_of(&entry.flow.half[1]),
    ];
    decode(&event, Some(&traffic), interfaces, 0)
}
