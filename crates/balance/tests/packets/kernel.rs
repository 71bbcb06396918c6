//! The program, loaded, and what the tests ask of its maps.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use fathom_balance::native::{
    BALANCE_IS_GONE, BALANCE_PLACE_IS_SETTLED, BALANCE_RING_LANES, balance_config, balance_epoch,
    balance_quic_id, bytes_of, counter_names, response_config,
};
use libbpf_rs::{
    Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramInput, RingBuffer,
    RingBufferBuilder,
};

use crate::world::{
    IPIP4, IPIP6, PAIR_RING, RING_SIZE, RING_STRIDE, UNKNOWN, WAYS, networks, server, services,
};

/// Buckets of the table: few, so that the tests reach its end.
const BUCKETS: u32 = 1024;

/// Why this process cannot load programs, if it cannot.
pub(crate) fn obstacle() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    (id.trim_ascii() != b"0").then_some("running BPF programs needs root")
}

/// The program with a world around it.
pub(crate) struct Kernel {
    object: Object,
    epochs: RingBuffer<'static>,
    told: std::rc::Rc<std::cell::RefCell<Vec<u16>>>,
    now: u64,
}

impl Kernel {
    pub(crate) fn load() -> Self {
        let mut object = ObjectBuilder::default().open_memory(&compile()).unwrap();
        prepare(&mut object);
        let object = object.load().unwrap();
        let told = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let inbox = std::rc::Rc::clone(&told);
        let mut builder = RingBufferBuilder::new();
        let ring = handle(&object, "balance_epochs");
        builder
            .add(&ring, move |event| {
                let at = std::mem::offset_of!(balance_epoch, server);
                let server = u16::from_ne_bytes([event[at], event[at + 1]]);
                inbox.borrow_mut().push(server);
                0
            })
            .unwrap();
        let kernel = Self {
            epochs: builder.build().unwrap(),
            object,
            told,
            now: 0,
        };
        for (key, service) in services() {
            kernel.put("balance_services", bytes_of(&key), bytes_of(&service));
        }
        for (key, service) in networks() {
            kernel.put("balance_networks", bytes_of(&key), bytes_of(&service));
        }
        for number in (1..=WAYS.len() as u16).chain([UNKNOWN]) {
            kernel.fill_ring(u32::from(number), |_| number);
        }
        kernel
    }

    /// Forgets connections, and undoes what a fixture has changed.
    pub(crate) fn reset(&mut self) {
        for (name, count, size) in [
            ("balance_buckets", BUCKETS, 64),
            ("balance_measured", BUCKETS * 4, 96),
            ("balance_fragments", 4096, 8),
        ] {
            for index in 0..count {
                self.put(name, &index.to_ne_bytes(), &vec![0; size]);
            }
        }
        for number in 1..=WAYS.len() as u16 {
            let index = u32::from(number).to_ne_bytes();
            self.put("balance_servers", &index, bytes_of(&server(number)));
        }
        self.fill_ring(
            PAIR_RING,
            |place| if place % 2 == 0 { IPIP4 } else { IPIP6 },
        );
        self.now = 1_000_000_000_000;
        self.wait(0);
        self.epochs_of();
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += seconds * 1_000_000_000;
        self.put(
            ".data.test_now",
            &0_u32.to_ne_bytes(),
            &self.now.to_ne_bytes(),
        );
    }

    pub(crate) fn set_ring(&self, number: u16) {
        self.fill_ring(PAIR_RING, |_| number);
    }

    pub(crate) fn settle(&self, number: u16) {
        self.fill_ring(PAIR_RING, |_| number | BALANCE_PLACE_IS_SETTLED as u16);
    }

    pub(crate) fn remove(&self, number: u16) {
        let mut own = server(number);
        own.flags |= BALANCE_IS_GONE as u8;
        let index = u32::from(number).to_ne_bytes();
        self.put("balance_servers", &index, bytes_of(&own));
    }

    pub(crate) fn name_by_quic(&self, number: u16) {
        let id = balance_quic_id {
            bytes: [0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0],
            config: 2,
            ..balance_quic_id::default()
        };
        let number = u32::from(number).to_ne_bytes();
        self.put("balance_quic_ids", bytes_of(&id), &number);
    }

