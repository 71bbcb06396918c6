//! The programs that are attached where packets pass, run by the kernel over frames
//! (`BPF_PROG_TEST_RUN`), with a clock that the test sets.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::rc::Rc;
use std::sync::LazyLock;

use fathom_measure::kernel::{FlowTable, OfPackets, OwnCounters, prepare};
use fathom_measure::{Error, Portion, Scope, response, rtt, traffic};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramInput, RingBuffer,
    RingBufferBuilder,
};

use crate::compile::compile;

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| compile("common/dispatch.bpf.c"));

/// The programs, loaded for one measurement.
pub(crate) struct TestRun {
    object: Object,
    program: &'static str,
    clock: MapHandle,
    /// `None`: nothing is told.
    ring: Option<RingBuffer<'static>>,
    events: Rc<RefCell<Vec<Vec<u8>>>>,
    /// Its name, and its bit in the table of flows.
    measurement: (&'static str, u64),
}

impl TestRun {
    /// Loads some of the programs; the first is the one that `run` means. `change` is done when
    /// all has been prepared. What is told goes through `ring`, if there is one. At XDP all
    /// measurements are on: that changes nothing of what one tells.
    pub(crate) fn load<'a>(
        programs: &[&'static str],
        measurement: &dyn OfPackets,
        ring: impl Into<Option<&'a str>>,
        change: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
    ) -> Self {
        let mut object = ObjectBuilder::default().open_memory(&OBJECT).unwrap();
        for mut own in object.progs_mut() {
            let is_wanted = programs.iter().any(|name| own.name() == OsStr::new(name));
            own.set_autoload(is_wanted);
        }
        let all = Everything::with(measurement.scope());
        let others = all.but(measurement.name());
        let others = others.filter(|_| programs[0] == "xdp_ingress");
        let on: Vec<_> = others.chain([measurement]).collect();
        let state_bit = prepare(&mut object, &on).unwrap().pop().unwrap();
        change(&mut object).unwrap();
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
            clock: map(&object, ".data.test_now"),
            object,
            program: programs[0],
            ring,
            events,
            measurement: state_bit,
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

    /// Forgets what was counted.
    pub(crate) fn forget_counters(&self) {
        let cpus = self.map("packet_cpus");
        let count = libbpf_rs::num_possible_cpus().unwrap();
        let zero = vec![vec![0; cpus.value_size() as usize]; count];
        cpus.update_percpu(&0_u32.to_ne_bytes(), &zero, MapFlags::ANY)
            .unwrap();
    }

    /// Adds what was counted.
    pub(crate) fn add_counters<'a>(&self, counters: impl IntoIterator<Item = &'a mut u64>) {
        let own = OwnCounters::open(&OBJECT, &self.object, self.measurement.0).unwrap();
        own.add_to(counters).unwrap();
    }

    /// The table of flows, and what is kept of them.
    pub(crate) fn flows(&self) -> FlowTable {
        let (name, state_bit) = self.measurement;
        FlowTable::open(&self.object, &format!("{name}_flows"), state_bit).unwrap()
    }

    /// Frees the slots of all flows.
    pub(crate) fn forget_flows(&self) {
        let table = self.flows();
        let free = |_: &[u8], slot, _: &[u8]| assert!(table.free(slot));
        table.for_each(Portion::ALL, free, || Ok(())).unwrap();
    }
}

/// All measurements that share the programs.
struct Everything(rtt::Settings, response::Settings, traffic::Settings);

impl Everything {
    fn with(scope: &Scope) -> Self {
        let scope = || scope.clone();
        Self(
            rtt::Settings {
                scope: scope(),
                ..rtt::Settings::live()
            },
            response::Settings {
                scope: scope(),
                ..response::Settings::live()
            },
            traffic::Settings { scope: scope() },
        )
    }

    fn but(&self, name: &str) -> impl Iterator<Item = &dyn OfPackets> {
        let all: [&dyn OfPackets; 3] = [&self.0, &self.1, &self.2];
        all.into_iter().filter(move |one| one.name() != name)
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
