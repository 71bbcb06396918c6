//! A BPF object: loaded, its events read, and what it counts.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use libbpf_rs::{AsRawLibbpf, MapHandle, Object, OpenObject, ProgramMut};
use libbpf_sys as sys;

use super::counters::{OwnCounters, add_counters, of_each_cpu};
use super::flow_table::{FlowTable, Slot};
use super::load::{self, find_map};
use super::ring::Ring;
use crate::bytes::read_prefix;
use crate::native::flow_key;
use crate::{Error, Portion};

/// Loaded programs. What is attached of them is to be dropped before them.
pub(crate) struct Programs {
    // Dropped in this order: nothing is read any more, then the maps go.
    /// `None`: what it measures is in its tables alone.
    ring: Option<Arc<Ring>>,
    object: Rc<Object>,
}

impl Programs {
    /// Opens `object`, has it prepared, loads it, and opens the ring called `ring`, if it has one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges do not allow it, [`Error::Kernel`] when the kernel
    /// refuses.
    pub(crate) fn load<'a>(
        object: &[u8],
        ring: impl Into<Option<&'a str>>,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let object = Rc::new(load::load(object, prepare)?);
        Self { ring: None, object }.with_ring(ring.into())
    }

    /// The same, with another ring, or none.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is no such ring.
    pub(crate) fn with_ring(&self, ring: Option<&str>) -> Result<Self, Error> {
        let object = Rc::clone(&self.object);
        let ring = ring.map(|ring| Ring::open(&find_map(&object, ring)?));
        let ring = ring.transpose()?.map(Arc::new);
        Ok(Self { ring, object })
    }

    /// The ring, to be emptied by another thread, too.
    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.clone()
    }

    /// Becomes readable when there are events.
    pub(crate) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(|ring| ring.as_fd())
    }

    /// Hands on the events that have come, some at a time, one behind the other.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub(crate) fn read_events(&self, take: impl FnMut(&[u8])) -> Result<(), Error> {
        self.ring.as_ref().map_or(Ok(()), |ring| ring.read(take))
    }

    /// A program, to be attached.
    ///
    /// # Errors
    /// When the object has none of that name.
    pub(crate) fn program(&self, name: &str) -> Result<ProgramMut<'_>, Error> {
        load::program(&self.object, name)
    }

    /// A handle of its own, so that maps can be used while the object is.
    ///
    /// # Errors
    /// When the object has none of that name, or the process no descriptor left.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        load::map(&self.object, name)
    }

    /// As [`OwnCounters::open`].
    ///
    /// # Errors
    /// [`Error::Kernel`] when it has no part in them.
    pub(crate) fn own_counters(&self, object: &[u8], name: &str) -> Result<OwnCounters, Error> {
        OwnCounters::open(object, &self.object, name)
    }

    /// As [`FlowTable::open`].
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is none.
    pub(crate) fn flows(&self, states: &str, state_bit: u64) -> Result<FlowTable, Error> {
        FlowTable::open(&self.object, states, state_bit)
    }

    /// Adds the counters that each CPU has at the only place of a table, in their order.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is no such table or it cannot be read.
    pub(crate) fn add_counters<'a>(
        &self,
        table: &str,
        counters: impl IntoIterator<Item = &'a mut u64>,
    ) -> Result<(), Error> {
        add_counters(&find_map(&self.object, table)?, counters)
    }

    /// A counter of a table of counters, summed over all CPUs.
    ///
    /// # Errors
    /// As [`Programs::add_counters`].
    pub(crate) fn counter(&self, table: &str, index: u32) -> Result<u64, Error> {
        let values = of_each_cpu(&find_map(&self.object, table)?, index)?;
        let counts = values.iter().filter_map(|value| value.first_chunk());
        Ok(counts.map(|count| u64::from_ne_bytes(*count)).sum())
    }

    /// Calls `visit` for every flow in a portion of a table, and the bytes that are kept of it.
    /// What comes into the ring meanwhile is taken out of it, to be handed on later: to look
    /// through very many flows takes longer than the ring takes to fill.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it or the ring cannot be read.
    pub(crate) fn for_each_flow(
        &self,
        table: &FlowTable,
        portion: Portion,
        mut visit: impl FnMut(&flow_key, Slot, &[u8]),
    ) -> Result<(), Error> {
        let visit = |key: &[u8], slot, state: &[u8]| {
            if let Some((key, _)) = read_prefix(key) {
                visit(&key, slot, state);
            }
        };
        let collect = || self.ring.as_ref().map_or(Ok(()), |ring| ring.collect());
        table.for_each(portion, visit, collect)
    }

    /// How often the kernel left a program out because an interrupt came while it ran on the same
    /// CPU: what it would have told of is not known.
    #[expect(
        unsafe_code,
        reason = "libbpf-rs looks through all programs of the host for it"
    )]
    pub(crate) fn skipped(&self) -> u64 {
        let programs = self.object.progs();
        let skipped = programs.map(|program| {
            let mut info = sys::bpf_prog_info::default();
            let mut length = size_of_val(&info) as u32;
            // SAFETY: the program is loaded, or has no descriptor; the kernel writes at most so
            // much.
            unsafe {
                let descriptor = sys::bpf_program__fd(program.as_libbpf_object().as_ptr());
                let place = (&raw mut info).cast();
                sys::bpf_obj_get_info_by_fd(descriptor, place, &raw mut length);
            }
            info.recursion_misses
        });
        skipped.sum()
    }
}