    /// The servers of the epochs that were told of since the last call.
    pub(crate) fn epochs_of(&self) -> Vec<u16> {
        self.epochs.consume().unwrap();
        self.told.take()
    }

    /// Runs the program over a frame: its verdict, the frame, and what was counted, as often.
    pub(crate) fn run(&self, frame: &[u8]) -> (u32, Vec<u8>, BTreeMap<&'static str, u64>) {
        let before = self.counters();
        let mut out = vec![0; frame.len() + 256];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let program = self.object.progs_mut();
        let mut program = program
            .into_iter()
            .find(|own| own.name() == OsStr::new("balance"));
        let output = program.as_mut().unwrap().test_run(input).unwrap();
        let verdict = output.return_value;
        let frame = output.data.unwrap().to_vec();
        let counted = self.counters().into_iter().filter_map(|(name, count)| {
            let more = count - before[name];
            (more != 0).then_some((name, more))
        });
        (verdict, frame, counted.collect())
    }

    fn counters(&self) -> BTreeMap<&'static str, u64> {
        let cpus = map(&self.object, "balance_cpus")
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .unwrap()
            .unwrap();
        let sum = |index: usize| {
            let words = cpus.iter().map(|cpu| cpu.as_chunks::<8>().0[index]);
            words.map(u64::from_ne_bytes).sum()
        };
        let names = counter_names().enumerate();
        names.map(|(index, name)| (name, sum(index))).collect()
    }

    fn fill_ring(&self, ring: u32, server: impl Fn(u32) -> u16) {
        for element in 0..RING_SIZE.div_ceil(BALANCE_RING_LANES) {
            let places =
                (0..BALANCE_RING_LANES).map(|lane| server(element * BALANCE_RING_LANES + lane));
            let places: Vec<u8> = places.flat_map(u16::to_ne_bytes).collect();
            let index = ring * RING_STRIDE + element;
            self.put("balance_rings", &index.to_ne_bytes(), &places);
        }
    }

    fn put(&self, name: &str, key: &[u8], value: &[u8]) {
        map(&self.object, name)
            .update(key, value, MapFlags::ANY)
            .unwrap();
    }
}

fn prepare(object: &mut OpenObject) {
    let config = balance_config {
        seed: 0x0123_4567_89ab_cdef,
        bucket_mask: BUCKETS - 1,
        idle: 1800,
        closing: 8,
        opening: 8,
        datagram_idle: 40,
        sampled: u32::MAX,
        has_all_ports: 1,
        has_networks: 1,
        is_measuring: 1,
        has_settled: 1,
        quic_id_lengths: [0, 0, 4, 0, 0, 0, 0, 0],
        ..balance_config::default()
    };
    let response = response_config {
        epoch: 500_000_000 >> 4,
        timeout: 180_000_000 >> 4,
        ..response_config::default()
    };
    for mut map in object.maps_mut() {
        let name = map.name().to_str().unwrap().to_owned();
        match name.as_str() {
            ".rodata.balance_config" => fill(&mut map, bytes_of(&config)),
            ".rodata.response_config" => fill(&mut map, bytes_of(&response)),
            "balance_buckets" => map.set_max_entries(BUCKETS).unwrap(),
            "balance_measured" => map.set_max_entries(BUCKETS * 4).unwrap(),
            _ => {}
        }
    }
}

fn fill(map: &mut libbpf_rs::OpenMapMut<'_>, bytes: &[u8]) {
    map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
}

fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .unwrap()
}

fn handle(object: &Object, name: &str) -> MapHandle {
    MapHandle::try_from(&map(object, name)).unwrap()
}

/// Compiles the program with a clock that the tests set.
fn compile() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packets/balance.bpf.c");
    let object =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("balance.{}.o", std::process::id()));
    libbpf_cargo::SkeletonBuilder::new()
        .source(&source)
        .obj(&object)
        .clang_args([
            &format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH),
            "-mcpu=v3",
            "-Wno-unused-function",
        ])
        .build()
        .unwrap();
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    bytes
}
