//! The BPF path: the programs that are attached, run by the kernel over the same frames, with the
//! same clock.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;
use std::time::Duration;

use fathom_measure::Portion;
use fathom_measure::bytes::{bytes_of, read_prefix};
use fathom_measure::kernel::set_constants;
use fathom_measure::rtt::{Method, SampleBytes, Samples, Settings};
use fathom_record::{FlowKey, Protocol};
use libbpf_rs::{MapCore, MapFlags};

use crate::frame::Frame;
use crate::native::{SEED, START_NS};
use crate::outcome::{Change, Outcome, Place, Run, Sample, Traffic};
use crate::shared::{
    self, flow_address, flow_key, rtt_batch, rtt_batch_event, rtt_batches, rtt_bucket, rtt_config,
    rtt_event, rtt_flow, rtt_flow_event, rtt_half, rtt_pending, rtt_traffic,
};
use crate::test_run::{TestRun, set_entries};

/// As many as the native path has, so that requests displace each other alike.
const BUCKETS: u32 = 16_384;
/// The clock of frames that are only tried.
const NO_TIME: u64 = 1;
/// Frames of this size are always taken for a test run; shorter ones if their link and IP headers
/// are whole.
const SAFE_SIZE: usize = 64;

/// A program, loaded for one set of settings.
pub(crate) struct Kernel {
    run: TestRun,
    has_events: bool,
    pending_entries: usize,
}

