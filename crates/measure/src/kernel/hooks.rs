//! Where packets pass, measurements share their programs: a packet is parsed once and its flow
//! looked up once, whatever measures it.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use libbpf_rs::{OpenMap, OpenObject};

use super::attach::choose_programs;
use super::counters::OwnCounters;
use super::flow_table::{FlowTable, Slot, size_flow_table};
use super::interfaces::{InterfaceNames, passing};
use super::load::{decompress, set_constants};
use super::places::Places;
use super::programs::Programs;
use crate::bytes::bytes_of;
use crate::native::{FLOW_WORD_MEASUREMENTS, flow_key};
use crate::{Error, Portion, Scope};

/// The compiled programs: 0.5 MB, of use while they are loaded.
fn object() -> Vec<u8> {
    decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/dispatch.bpf.o.zst"
    )))
}

/// The settings of a measurement of packets that pass. What it has in the programs begins with its
/// name: its maps, among them the array `NAME_flows` of what it keeps of flows, the constant
/// `NAME_state_bit`, without which it is off, and the member `NAME` of `struct packet_cpu`, which
/// begins with its counters.
pub trait OfPackets {
    /// That of its command.
    fn name(&self) -> &'static str;

    /// Which packets it measures.
    fn scope(&self) -> &Scope;

    /// How many bytes it keeps of a flow.
    fn state_bytes(&self) -> usize;

    /// Sets constants and sizes of maps of its own.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Kernel`] when something cannot be set.
    fn prepare(&self, object: &mut OpenObject) -> Result<(), Error>;
}

/// The programs of measurements, and the interfaces that they are attached to until all that share
/// them are dropped.
pub struct Hooks {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    shared: Rc<Shared>,
    programs: Programs,
    /// Of which they are: it says where the counters of each are.
    object: Vec<u8>,
    /// Names, and bits in the table of flows.
    state_bits: Vec<(&'static str, u64)>,
}

struct Shared {
    places: RefCell<Places>,
    /// How often interfaces have gone, come, or changed their addresses.
    changes: Cell<u64>,
}

impl Hooks {
    /// Loads the programs for these measurements, and attaches them to `interfaces`: names,
    /// patterns, or `any`. With `has_xdp` to XDP for packets that arrive.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TooMany`], [`Error::Unsupported`] when privileges, the
    /// kernel or a device do not allow it, or when scopes differ, [`Error::Kernel`] when the kernel
    /// refuses a step.
    pub fn attach(
        interfaces: &[String],
        has_xdp: bool,
        measurements: &[&dyn OfPackets],
    ) -> Result<Self, Error> {
        let hooks = Self::load(interfaces, has_xdp, measurements)?;
        hooks.attach_loaded()?;
        Ok(hooks)
    }

    /// Loads the programs, which takes long, and does not attach them yet.
    ///
    /// # Errors
    /// As [`Hooks::attach`].
    pub fn load(
        interfaces: &[String],
        has_xdp: bool,
        measurements: &[&dyn OfPackets],
    ) -> Result<Self, Error> {
        let places = Places::find(interfaces, true, passing(has_xdp))?;
        let object = object();
        let mut state_bits = Vec::new();
        let programs = Programs::load(&object, None, |object| {
            state_bits = prepare(object, measurements)?;
            choose_programs(object, |program| places.need(program));
            Ok(())
        })?;
        Ok(Self {
            shared: Rc::new(Shared {
                places: RefCell::new(places),
                changes: Cell::new(0),
            }),
            programs,
            object,
            state_bits,
        })
    }

    /// Attaches what was loaded. To be called once.
    ///
    /// # Errors
    /// As [`Hooks::attach`].
    pub fn attach_loaded(&self) -> Result<(), Error> {
        self.shared.places.borrow_mut().attach(&self.programs)
    }

    /// What a measurement has of the programs, among it its ring, if there is one.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it has no part in them.
    pub(crate) fn part(&self, name: &str, ring: Option<&str>) -> Result<Part, Error> {
        let own = self.state_bits.iter().find(|(own, _)| *own == name);
        let state_bit = own.map_or(0, |(_, bit)| *bit);
        Ok(Part {
            shared: Rc::clone(&self.shared),
            changes: self.shared.changes.get(),
            flows: self.programs.flows(&format!("{name}_flows"), state_bit)?,
            counters: self.programs.own_counters(&self.object, name)?,
            programs: self.programs.with_ring(ring)?,
        })
    }
}

/// What a measurement has of programs that it shares.
pub(crate) struct Part {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    shared: Rc<Shared>,
    /// Of interfaces, that it has taken note of.
    changes: u64,
    pub(crate) flows: FlowTable,
    pub(crate) counters: OwnCounters,
    pub(crate) programs: Programs,
}

impl Part {
    /// One line an interface: how the programs are attached, for people.
    pub(crate) fn describe(&self) -> Vec<String> {
        self.shared.places.borrow().describe().collect()
    }

