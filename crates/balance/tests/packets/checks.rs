//! What leaves where checks do: with a mark, the bytes that the XDP program sends for the same
//! packet; without, what it was.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::LazyLock;
use std::time::Duration;

use fathom_balance::native::{balance_checks_config, check_counter_names};
use fathom_measure::bytes::bytes_of;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};

use crate::compile::compile;
use crate::frame::Packet;
use crate::kernel::{Kernel, obstacle};
use crate::world::{CLIENT, MTU, SERVICE, UNKNOWN, WAYS, port_of, server};

const MARK: u32 = 0xfa70_0000;
/// Where test runs take place: the loopback.
const HERE: u32 = 1;
/// Of servers without one of their own.
const OTHER: u32 = 2;

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| compile("packets/checks.bpf.c"));

/// To the next program.
const NEXT: u32 = u32::MAX;
const DROPPED: u32 = 2;
const REDIRECTED: u32 = 7;

/// The bytes of a `struct __sk_buff`, and where its mark is.
const CONTEXT: usize = 192;
const CONTEXT_MARK: std::ops::Range<usize> = 8..12;

struct Run {
    verdict: u32,
    frame: Vec<u8>,
    /// Afterwards.
    mark: u32,
    duration: Duration,
}

struct Checks(Object);

impl Checks {
    fn load() -> Self {
        let mut object = ObjectBuilder::default().open_memory(&OBJECT).unwrap();
        let config = balance_checks_config {
            seed: 0x0123_4567_89ab_cdef,
            mark: MARK,
            interface: OTHER,
        };
        for mut map in object.maps_mut() {
            if map.name() == OsStr::new(".rodata.checks_config") {
                let bytes = bytes_of(&config);
                map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
            }
        }
        let checks = Self(object.load().unwrap());
        for number in 1..=WAYS.len() as u16 {
            let index = u32::from(number).to_ne_bytes();
            let servers = checks.map("balance_servers");
            servers
                .update(&index, bytes_of(&server(number)), MapFlags::ANY)
                .unwrap();
        }
        checks
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        let mut maps = self.0.maps();
        maps.find(|map| map.name() == OsStr::new(name)).unwrap()
    }

    fn run(&self, program: &str, frame: &[u8], mark: u32, times: u32) -> Run {
        let (mut context, mut out) = (vec![0; CONTEXT], vec![0; frame.len() + 256]);
        context[CONTEXT_MARK].copy_from_slice(&mark.to_ne_bytes());
        let mut context_out = vec![0; CONTEXT];
        let mut programs = self.0.progs_mut();
        let program = programs
            .find(|own| own.name() == OsStr::new(program))
            .unwrap();
        let output = program
            .test_run(ProgramInput {
                context_in: Some(&mut context),
                context_out: Some(&mut context_out),
                data_in: Some(frame),
                data_out: Some(&mut out),
                repeat: times,
                ..ProgramInput::default()
            })
            .unwrap();
        let (verdict, duration) = (output.return_value, output.duration);
        let frame = output.data.unwrap().to_vec();
        let mark = context_out[CONTEXT_MARK].try_into().unwrap();
        Run {
            verdict,
            frame,
            mark: u32::from_ne_bytes(mark),
            duration,
        }
    }

    /// Of one packet: with the tag where it stands on the wire, and what was counted.
    fn send(&self, frame: &[u8], mark: u32) -> (Run, BTreeMap<&'static str, u64>) {
        let before = self.counters();
        let mut run = self.run("check_tagged", frame, mark, 1);
        let tag = self.map(".data.test_tag");
        let tag = tag.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap();
        let tag = u16::from_ne_bytes(tag.unwrap()[..2].try_into().unwrap());
        if tag != 0 {
            let bytes = [[0x81, 0], tag.to_be_bytes()].concat();
            run.frame.splice(12..12, bytes);
        }
        let mut counted = self.counters();
        counted.retain(|name, count| {
            *count -= before[name];
            *count != 0
        });
        (run, counted)
    }