/// Programs by their settings: the verifier takes longer than most vectors.
#[derive(Default)]
pub(crate) struct Kernels(HashMap<(&'static str, String), Kernel>);

impl Kernels {
    /// The program with these settings.
    pub(crate) fn with(
        &mut self,
        program: &'static str,
        settings: &Settings,
        methods: &[Method],
    ) -> &mut Kernel {
        let key = (program, format!("{settings:?}"));
        self.0
            .entry(key)
            .or_insert_with(|| Kernel::load(&[program], settings, methods))
    }
}

impl Kernel {
    /// Loads programs that share their maps.
    pub(crate) fn load(programs: &[&'static str], settings: &Settings, methods: &[Method]) -> Self {
        let run = TestRun::load(programs, settings, "rtt_events", |object| {
            set_entries(object, "rtt_requests", BUCKETS);
            let config = config(settings, methods);
            set_constants(object, &[(".rodata.rtt_config", bytes_of(&config))])
        });
        Self {
            run,
            has_events: settings.has_events,
            pending_entries: settings.pending_entries(),
        }
    }

    /// From now on flows pause so long between samples, at least.
    pub(crate) fn pause_for(&self, pause: Duration) {
        let ns = (pause.as_nanos() as u64).to_ne_bytes();
        let map = self.run.map(".data.rtt_shortest_pause");
        map.update(&0u32.to_ne_bytes(), &ns, MapFlags::ANY).unwrap();
    }

    /// Would the kernel run the program over this frame? It refuses some that are cut off very
    /// early.
    pub(crate) fn takes(&self, frame: &Frame) -> bool {
        frame.data.len() >= SAFE_SIZE || self.run.run(NO_TIME, &frame.data).is_ok()
    }

    /// Runs the program over the frames, with nothing seen before.
    pub(crate) fn run(&mut self, frames: &[(u64, Frame)]) -> Run {
        self.run_each(frames, |run, now_ns, frame| run.run(now_ns, &frame.data))
    }

    /// Runs the programs over the frames by `run`, with nothing seen before.
    pub(crate) fn run_each(
        &mut self,
        frames: &[(u64, Frame)],
        mut run: impl FnMut(&TestRun, u64, &Frame) -> Result<(), libbpf_rs::Error>,
    ) -> Run {
        self.forget();
        for (time_ns, frame) in frames {
            run(&self.run, START_NS + time_ns, frame).unwrap_or_else(|error| {
                panic!(
                    "the kernel does not run {} over the frame at {time_ns} ns: {error}",
                    self.run.program()
                )
            });
        }
        let mut run = Run::default();
        for event in self.run.told() {
            run.outcomes.push(decode(&event));
        }
        let flows = self.flows();
        if self.has_events {
            run.outcomes
                .extend(flows.iter().filter_map(|(key, flow)| ended(key, flow)));
        }
        run.sort_end();
        run.counts = self.counts(flows.len() as u64);
        run
    }

    /// Runs the program over the frames, where samples come in batches: the samples, and how many
    /// batches came full.
    pub(crate) fn run_in_batches(
        &mut self,
        frames: &[(u64, Frame)],
    ) -> (Vec<(FlowKey, u64)>, usize) {
        self.forget();
        self.forget_states();
        for (time_ns, frame) in frames {
            self.run.run(START_NS + time_ns, &frame.data).unwrap();
        }
        let (mut samples, mut full) = (Vec::new(), 0);
        for event in self.run.told() {
            let batch: rtt_event = read(&event);
            let direction = batch.sample.direction;
            match u32::from(batch.type_) {
                shared::RTT_EVENT_SAMPLE => {
                    samples.push((flow_of(&batch.key, direction), batch.sample.rtt));
                }
                shared::RTT_EVENT_BATCH => {
                    let rtt_batch_event { event, batch } = read(&event);
                    let own = samples_of(&event.key, direction, &batch);
                    full += usize::from(own.len() == batch.samples.len());
                    samples.extend(own);
                }
                _ => {}
            }
        }
        let offset = size_of::<rtt_flow>() + self.pending_entries * size_of::<rtt_pending>();
        let visit = |_: &[u8], _, state: &[u8]| {
            let batches: rtt_batches = read(&state[offset..]);
            for (direction, batch) in (0..).zip(&batches.half) {
                samples.extend(samples_of(&batches.key, direction, batch));
            }
        };
        self.run
            .flows()
            .for_each(Portion::ALL, visit, || Ok(()))
            .unwrap();
        (samples, full)
    }

    /// Empties what is kept of flows, also of those that are gone: their batches would come yet.
    fn forget_states(&self) {
        let states = self.run.map("rtt_flows");
        let count = states.max_entries();
        let numbers: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
        let size = states.value_size().next_multiple_of(8) as usize;
        let empty = vec![0; count as usize * size];
        states
            .update_batch(&numbers, &empty, count, MapFlags::ANY, MapFlags::ANY)
            .unwrap();
    }

    /// Empties all maps.
    fn forget(&self) {
        self.run.told();
        self.run.forget_flows();
        let numbers: Vec<u8> = (0..BUCKETS).flat_map(u32::to_ne_bytes).collect();
        let empty = vec![0; BUCKETS as usize * size_of::<rtt_bucket>()];
        self.run
            .map("rtt_requests")
            .update_batch(&numbers, &empty, BUCKETS, MapFlags::ANY, MapFlags::ANY)
            .unwrap();
        self.run.forget_counters();
    }

    fn flows(&self) -> Vec<(flow_key, rtt_flow)> {
        let mut flows = Vec::new();
        let visit = |key: &[u8], _, flow: &[u8]| flows.push((read(key), read(flow)));
        let table = self.run.flows();
        table.for_each(Portion::ALL, visit, || Ok(())).unwrap();
        flows
    }

    /// The counts as the library gives them: no zeros, measurable packets only in the sum.
    fn counts(&self, present: u64) -> BTreeMap<&'static str, u64> {
        let mut sums = vec![0; (shared::PACKET_VERDICT_COUNT + shared::RTT_COUNTER_COUNT) as usize];
        self.run.add_counters(&mut sums);
        let (verdicts, counters) = sums.split_at(shared::PACKET_VERDICT_COUNT as usize);
        let opened = counters[shared::RTT_COUNT_FLOWS_OPENED as usize];
        let deleted = counters[shared::RTT_COUNT_FLOWS_DELETED as usize];
        let verdict_names = shared::verdict_names()
            .zip(verdicts.iter().copied())
            .skip(1);
        let samples = counters[shared::RTT_COUNT_SAMPLES as usize];
        let mut counts: BTreeMap<_, _> = verdict_names
            .chain(shared::counter_names().zip(counters.iter().copied()))
            .chain([("flows evicted: table full", opened - deleted - present)])
            .filter(|&(_, count)| count != 0)
            .collect();
        counts.insert("frames", verdicts.iter().sum());
        counts.insert("samples", samples);
        counts
    }
}

fn config(settings: &Settings, methods: &[Method]) -> rtt_config {
    rtt_config {
        sample_interval: settings.sample_interval.as_nanos() as u64,
        expiry: Settings::EXPIRY.as_nanos() as u64,
        seed: SEED,
        per_rtt: settings.per_rtt,
        methods: methods
            .iter()
            .fold(0, |bits, method| bits | 1 << *method as u32),
        slots: settings.slots,
        bucket_mask: BUCKETS - 1,
        has_near_side: settings.has_near_side.into(),
        has_tunnels: settings.scope.has_tunnels.into(),
        has_events: settings.has_events.into(),
        has_bytes: (settings.samples == Samples::WithBytes).into(),
        has_batches: (settings.samples == Samples::InBatches).into(),
        ..rtt_config::default()
    }
}

fn decode(bytes: &[u8]) -> Outcome {
    let event: rtt_event = read(bytes);
    let time_ns = event.time.wrapping_sub(START_NS);
    let place = place_of(&event.key);
    let flow = flow_of(&event.key, event.sample.direction);
    if u32::from(event.type_) == shared::RTT_EVENT_SAMPLE {
        let has = |flag: u32| u32::from(event.sample.flags) & flag != 0;
        return Outcome::Sample(Sample {
            time_ns,
            method: Method::ALL[usize::from(event.sample.method)],
            flow,
            rtt_ns: event.sample.rtt,
            minimum_ns: (event.sample.minimum != 0).then_some(event.sample.minimum),
            is_retransmitted: has(shared::RTT_SAMPLE_RETRANSMITTED),
            is_loop: has(shared::RTT_SAMPLE_IS_LOOP),
            place,
            bytes: (event.sample.sent != 0).then_some(SampleBytes {
                sent: event.sample.sent,
                answered: event.sample.answered,
                returned: event.sample.returned,
            }),
        });
    }
    let event: rtt_flow_event = read(bytes);
    let mut traffic = event.traffic.map(traffic);
    if event.event.sample.direction == 1 {
        traffic.reverse();
    }
    Outcome::Flow(Change {
        time_ns,
        flow,
        is_open: u32::from(event.event.type_) == shared::RTT_EVENT_OPEN,
        reason: shared::reason(event.event.reason),
        traffic: Some(traffic),
        place,
    })
}

fn samples_of(
    key: &flow_key,
    direction: u8,
    batch: &rtt_batch,
) -> impl ExactSizeIterator<Item = (FlowKey, u64)> {
    let count = batch.count & shared::RTT_BATCH_MASK;
    let flow = flow_of(key, direction);
    let (samples, count) = (batch.samples, count as usize);
    (0..count).map(move |at| (flow, samples[at].into()))
}

/// A flow that is still there when the frames end.
fn ended(key: &flow_key, flow: &rtt_flow) -> Option<Outcome> {
    if u32::from(flow.flags) & shared::RTT_FLOW_IS_CLOSED != 0 {
        return None;
    }
    let mut traffic = [&flow.half[0], &flow.half[1]].map(traffic_of);
    if flow.opener == 1 {
        traffic.reverse();
    }
    let ended = Change {
        time_ns: 0,
        flow: flow_of(key, flow.opener),
        is_open: false,
        reason: "end of measurement",
        traffic: Some(traffic),
        place: place_of(key),
    };
    Some(Outcome::Flow(ended.settled()))
}

fn traffic(traffic: rtt_traffic) -> Traffic {
    Traffic {
        packets: traffic.packets,
        bytes: traffic.bytes,
        retransmitted: traffic.retransmitted,
        out_of_order: traffic.out_of_order,
        congestion_experienced: traffic.congestion_experienced,
    }
}

fn traffic_of(half: &rtt_half) -> Traffic {
    Traffic {
        packets: half.packets,
        bytes: half.bytes,
        retransmitted: half.retransmitted,
        out_of_order: half.out_of_order,
        congestion_experienced: half.congestion_experienced,
    }
}

fn flow_of(key: &flow_key, direction: u8) -> FlowKey {
    let address =
        |address: &flow_address| Ipv6Addr::from(read::<[u8; 16]>(bytes_of(address))).to_canonical();
    let flow = FlowKey {
        protocol: Protocol(key.protocol() as u8),
        source: address(&key.low),
        source_port: key.low_port,
        destination: address(&key.high),
        destination_port: key.high_port,
    };
    if direction == 0 {
        flow
    } else {
        flow.reversed()
    }
}

fn place_of(key: &flow_key) -> Place {
    let (outer, inner) = (key.vlan() >> 12, key.vlan() & 0xfff);
    let tag = |tag: u32| (tag != 0).then_some(tag as u16);
    Place {
        vlan: tag(outer).or(tag(inner)),
        inner_vlan: (outer != 0).then_some(inner as u16),
        tunnel: (key.tunnel != 0).then_some(key.tunnel),
    }
}

/// A shared struct at the start of what the kernel wrote.
fn read<T: Copy>(bytes: &[u8]) -> T {
    read_prefix(bytes).unwrap().0
}
