//! The programs, loaded, and their turns.

use anyhow::ensure;
use fathom_balance::config::Config;
use fathom_balance::native::BALANCE_BUCKET_SLOTS;
use fathom_balance::sampling::sampled_buckets;
use fathom_benches::statistics::median;
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use crate::Arguments;
use crate::balancer::{Balancer, Size};
use crate::cases::{Case, Cost, Kind, Measured};
use crate::world::IPIP4;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/balance.bpf.o"));

/// `struct turn` of `balance.bpf.c`.
const FRAME_MAX: usize = 128;

/// A frame that arrives again and again, each time of another flow.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) flows: u32,
    /// Bytes put in front, and by which the end is moved; both only where that is.
    pub(crate) head: i32,
    pub(crate) tail: i32,
    /// Offsets of fields that change; 0: none.
    pub(crate) source: u32,
    pub(crate) sequence: u32,
}

/// Each packet is of its own flow.
pub(crate) const ALL_FLOWS: u32 = u32::MAX;

/// The balancer and what it is measured against.
pub(crate) struct Turns {
    pub(crate) balancer: Balancer,
    epochs: RingBuffer<'static>,
    /// Of the table.
    buckets: u32,
}

impl Turns {
    /// A table of so many places.
    pub(crate) fn load(places: u32, measured: Measured) -> Self {
        let balancer = Balancer::load(
            OBJECT,
            Size {
                buckets: places / BALANCE_BUCKET_SLOTS,
                is_measuring: measured != Measured::No,
                epochs: 1 << 25,
            },
        );
        let mut builder = RingBufferBuilder::new();
        let ring = balancer.handle("balance_epochs");
        builder.add(&ring, |_| 0).expect("it is a ring");
        Self {
            epochs: builder.build().expect("it can be mapped"),
            balancer,
            buckets: places / BALANCE_BUCKET_SLOTS,
        }
    }

    /// What reading the clock takes.
    pub(crate) fn clock(&self, arguments: &Arguments) -> anyhow::Result<f64> {
        let frame = [0; 64];
        self.set(
            &frame,
            &Turn {
                flows: 1,
                ..Turn::default()
            },
        );
        let costs = (0..arguments.rounds).map(|_| {
            let empty = self.run("empty", &frame, arguments.packets)?;
            Ok(self.run("clock", &frame, arguments.packets)? - empty)
        });
        let costs: anyhow::Result<Vec<f64>> = costs.collect();
        Ok(median(costs?))
    }

    /// What the benchmark itself takes to undo an IPv4 header in front: it is in the figures of the
    /// balancer.
    pub(crate) fn undo(&self, arguments: &Arguments) -> anyhow::Result<f64> {
        let frame = [0; 64];
        self.set(
            &frame,
            &Turn {
                flows: 1,
                ..Turn::default()
            },
        );
        let costs = (0..arguments.rounds).map(|_| {
            let empty = self.run("empty", &frame, arguments.packets)?;
            Ok((self.run("undone", &frame, arguments.packets)? - empty) / 2.0)
        });
        let costs: anyhow::Result<Vec<f64>> = costs.collect();
        Ok(median(costs?))
    }

    pub(crate) fn measure(&self, case: &Case, arguments: &Arguments) -> anyhow::Result<Cost> {
        let frame = case.packet.frame();
        let turn = case.turn(&frame);
        if matches!(case.kind, Kind::HashOnly) {
            self.balancer.settle(IPIP4);
        } else {
            self.balancer.set_ring(IPIP4);
        }
        self.set(&frame, &turn);
        // All flows are in the table, and confirmed, before it counts.
        let before = if turn.flows == ALL_FLOWS {
            1_000_000
        } else {
            turn.flows.max(10_000) * 12
        };
        self.run("production", &frame, before)?;
        if matches!(case.kind, Kind::HashOnly) {
            // What was opened just now is known.
            self.balancer.settle(IPIP4);
        }
        if case.measured == Measured::AsLoadAllows {
            self.adapt(&frame, before)?;
        }
        let mut costs = Vec::new();
        for _ in 0..arguments.rounds {
            let empty = self.run("empty", &frame, arguments.packets)?;
            let counted = self.balancer.counters();
            let production = self.run("production", &frame, arguments.packets)?;
            self.epochs.consume()?;
            let counted = self.balancer.counted_since(&counted);
            ensure!(
                case.holds(&counted, arguments.packets),
                "{}: not what was to be measured: {counted:?}",
                case.name
            );
            costs.push((empty, production - empty));
        }
        Ok(Cost {
            empty_ns: median(costs.iter().map(|cost| cost.0)),
            median_ns: median(costs.iter().map(|cost| cost.1)),
            least_ns: costs
                .iter()
                .map(|cost| cost.1)
                .fold(f64::INFINITY, f64::min),
        })
    }

    /// As many connections are measured as user space would have it, if packets came as fast as
    /// they do here.
    fn adapt(&self, frame: &[u8], packets: u32) -> anyhow::Result<()> {
        let most = u64::from(self.buckets);
        let limit = Config::default().measured_packets;
        let limit = limit.expect("by default there is one");
        let mut buckets = most;
        loop {
            self.balancer.sample(buckets);
            let counted = self.balancer.counters();
            let ns = self.run("production", frame, packets)?;
            let measured = self.balancer.counted_since(&counted);
            let measured = measured.get("packets measured").copied().unwrap_or(0);
            let rate = measured as f64 / f64::from(packets) * 1e9 / ns;
            match sampled_buckets(buckets, most, rate, limit.into()) {
                next if next < buckets => buckets = next,
                _ => return Ok(()),
            }
        }
    }

    /// Nanoseconds a packet.
    pub(crate) fn run(&self, program: &str, frame: &[u8], packets: u32) -> anyhow::Result<f64> {
        let run = self.balancer.run(program, frame, packets);
        ensure!(run.verdict != 0, "{program} gave up");
        Ok(run.duration.as_nanos() as f64)
    }

    /// Sets what arrives.
    pub(crate) fn set(&self, frame: &[u8], turn: &Turn) {
        let mut bytes = vec![0; 8];
        bytes.extend(turn.flows.to_ne_bytes());
        bytes.extend((frame.len() as u32).to_ne_bytes());
        bytes.extend(turn.head.to_ne_bytes());
        bytes.extend(turn.tail.to_ne_bytes());
        bytes.extend(turn.source.to_ne_bytes());
        bytes.extend(turn.sequence.to_ne_bytes());
        let shown = &frame[..frame.len().min(FRAME_MAX)];
        bytes.extend(shown);
        bytes.resize(32 + FRAME_MAX, 0);
        self.balancer
            .put(".data.turn", &0_u32.to_ne_bytes(), &bytes);
    }
}
