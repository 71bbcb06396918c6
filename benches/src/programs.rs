//! BPF programs, loaded, and run over a packet many times.

use std::ffi::OsStr;

use anyhow::{Context, anyhow};
use libbpf_rs::{Map, MapCore, MapFlags, Object, OpenObject, ProgramInput, ProgramMut};

/// A big-endian number of the packet that grows before each repetition (`steps.bpf.h`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    /// Of its first byte in the frame; 0: none.
    pub offset: usize,
    /// How much it grows by.
    pub by: u32,
}

impl Step {
    /// Moves a frame on by so many repetitions.
    pub fn take(self, frame: &mut [u8], repetitions: u32) {
        if self.offset == 0 {
            return;
        }
        let field = &mut frame[self.offset..self.offset + 4];
        let number = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
        let moved = number.wrapping_add(self.by.wrapping_mul(repetitions));
        field.copy_from_slice(&moved.to_be_bytes());
    }
}

/// How a run went.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Mean time of a packet, to a nanosecond.
    pub packet_ns: f64,
    /// What the program returned for the last one.
    pub returned: u32,
}

/// The loaded programs, whose maps are empty at first.
#[derive(Debug)]
pub struct Programs(Object);

impl Programs {
    /// Loads an object that is ready for it.
    pub fn load(object: OpenObject) -> anyhow::Result<Self> {
        Ok(Self(object.load().context("load the BPF programs")?))
    }

    /// One of them.
    pub fn program(&self, name: &str) -> anyhow::Result<ProgramMut<'_>> {
        self.0
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| anyhow!("the object has no program {name}"))
    }

    /// One of their maps.
    pub fn map(&self, name: &str) -> anyhow::Result<Map<'_>> {
        let map = self.0.maps().find(|map| map.name() == OsStr::new(name));
        map.with_context(|| format!("the object has no map {name}"))
    }

    /// Sets what moves on in the packet before each repetition.
    pub fn set_steps(&self, steps: [Step; 2]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = steps
            .iter()
            .flat_map(|step| [step.offset as u32, step.by])
            .flat_map(u32::to_ne_bytes)
            .collect();
        self.map(".data.steps")?
            .update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .context("set the steps")
    }

    /// Runs a program over so many packets, which start as this frame and move on.
    pub fn run(&self, name: &str, frame: &[u8], packets: u32) -> anyhow::Result<Run> {
        let input = ProgramInput {
            data_in: Some(frame),
            repeat: packets,
            ..ProgramInput::default()
        };
        let output = self.program(name)?.test_run(input);
        let output = output.with_context(|| format!("run {name}"))?;
        Ok(Run {
            packet_ns: output.duration.as_nanos() as f64,
            returned: output.return_value,
        })
    }
}

/// Sets what the programs take for constant, before they are loaded.
pub fn set_constant(object: &mut OpenObject, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == OsStr::new(name))
        .with_context(|| format!("the object has no {name}"))?;
    map.initial_value_mut()
        .and_then(|value| value.get_mut(..bytes.len()))
        .with_context(|| format!("{name} has no room"))?
        .copy_from_slice(bytes);
    Ok(())
}