    /// The interfaces that are measured.
    pub(crate) fn names(&self) -> Ref<'_, InterfaceNames> {
        Ref::map(self.shared.places.borrow(), |places| &places.names)
    }

    /// Lets go of interfaces that have gone, and takes those that have come. Returns whether any
    /// has changed since this measurement's last call.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not tell of its interfaces any more.
    pub(crate) fn follow(&mut self) -> Result<bool, Error> {
        let Shared { places, changes } = &*self.shared;
        if places.borrow_mut().follow(&self.programs)?.is_some() {
            changes.set(changes.get() + 1);
        }
        Ok(std::mem::replace(&mut self.changes, changes.get()) != changes.get())
    }

    /// What users are to be told since the last call of any of those that share the programs.
    pub(crate) fn take_told(&self) -> Vec<String> {
        self.shared.places.borrow_mut().take_told()
    }

    /// How many interfaces that were asked for could not be measured.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.places.borrow().refused()
    }

    /// Detaches from all interfaces, for all that share the programs.
    pub(crate) fn detach(&self) {
        self.shared.places.borrow_mut().clear();
    }

    /// Calls `visit` for every flow of a portion, and the bytes that are kept of it.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the flows or the ring cannot be read.
    pub(crate) fn for_each_flow(
        &self,
        portion: Portion,
        visit: impl FnMut(&flow_key, Slot, &[u8]),
    ) -> Result<(), Error> {
        self.programs.for_each_flow(&self.flows, portion, visit)
    }
}

/// Loads the programs for these measurements without attaching them, to see whether this kernel
/// takes them.
///
/// # Errors
/// As [`Hooks::attach`].
pub fn try_load(measurements: &[&dyn OfPackets]) -> Result<(), Error> {
    Programs::load(&object(), None, |object| {
        prepare(object, measurements)?;
        choose_programs(object, |_| true);
        Ok(())
    })
    .map(drop)
}

/// Prepares the programs for these measurements. Returns their names, and the bits by which the
/// table of flows tells of those that they have something of.
///
/// # Errors
/// [`Error::Unsupported`] when scopes differ, [`Error::Kernel`] when something cannot be set, and
/// those of the measurements.
pub fn prepare(
    object: &mut OpenObject,
    measurements: &[&dyn OfPackets],
) -> Result<Vec<(&'static str, u64)>, Error> {
    let mut scopes = measurements.iter().map(|one| one.scope());
    let Some(scope) = scopes.next() else {
        return Ok(Vec::new());
    };
    if scopes.any(|other| other != scope) {
        return Err(Error::Unsupported {
            needs: "measurements that share their programs measure the same flows".to_owned(),
            found: "selection, tunnels or the number of flows differ".to_owned(),
            remedy: "give them the same, or run them one by one".to_owned(),
        });
    }
    let states = measurements.iter();
    let states: Vec<_> = states
        .map(|one| (format!("{}_flows", one.name()), one.state_bytes()))
        .collect();
    size_flow_table(object, scope.flows, &states)?;
    let bits = (FLOW_WORD_MEASUREMENTS.trailing_zeros()..).map(|bit| 1_u64 << bit);
    let names = measurements.iter().map(|one| one.name());
    let state_bits: Vec<_> = names.zip(bits).collect();
    leave_out_maps(object, &state_bits)?;
    for (name, bit) in &state_bits {
        let constant = format!(".rodata.{name}_state_bit");
        set_constants(object, &[(&constant, &bit.to_ne_bytes())])?;
    }
    let selection = scope.selection.to_native()?;
    let constants: [(&str, &[u8]); 2] = [
        (".rodata.selection", bytes_of(&selection)),
        (".rodata.has_tunnels", &[scope.has_tunnels.into()]),
    ];
    set_constants(object, &constants)?;
    for measurement in measurements {
        measurement.prepare(object)?;
    }
    Ok(state_bits)
}

/// Those of measurements that are off cost no memory: no instruction that is left uses them.
fn leave_out_maps(object: &mut OpenObject, on: &[(&'static str, u64)]) -> Result<(), Error> {
    let measurement = |map: OpenMap<'_>| {
        let section = map.name().to_string_lossy().into_owned();
        let name = section.strip_prefix(".rodata.")?;
        name.strip_suffix("_state_bit").map(str::to_owned)
    };
    let mut off: Vec<_> = object.maps().filter_map(measurement).collect();
    off.retain(|name| on.iter().all(|(own, _)| own != name));
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let is_of = |off: &String| {
            name.strip_prefix(off)
                .is_some_and(|rest| rest.starts_with('_'))
        };
        if off.iter().any(is_of) {
            map.set_autocreate(false)
                .map_err(|error| Error::kernel(format!("leave the map {name} out"), error))?;
        }
    }
    Ok(())
}
