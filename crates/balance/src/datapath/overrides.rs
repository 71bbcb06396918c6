//! What operators said of servers: kept in a table that no program reads, for the next process.

use fathom_measure::bytes::{bytes_of, read_prefix};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::pins::Pins;
use crate::Error;
use crate::fleet::Override;

const NAME: &str = "balance_orders";

/// By the number of the server.
pub(super) struct Overrides(MapHandle);

impl Overrides {
    /// Takes the one that is there, or makes it with so many entries.
    pub(super) fn open(pins: &Pins, servers: usize) -> Result<Self, Error> {
        open(pins, servers).map(Self)
    }

    pub(super) fn get(&self, number: u16) -> Result<Override, Error> {
        let bytes = self
            .0
            .lookup(&u32::from(number).to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(|error| Error::kernel("read what operators said", error))?;
        let words = bytes.as_deref().and_then(read_prefix::<[u32; 2]>);
        let ([drained, weight], _) = words.unwrap_or_default();
        let weight = f32::from_bits(weight);
        Ok(Override {
            is_drained: drained != 0,
            weight: (weight > 0.0).then_some(weight),
        })
    }

    pub(super) fn set(&self, number: u16, value: Override) -> Result<(), Error> {
        let words = [
            u32::from(value.is_drained),
            value.weight.unwrap_or(0.0).to_bits(),
        ];
        let key = u32::from(number).to_ne_bytes();
        let put = self.0.update(&key, bytes_of(&words), MapFlags::ANY);
        put.map_err(|error| Error::kernel("write what an operator said", error))
    }
}

fn open(pins: &Pins, servers: usize) -> Result<MapHandle, Error> {
    let path = pins.map(NAME);
    let failed = |error| Error::kernel(format!("use {}", path.display()), error);
    if path.exists() {
        return MapHandle::from_pinned_path(&path).map_err(failed);
    }
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..libbpf_sys::bpf_map_create_opts::default()
    };
    let entries = servers as u32;
    let mut map =
        MapHandle::create(MapType::Array, Some(NAME), 4, 8, entries, &options).map_err(failed)?;
    map.pin(&path).map_err(failed)?;
    Ok(map)
}