    fn counters(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.map("balance_checks");
        let cpus = counts.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let cpus = cpus.unwrap().unwrap();
        let sum = |index: usize| {
            let words = cpus.iter().map(|cpu| cpu.as_chunks::<8>().0[index]);
            words.map(u64::from_ne_bytes).sum()
        };
        let names = check_counter_names().enumerate();
        names.map(|(index, name)| (name, sum(index))).collect()
    }
}

/// Of a check of this server.
fn mark_of(server: u16) -> u32 {
    MARK | u32::from(server)
}

fn packets(family: usize, port: u16) -> [Packet; 2] {
    let end = |address: &str, port: u16| match family {
        0 => format!("{address}:{port}"),
        _ => format!("[{address}]:{port}"),
    };
    let client = end(CLIENT[family], 40_001);
    let service = end(SERVICE[family], port);
    [
        Packet::syn(&client, &service),
        Packet::tcp(&client, &service)
            .with(|packet| packet.traffic_class = 0x2a)
            .sized(700),
    ]
}

#[test]
fn checks_leave_as_packets_of_clients_do() {
    if let Some(obstacle) = obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let checks = Checks::load();
    let mut kernel = Kernel::load();
    for number in 1..=WAYS.len() as u16 {
        for packet in (0..2).flat_map(|family| packets(family, port_of(number))) {
            kernel.reset();
            let frame = packet.frame();
            let (_, forwarded, _) = kernel.run(&frame);
            assert_ne!(forwarded, frame);
            let (run, counted) = checks.send(&frame, mark_of(number));
            assert_eq!(run.frame, forwarded, "server {number}, {packet:?}");
            let is_here = server(number).interface == HERE;
            assert_eq!(run.verdict, if is_here { NEXT } else { REDIRECTED });
            assert_eq!(run.mark, 0, "it would be sent once more");
            let sent = [("packets of checks sent the way of clients' packets", 1)];
            assert_eq!(counted, sent.into());
        }
    }
}

#[test]
fn what_is_not_marked_is_left_alone() {
    if let Some(obstacle) = obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let checks = Checks::load();
    let [syn, segment] = packets(0, port_of(1)).map(|packet| packet.frame());
    // The last: not IP at all.
    let frames = [syn, segment, vec![0xff; 60]];
    for mark in [0, 1, MARK ^ 0x8000, MARK ^ 0x8000_0000, 0x0070_0001] {
        for frame in &frames {
            let (run, counted) = checks.send(frame, mark);
            assert_eq!((run.verdict, run.mark), (NEXT, mark));
            assert_eq!((run.frame, counted), (frame.clone(), BTreeMap::new()));
        }
    }
    let cost = |program: &str| {
        let runs = (0..21).map(|_| checks.run(program, &frames[1], 0, 100_000).duration);
        runs.min().unwrap()
    };
    let (own, empty) = (cost("check_egress"), cost("empty"));
    println!("a packet that is no check's: {own:?}; an empty program: {empty:?}");
}

#[test]
fn what_cannot_go_its_way_is_dropped_and_counted() {
    if let Some(obstacle) = obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let checks = Checks::load();
    let [syn, segment] = packets(0, port_of(4));
    let datagram = Packet::udp("192.0.2.7:40001", "203.0.113.1:8004");
    let full = usize::from(MTU) - 40;
    for (frame, server, why) in [
        (syn.frame(), UNKNOWN, "no server"),
        (syn.frame(), 0, "no server"),
        (syn.frame(), 0x3fff, "no server"),
        (datagram.frame(), 4, "not TCP"),
        (syn.frame()[..50].to_vec(), 4, "not TCP"),
        (segment.clone().sized(full - 19).frame(), 4, "too long"),
    ] {
        let (run, counted) = checks.send(&frame, mark_of(server));
        assert_eq!(run.verdict, DROPPED, "{why}");
        let names: Vec<_> = counted.into_iter().collect();
        assert!(
            matches!(names.as_slice(), [(name, 1)] if name.contains(why)),
            "{names:?} instead of {why}"
        );
    }
    let (run, _) = checks.send(&segment.sized(full - 20).frame(), mark_of(4));
    assert_eq!(run.verdict, REDIRECTED, "what just fits");
}
