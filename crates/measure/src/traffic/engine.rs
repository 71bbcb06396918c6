//! The measurement over frames that are handed to it: what the BPF program does in the kernel, with
//! a table of its own.

use std::time::Duration;

use fathom_record::Time;

use super::counts::{TrafficCounts, named};
use super::increase::{Increase, TrafficInterval, counts_of, since};
use super::{Settings, TrafficRecord};
use crate::native::{PACKET_MEASURABLE, selection};
use crate::replay::{Dissected, Dissector, Interfaces, Offline};
use crate::table::{Entry, RemovalReason, State, Table};
use crate::traffic::native::{self, traffic_config, traffic_counts, traffic_flow};
use crate::{CaptureInterval, CaptureIntervals, Counts, Error};

/// A flow without packets for this many nanoseconds is over.
pub(super) const IDLE_NS: u64 = 300_000_000_000;

/// What is kept of a flow.
#[derive(Default)]
struct Flow {
    halves: traffic_flow,
    /// What had been told by the end of the last interval in which it had packets.
    told: [traffic_counts; 2],
    /// When its last packet was captured.
    last: u64,
}

impl State for Flow {
    fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.last) > IDLE_NS
    }
}

/// What an entry has carried since the last interval, which is told now.
fn take(entry: &mut Entry<Flow>) -> Increase {
    let counts = counts_of(&entry.state.halves);
    let told = std::mem::replace(&mut entry.state.told, counts);
    Increase {
        key: entry.key,
        counts: since(&counts, &told),
        opener: entry.state.halves.opener,
    }
}

/// Measures packet by packet; time is what the packets bring.
pub struct Engine {
    table: Table<Flow>,
    config: traffic_config,
    /// `None`: everything is selected.
    selection: Option<selection>,
    counts: TrafficCounts,
    intervals: CaptureIntervals,
    /// Places of flows with packets in it.
    busy: Vec<u32>,
    /// What flows had carried in it that have left the table since.
    departed: Vec<Increase>,
    /// Of the last packet, in nanoseconds since 1970.
    now: u64,
}

impl Engine {
    /// Nothing seen yet. Intervals end at multiples of their length. `seed` makes the hash
    /// table unpredictable.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the selection is too long.
    pub fn new(settings: &Settings, interval: Duration, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            table: Table::new(settings.scope.flows as usize),
            config: settings.to_native(seed),
            selection: settings.scope.selection.to_native_unless_empty()?,
            counts: TrafficCounts::default(),
            intervals: CaptureIntervals::new(interval),
            busy: Vec::new(),
            departed: Vec::new(),
            now: 0,
        })
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        named(&self.counts)
    }

    /// When the last packet was captured that was measured; 1970 before the first.
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    /// Ends the intervals that are over. Times may go back a little: such packets are in the
    /// interval that has begun.
    fn advance(
        &mut self,
        now: u64,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(TrafficRecord),
    ) {
        if let Some(over) = self.intervals.advance(Time(now)) {
            self.end_interval(over, interfaces, report);
        }
        self.now = self.now.max(now);
    }

    fn end_interval(
        &mut self,
        over: CaptureInterval,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(TrafficRecord),
    ) {
        let mut increases = std::mem::take(&mut self.departed);
        for place in self.busy.drain(..) {
            increases.push(take(self.table.entry(place)));
        }
        // A place may be listed for a flow that has left it, too.
        increases.retain(Increase::is_something);
        for record in TrafficInterval::new(increases, over.end, over.length, interfaces) {
            self.counts.counters[native::TRAFFIC_COUNT_RECORDS as usize] += 1;
            report(record);
        }
    }

    /// Where the flow of a packet is, which begins if it is not there.
    fn place(&mut self, packet: &Dissected) -> u32 {
        let Dissected { time, reading } = packet;
        if let Some(place) = self.table.locate(&reading.packet.key, reading.hash) {
            return place;
        }
        let flow = Flow {
            halves: traffic_flow::open(&reading.packet),
            last: *time,
            ..Flow::default()
        };
        let (counts, departed) = (&mut self.counts, &mut self.departed);
        counts.counters[native::TRAFFIC_COUNT_FLOWS_OPENED as usize] += 1;
        let depart = |entry: &mut Entry<Flow>, why| {
            departed.push(take(entry));
            match why {
                RemovalReason::Over => {
                    counts.counters[native::TRAFFIC_COUNT_FLOWS_DELETED as usize] += 1;
                }
                RemovalReason::Evicted => counts.evicted += 1,
            }
        };
        let key = reading.packet.key;
        self.table.insert(key, reading.hash, flow, *time, depart)
    }

    /// The end of the input: the interval that is under way is over. Its length is that of what
    /// came of it.
    pub fn finish(&mut self, interfaces: &impl Interfaces, report: &mut impl FnMut(TrafficRecord)) {
        if let Some(over) = self.intervals.finish(Time(self.now)) {
            self.end_interval(over, interfaces, report);
        }
    }
}

impl Offline for Engine {
    type Report = TrafficRecord;

    fn dissector(&self) -> Dissector {
        let (config, selection) = (self.config, self.selection);
        Dissector::new(move |frame| native::read(frame, selection.as_ref(), &config))
    }

    fn on_packet(
        &mut self,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(TrafficRecord),
    ) {
        let Dissected { time, reading } = packet;
        self.counts.verdicts[reading.verdict as usize] += 1;
        if reading.verdict != PACKET_MEASURABLE {
            return;
        }
        if reading.is_selected == 0 {
            self.counts.counters[native::TRAFFIC_COUNT_FILTERED as usize] += 1;
            return;
        }
        self.advance(*time, interfaces, report);
        let place = self.place(packet);
        let state = &mut self.table.touch(place).state;
        if counts_of(&state.halves) == state.told {
            self.busy.push(place);
        }
        state.last = state.last.max(*time);
        state
            .halves
            .on_packet(&reading.packet, *time, &mut self.counts.counters);
    }
}
