//! A BPF object with a ring of events and a table of counters: loaded, and read.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::rc::Rc;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramMut, RingBuffer,
    RingBufferBuilder,
};

use crate::Error;
use crate::live::{fill, quiet_libbpf, refused};

/// Loaded programs; those that are attached stay so until this is dropped.
pub(super) struct Programs {
    // Dropped in this order: first nothing runs any more, then nothing is read, then the maps go.
    pub(super) links: Vec<Link>,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<u8>>>,
    object: Object,
}

impl Programs {
    /// Loads `object`, whose constants are set by their section's name, and opens the ring called `ring`.
    pub(super) fn load(
        object: &'static [u8],
        constants: &[(&str, &[u8])],
        ring: &str,
    ) -> Result<Self, Error> {
        quiet_libbpf();
        let mut object = ObjectBuilder::default()
            .open_memory(object)
            .map_err(|error| Error::kernel("open the BPF object", error))?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((_, bytes)) = constants.iter().find(|(section, _)| *section == name) {
                fill(&mut map, bytes).ok_or_else(|| missing(&name))?;
            }
        }
        let object = object.load().map_err(|error| refused(&error))?;
        let inbox = Rc::new(RefCell::new(Vec::new()));
        Ok(Self {
            links: Vec::new(),
            ring: open_ring(&map(&object, ring)?, &inbox)?,
            inbox,
            object,
        })
    }

    pub(super) fn program(&self, name: &str) -> Result<ProgramMut<'_>, Error> {
        self.object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| missing(name))
    }

    /// Hands on what the ring holds, one event behind the other.
    pub(super) fn read(&mut self, take: impl FnOnce(&[u8])) -> Result<(), Error> {
        self.ring
            .consume()
            .map_err(|error| Error::kernel("read the events of names from the kernel", error))?;
        let mut inbox = self.inbox.borrow_mut();
        take(&inbox);
        inbox.clear();
        Ok(())
    }

    /// A counter of the table called `counters`, summed over all CPUs.
    pub(super) fn counter(&self, counters: &str, index: u32) -> Result<u64, Error> {
        let values = map(&self.object, counters)?
            .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::kernel("read the counters of names", error))?
            .unwrap_or_default();
        Ok(values
            .iter()
            .filter_map(|value| Some(u64::from_ne_bytes(*value.first_chunk()?)))
            .sum())
    }
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| missing(name))?;
    MapHandle::try_from(&map).map_err(|error| Error::kernel(format!("use the map {name}"), error))
}

fn open_ring(map: &MapHandle, inbox: &Rc<RefCell<Vec<u8>>>) -> Result<RingBuffer<'static>, Error> {
    let failed = |error| Error::kernel("open the ring of events of names", error);
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(map, move |event| {
            inbox.borrow_mut().extend_from_slice(event);
            0
        })
        .map_err(failed)?;
    builder.build().map_err(failed)
}

fn missing(name: &str) -> Error {
    let source = std::io::Error::other("the object that was built into this program lacks it");
    Error::kernel(format!("find {name}"), source)
}
