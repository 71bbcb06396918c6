//! Programs that the kernel runs over frames (`BPF_PROG_TEST_RUN`), with a clock that the test
//! sets.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::rc::Rc;

use fathom_measure::kernel::FlowTable;
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramInput, RingBuffer,
    RingBufferBuilder,
};

/// One of the programs of an object, loaded.
pub(crate) struct TestRun {
    object: Object,
    program: &'static str,
    clock: MapHandle,
    /// `None`: nothing is told.
    ring: Option<RingBuffer<'static>>,
    events: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl TestRun {
    /// Loads programs of a compiled object, which share its maps; the first is the one that `run`
    /// means. `prepare` sets maps and constants up before. The clock is the map of that name, and
    /// what is told goes through `ring`, if there is one.
    pub(crate) fn load<'a>(
        object: &[u8],
        programs: &[&'static str],
        clock: &str,
        ring: impl Into<Option<&'a str>>,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), fathom_measure::Error>,
    ) -> Self {
        let mut object = ObjectBuilder::default().open_memory(object).unwrap();
        for mut own in object.progs_mut() {
            let is_wanted = programs.iter().any(|name| own.name() == OsStr::new(name));
            own.set_autoload(is_wanted);
        }
        prepare(&mut object).unwrap();
        let object = object.load().unwrap();
        let events = Rc::new(RefCell::new(Vec::new()));
        let inbox = Rc::clone(&events);
        let ring = ring.into().map(|ring| {
            let ring = map(&object, ring);
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&ring, move |event| {
                    inbox.borrow_mut().push(event.to_vec());
                    0
                })
                .unwrap();
            builder.build().unwrap()
        });
        Self {
            clock: map(&object, clock),
            object,
            program: programs[0],
            ring,
            events,
        }
    }

    /// The name of the program.
    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    /// A map by its name.
    pub(crate) fn map(&self, name: &str) -> MapHandle {
        map(&self.object, name)
    }

    /// Runs the program over a frame at a time.
    pub(crate) fn run(&self, now_ns: u64, frame: &[u8]) -> Result<(), libbpf_rs::Error> {
        self.run_by(self.program, None, now_ns, frame)
    }

    /// Runs one of the programs, over a frame in that context (`struct __sk_buff`).
    pub(crate) fn run_by(
        &self,
        program: &str,
        context: Option<&mut [u8]>,
        now_ns: u64,
        frame: &[u8],
    ) -> Result<(), libbpf_rs::Error> {
        self.clock
            .update(&0_u32.to_ne_bytes(), &now_ns.to_ne_bytes(), MapFlags::ANY)?;
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|own| own.name() == OsStr::new(program))
            .unwrap();
        let input = ProgramInput {
            context_in: context,
            data_in: Some(frame),
            ..ProgramInput::default()
        };
        program.test_run(input).map(drop)
    }

    /// What was told since the last call.
    pub(crate) fn told(&self) -> Vec<Vec<u8>> {
        if let Some(ring) = &self.ring {
            ring.consume().unwrap();
        }
        self.events.take()
    }

    /// The table of flows, and what is kept of them in the array called `states`.
    pub(crate) fn flows(&self, states: &str) -> FlowTable {
        FlowTable::open(&self.object, states).unwrap()
    }

    /// Frees the slots of all flows.
    pub(crate) fn forget_flows(&self, states: &str) {
        let table = self.flows(states);
        let free = |_: &[u8], slot, _: &[u8]| assert!(table.free(slot));
        table.for_each(free, || Ok(())).unwrap();
    }
}

/// Sets how many entries a map is to have.
pub(crate) fn set_entries(object: &mut OpenObject, name: &str, entries: u32) {
    let mut maps = object.maps_mut();
    let mut map = maps.find(|map| map.name() == OsStr::new(name)).unwrap();
    map.set_max_entries(entries).unwrap();
}

fn map(object: &Object, name: &str) -> MapHandle {
    let mut maps = object.maps();
    MapHandle::try_from(&maps.find(|map| map.name() == OsStr::new(name)).unwrap()).unwrap()
}
