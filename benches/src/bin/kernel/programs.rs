//! The programs, loaded, and run over a packet many times.

use std::ffi::OsStr;

use anyhow::{Context, anyhow};
use fathom_measure::rtt::{Method, Settings};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput};

use crate::scenario::Step;
use crate::shared::{bytes_of, rtt_config, rtt_flow, rtt_pending};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.bpf.o"));

/// What the reference returns when the flow was in the table: `TC_ACT_OK` of `linux/pkt_cls.h`.
const FOUND: u32 = 0;

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Only moves the packet on.
    Empty,
    /// Reads the clock.
    Clock,
    /// Parses, and looks one entry up.
    Reference,
    /// What is attached to `ingress` of an Ethernet device.
    Production,
}

impl Contender {
    fn program(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Clock => "clock",
            Self::Reference => "reference",
            Self::Production => "production",
        }
    }
}

/// How a run went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Mean time of a packet, to a nanosecond.
    pub(crate) packet_ns: f64,
    returned: u32,
}

impl Run {
    /// Whether the reference found the flow of the last packet.
    pub(crate) fn has_flow(self) -> bool {
        self.returned == FOUND
    }
}

/// The loaded programs, whose maps are empty at first.
pub(crate) struct Programs(Object);

impl Programs {
    /// Loads them as the library does for these settings.
    pub(crate) fn load(settings: &Settings) -> anyhow::Result<Self> {
        let mut object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .context("open the BPF object")?;
        configure(&mut object, settings)?;
        Ok(Self(object.load().context("load the BPF programs")?))
    }

    /// Sets what moves on in the packet before each repetition.
    pub(crate) fn set_steps(&self, steps: &[Step; 2]) -> anyhow::Result<()> {
        let map = self
            .0
            .maps()
            .find(|map| map.name() == OsStr::new(".data.steps"))
            .context("the object has no steps")?;
        let bytes: Vec<u8> = steps
            .iter()
            .flat_map(|step| [step.offset as u32, step.by])
            .flat_map(u32::to_ne_bytes)
            .collect();
        map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .context("set the steps")
    }

    /// Runs a program over `packets` copies of a frame that each move on.
    pub(crate) fn run(
        &self,
        contender: Contender,
        frame: &[u8],
        packets: u32,
    ) -> anyhow::Result<Run> {
        let name = contender.program();
        let program = self
            .0
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| anyhow!("the object has no program {name}"))?;
        let input = ProgramInput {
            data_in: Some(frame),
            repeat: packets,
            ..ProgramInput::default()
        };
        let output = program
            .test_run(input)
            .with_context(|| format!("run {name}"))?;
        Ok(Run {
            packet_ns: output.duration.as_nanos() as f64,
            returned: output.return_value,
        })
    }
}

fn configure(object: &mut OpenObject, settings: &Settings) -> anyhow::Result<()> {
    let slots_bytes = settings.slots as usize * 2 * size_of::<rtt_pending>();
    let flow_bytes = (size_of::<rtt_flow>() + slots_bytes) as u32;
    let buckets = object
        .maps()
        .find(|map| map.name() == OsStr::new("rtt_requests"))
        .context("the object has no requests")?
        .max_entries();
    let config = rtt_config {
        sample_interval: settings.sample_interval.as_nanos() as u64,
        expiry: Settings::EXPIRY.as_nanos() as u64,
        seed: 0x0123_4567_89ab_cdef,
        per_rtt: settings.per_rtt,
        methods: (1 << Method::ALL.len()) - 1,
        slots: settings.slots,
        bucket_mask: buckets - 1,
        has_near_side: settings.has_near_side.into(),
        has_tunnels: settings.has_tunnels.into(),
        has_events: settings.has_events.into(),
        ..rtt_config::default()
    };
    for mut map in object.maps_mut() {
        match map.name().to_str().unwrap_or_default() {
            "rtt_flows" => {
                map.set_value_size(flow_bytes)?;
                map.set_max_entries(settings.flows)?;
            }
            "rtt_empty_flow" => map.set_value_size(flow_bytes)?,
            ".rodata.rtt_config" => {
                let bytes = bytes_of(&config);
                map.initial_value_mut()
                    .and_then(|value| value.get_mut(..bytes.len()))
                    .context("the object has no configuration")?
                    .copy_from_slice(bytes);
            }
            _ => {}
        }
    }
    Ok(())
}
