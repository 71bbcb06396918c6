//! A balancer, loaded, in the world of the fixtures. The benchmark of what packets cost uses the
//! same.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

use fathom_balance::native::{
    BALANCE_BUCKET_SLOTS, BALANCE_ENTRY_IS_SETTLED, BALANCE_IS_GONE, BALANCE_RING_LANES,
    balance_config, balance_quic_id, balance_traffic, counter_names,
};
use fathom_measure::bytes::bytes_of;
use fathom_measure::response::native::response_config;
use libbpf_rs::{
    Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramInput,
    num_possible_cpus,
};

use crate::world::{
    IPIP4, IPIP6, PAIR_RING, RING_SIZE, RING_STRIDE, UNKNOWN, WAYS, networks, server, services,
};

/// What is counted, by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// How large it is, and whether it measures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Of the table; a power of two.
    pub(crate) buckets: u32,
    pub(crate) is_measuring: bool,
    /// Bytes of the ring of epochs.
    pub(crate) epochs: u32,
}

impl Size {
    /// Places whose connections can be measured.
    fn measured(self) -> u32 {
        self.buckets * BALANCE_BUCKET_SLOTS
    }
}

/// How a run went.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) verdict: u32,
    pub(crate) frame: Vec<u8>,
    /// Of one packet.
    pub(crate) duration: Duration,
}

/// Programs, loaded, with what user space tells them.
pub(crate) struct Balancer {
    object: Object,
    size: Size,
}

impl Balancer {
    pub(crate) fn load(object: &[u8], size: Size) -> Self {
        let mut object = ObjectBuilder::default().open_memory(object).unwrap();
        prepare(&mut object, size);
        let balancer = Self {
            object: object.load().unwrap(),
            size,
        };
        for (key, service) in services() {
            balancer.put("balance_services", bytes_of(&key), bytes_of(&service));
        }
        for (key, service) in networks() {
            balancer.put("balance_networks", bytes_of(&key), bytes_of(&service));
        }
        for number in (1..=WAYS.len() as u16).chain([UNKNOWN]) {
            balancer.fill_ring(u32::from(number), |_| number);
        }
        balancer.restore();
        balancer
    }

    /// Forgets connections.
    pub(crate) fn forget(&self) {
        for (name, count, size) in [
            ("balance_buckets", self.size.buckets, 64),
            ("balance_measured", self.size.measured(), 144),
            ("balance_fragments", 4096, 8),
        ] {
            for index in 0..count {
                self.put(name, &index.to_ne_bytes(), &vec![0; size]);
            }
        }
        // Of a service each CPU looks one packet in 16 up in any case: none of a fixture's.
        let nothing = bytes_of(&balance_traffic::default()).to_vec();
        let nothing = vec![nothing; num_possible_cpus().unwrap()];
        let traffic = self.map("balance_service_traffic");
        for index in 0..traffic.max_entries() {
            let index = index.to_ne_bytes();
            traffic
                .update_percpu(&index, &nothing, MapFlags::ANY)
                .unwrap();
        }
    }

    /// The connections of so many buckets are measured.
    pub(crate) fn sample(&self, buckets: u64) {
        self.put(
            "balance_sampling",
            &0_u32.to_ne_bytes(),
            &buckets.to_ne_bytes(),
        );
    }

    /// Undoes what fixtures change.
    pub(crate) fn restore(&self) {
        self.sample(self.size.buckets.into());
        for number in 1..=WAYS.len() as u16 {
            let index = u32::from(number).to_ne_bytes();
            self.put("balance_servers", &index, bytes_of(&server(number)));
        }
        self.fill_ring(
            PAIR_RING,
            |place| if place % 2 == 0 { IPIP4 } else { IPIP6 },
        );
    }

    pub(crate) fn set_ring(&self, number: u16) {
        self.fill_ring(PAIR_RING, |_| number);
    }

    pub(crate) fn settle(&self, number: u16) {
        self.fill_ring(PAIR_RING, |_| number | BALANCE_ENTRY_IS_SETTLED as u16);
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

    /// Runs a program over a frame, so many times.
    pub(crate) fn run(&self, program: &str, frame: &[u8], times: u32) -> Run {
        let mut out = vec![0; frame.len() + 256];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat: times,
            ..ProgramInput::default()
        };
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|own| own.name() == OsStr::new(program))
            .unwrap();
        let output = program.test_run(input).unwrap();
        Run {
            verdict: output.return_value,
            frame: output.data.unwrap().to_vec(),
            duration: output.duration,
        }
    }

    pub(crate) fn counters(&self) -> Counts {
        let cpus = self
            .map("balance_cpus")
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let cpus = cpus.unwrap().unwrap();
        let sum = |index: usize| {
            let words = cpus.iter().map(|cpu| cpu.as_chunks::<8>().0[index]);
            words.map(u64::from_ne_bytes).sum()
        };
        let names = counter_names().enumerate();
        names.map(|(index, name)| (name, sum(index))).collect()
    }

    /// What was counted since.
    pub(crate) fn counted_since(&self, before: &Counts) -> Counts {
        let counted = self.counters().into_iter().filter_map(|(name, count)| {
            let more = count - before[name];
            (more != 0).then_some((name, more))
        });
        counted.collect()
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

    pub(crate) fn put(&self, name: &str, key: &[u8], value: &[u8]) {
        self.map(name).update(key, value, MapFlags::ANY).unwrap();
    }

    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == OsStr::new(name)).unwrap()
    }

    /// A map, for longer than this.
    pub(crate) fn handle(&self, name: &str) -> MapHandle {
        MapHandle::try_from(&self.map(name)).unwrap()
    }
}

fn prepare(object: &mut OpenObject, size: Size) {
    let config = balance_config {
        seed: 0x0123_4567_89ab_cdef,
        bucket_mask: size.buckets - 1,
        idle: 1800,
        closing: 8,
        opening: 8,
        datagram_idle: 40,
        has_all_ports: 1,
        has_networks: 1,
        is_measuring: u8::from(size.is_measuring),
        has_settled: 1,
        tick_ns: 4_000_000,
        quic_id_lengths: [0, 0, 4, 0, 0, 0, 0, 0],
        padding: 0,
    };
    let response = response_config {
        epoch: 500_000_000 >> 4,
        timeout: 180_000_000 >> 4,
        datagram_timeout: 180_000_000 >> 4,
        ..response_config::default()
    };
    for mut map in object.maps_mut() {
        let name = map.name().to_str().unwrap().to_owned();
        match name.as_str() {
            ".rodata.balance_config" => fill(&mut map, bytes_of(&config)),
            ".rodata.response_config" => fill(&mut map, bytes_of(&response)),
            "balance_buckets" => map.set_max_entries(size.buckets).unwrap(),
            "balance_measured" => map.set_max_entries(size.measured()).unwrap(),
            "balance_epochs" => map.set_max_entries(size.epochs).unwrap(),
            _ => {}
        }
    }
}

fn fill(map: &mut OpenMapMut<'_>, bytes: &[u8]) {
    map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
}
