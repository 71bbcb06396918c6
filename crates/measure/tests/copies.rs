//! Captures that have packets more than once: measured, they give what the same captures give
//! without the copies.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::io::Cursor;

use etherparse::PacketBuilder;
use fathom_capture::{LinkType, Writer};
use fathom_measure::response;
use fathom_measure::rtt::{Engine, Settings};
use fathom_measure::{Offline, Replay};
use proptest::collection::vec;
use proptest::prelude::*;

const START_NS: u64 = 1_700_000_000_000_000_000;
const US: u64 = 1000;
const MS: u64 = 1_000_000;

/// How a host numbers its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Each has one of its own.
    Counted,
    /// None: atomic datagrams, as some systems send them.
    Zero,
    /// All have the same.
    Constant,
    /// IPv6 has no such field.
    Ipv6,
}

/// A segment of a connection.
#[derive(Debug, Clone, Copy)]
struct Segment {
    time_ns: u64,
    connection: u16,
    is_of_client: bool,
    is_syn: bool,
    seq: u32,
    ack: u32,
    length: usize,
    /// TSval and TSecr.
    times: Option<(u32, u32)>,
}

/// What happens in a step of a connection.
#[derive(Debug, Clone, Copy)]
enum Step {
    Exchange {
        length: usize,
        rtt_us: u64,
    },
    /// Acknowledgements that say the same, as fast as they come.
    Duplicates(u8),
    /// The last data once more, after so long.
    Again(u64),
}

const EXCHANGE: Step = Step::Exchange {
    length: 300,
    rtt_us: 20_000,
};

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..1400_usize, 100..80_000_u64).prop_map(|(length, rtt_us)| Step::Exchange { length, rtt_us }),
        1 => (1..8_u8).prop_map(Step::Duplicates),
        1 => (8000..300_000_u64).prop_map(Step::Again),
    ]
}

/// One connection from its handshake on, that starts at `now`.
fn connection(number: u16, mut now: u64, has_times: bool, steps: &[Step]) -> Vec<Segment> {
    let (mut seq, mut ack) = (1000_u32, 5000_u32);
    let base = Segment {
        time_ns: now,
        connection: number,
        is_of_client: true,
        is_syn: true,
        seq: seq - 1,
        ack: 0,
        length: 0,
        times: None,
    };
    let times = |now: u64, is_of_client: bool| {
        let (own, other) = ((now / MS) as u32 + 7, (now / MS) as u32 + 90_000);
        has_times.then_some(if is_of_client {
            (own, other)
        } else {
            (other, own)
        })
    };
    let mut all = vec![base];
    now += MS;
    all.push(Segment {
        time_ns: now,
        is_of_client: false,
        seq: ack - 1,
        ack: seq,
        ..base
    });
    for &step in steps {
        now += 500 * US;
        let data = Segment {
            time_ns: now,
            is_syn: false,
            seq,
            ack,
            times: times(now, true),
            ..base
        };
        match step {
            Step::Exchange { length, rtt_us } => {
                all.push(Segment { length, ..data });
                seq += length as u32;
                now += rtt_us * US;
                all.push(Segment {
                    time_ns: now,
                    is_of_client: false,
                    seq: ack,
                    ack: seq,
                    length: 100,
                    times: times(now, false),
                    ..data
                });
                ack += 100;
            }
            Step::Duplicates(count) => {
                for _ in 0..count {
                    all.push(Segment {
                        time_ns: now,
                        ..data
                    });
                    now += 20 * US;
                }
            }
            Step::Again(us) => {
                let last = all.iter().rev().find(|segment| segment.length > 0);
                if let Some(&last) = last {
                    now += us * US;
                    let is_of_client = last.is_of_client;
                    all.push(Segment {
                        time_ns: now,
                        times: times(now, is_of_client),
                        ..last
                    });
                }
            }
        }
    }
    all
}

/// A frame, and when it was captured.
type Captured = (u64, Vec<u8>);

fn frames(segments: &[Segment], numbers: Numbers) -> Vec<Captured> {
    let mut counters = [1_u16, 30_000];
    segments
        .iter()
        .map(|segment| {
            let counter = &mut counters[usize::from(segment.is_of_client)];
            *counter = counter.wrapping_add(1).max(1);
            let number = match numbers {
                Numbers::Counted => *counter,
                Numbers::Constant => 77,
                Numbers::Zero | Numbers::Ipv6 => 0,
            };
            (segment.time_ns, frame(segment, numbers, number))
        })
        .collect()
}

fn frame(segment: &Segment, numbers: Numbers, number: u16) -> Vec<u8> {
    let (client, server) = (40_000 + segment.connection, 443);
    let (from, to, ports) = if segment.is_of_client {
        (1, 2, (client, server))
    } else {
        (2, 1, (server, client))
    };
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, to]);
    let network = if numbers == Numbers::Ipv6 {
        let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        link.ipv6(address(from), address(to), 64)
    } else {
        let mut header = etherparse::Ipv4Header::new(
            0,
            64,
            etherparse::IpNumber(6),
            [10, 0, 0, from],
            [10, 0, 0, to],
        )
        .unwrap();
        header.identification = number;
        link.ip(etherparse::IpHeaders::Ipv4(
            header,
            etherparse::Ipv4Extensions::default(),
        ))
    };
    let mut tcp = network.tcp(ports.0, ports.1, segment.seq, 60_000);
    if segment.is_syn {
        tcp = tcp.syn();
    }
    if segment.ack != 0 {
        tcp = tcp.ack(segment.ack);
    }
    if let Some((value, echo)) = segment.times {
        let option = etherparse::TcpOptionElement::Timestamp(value, echo);
        tcp = tcp.options(&[option]).unwrap();
    }
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &vec![0; segment.length]).unwrap();
    bytes
}

/// When and how a packet is seen again.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    after_us: u64,
    is_routed: bool,
    has_other_mac: bool,
    has_no_checksum: bool,
}

fn sighting() -> impl Strategy<Value = Sighting> {
    (0..3000_u64, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(after_us, is_routed, has_other_mac, has_no_checksum)| Sighting {
            after_us,
            is_routed,
            has_other_mac,
            has_no_checksum,
        },
    )
}

impl Sighting {
    fn of(self, (time_ns, frame): &Captured) -> Captured {
        let mut frame = frame.clone();
        let is_ipv6 = frame[14] >> 4 == 6;
        if self.has_other_mac {
            frame[3] ^= 1;
        }
        if self.is_routed {
            frame[if is_ipv6 { 21 } else { 22 }] -= 1;
        }
        if self.has_no_checksum {
            let transport = if is_ipv6 { 54 } else { 34 };
            frame[transport + 16..transport + 18].fill(0);
        }
        (time_ns + self.after_us * US, frame)
    }
}

/// Those and a copy of each, in order of time.
fn doubled(frames: &[Captured], copies: &[Sighting]) -> Vec<Captured> {
    let pairs = frames.iter().zip(copies.iter().cycle());
    let mut all: Vec<_> = frames.to_vec();
    all.extend(pairs.map(|(frame, copy)| copy.of(frame)));
    all.sort_by_key(|(time_ns, _)| *time_ns);
    all
}

fn replay(frames: &[Captured]) -> Replay {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    for (time_ns, frame) in frames {
        writer
            .write(START_NS + time_ns, frame.len() as u32, frame)
            .unwrap();
    }
    let file = writer.finish().unwrap();
    Replay::from_reader("capture", Cursor::new(file)).unwrap()
}

/// What is reported, and how many copies there were; in one thread and in two, which must be the
/// same.
fn measured<M: Offline>(frames: &[Captured], engine: impl Fn() -> M) -> (Vec<String>, u64)
where
    M::Report: std::fmt::Debug,
{
    let run = |has_reader: bool| {
        let mut engine = engine();
        let mut replay = replay(frames);
        if has_reader {
            replay = replay.read_ahead(&engine);
        }
        let mut reports = Vec::new();
        let mut take = |report| reports.push(format!("{report:?}"));
        while replay.run(&mut engine, &mut take).is_none() {}
        (reports, replay.copies())
    };
    let own = run(false);
    assert_eq!(own, run(true));
    own
}

fn samples(frames: &[Captured]) -> (Vec<String>, u64) {
    let settings = Settings {
        has_events: false,
        ..Settings::files()
    };
    measured(frames, || Engine::new(&settings, 1).unwrap())
}

fn epochs(frames: &[Captured]) -> (Vec<String>, u64) {
    let settings = response::Settings::files();
    measured(frames, || {
        response::Engine::new(&settings, 1, false).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_twice_gives_the_same(
        numbers in prop::sample::select(&[Numbers::Counted, Numbers::Zero, Numbers::Constant, Numbers::Ipv6][..]),
        has_times in any::<bool>(),
        connections in vec((0..50_000_u64, vec(step(), 4..20)), 1..4),
        copies in vec(sighting(), 1..30),
    ) {
        let mut segments: Vec<_> = (0..).zip(&connections).flat_map(|(number, (start_us, steps))| {
            let steps = [&[EXCHANGE; 3][..], steps].concat();
            connection(number, start_us * US, has_times, &steps)
        }).collect();
        segments.sort_by_key(|segment| segment.time_ns);
        let once = frames(&segments, numbers);
        let (expected, none) = samples(&once);
        prop_assert_eq!(none, 0, "packets that come once are no copies");
        let twice = doubled(&once, &copies);
        let (own, found) = samples(&twice);
        prop_assert_eq!(own, expected);
        // Acknowledgements that say the same within 4 ms, without a number, cannot be told from
        // copies.
        prop_assert!(found >= once.len() as u64);
        if numbers == Numbers::Counted {
            prop_assert_eq!(found, once.len() as u64);
            prop_assert_eq!(epochs(&twice), (epochs(&once).0, found));
        }
    }
}

/// A connection of so many exchanges.
fn exchanges(count: usize) -> Vec<Segment> {
    connection(0, 0, false, &vec![EXCHANGE; count])
}

#[test]
fn a_retransmission_has_a_number_of_its_own() {
    let mut segments = exchanges(10);
    let again = Segment {
        time_ns: segments[4].time_ns + 2 * MS,
        ..segments[4]
    };
    segments.insert(5, again);
    let (own, found) = samples(&frames(&segments, Numbers::Counted));
    assert_eq!(found, 0);
    let without = samples(&frames(&exchanges(10), Numbers::Counted)).0;
    assert_eq!(own.len() + 1, without.len(), "one is ambiguous");
}

#[test]
fn what_has_no_number_and_came_the_same_way_is_a_retransmission_where_copies_are_not_the_rule() {
    for numbers in [Numbers::Zero, Numbers::Constant, Numbers::Ipv6] {
        let once = frames(&exchanges(30), numbers);
        let mut some = once.clone();
        for at in [4, 9, 14, 19, 24] {
            some.push((once[at].0 + MS, once[at].1.clone()));
        }
        some.sort_by_key(|(time_ns, _)| *time_ns);
        assert_eq!(samples(&some).1, 0, "{numbers:?}");
    }
}

#[test]
fn what_was_routed_in_between_is_a_copy_also_without_a_number() {
    let once = frames(&exchanges(3), Numbers::Ipv6);
    let mut routed = once[4].clone();
    routed.0 += MS;
    routed.1[21] -= 1;
    let with_one = [&once[..5], &[routed], &once[5..]].concat();
    assert_eq!(samples(&with_one), (samples(&once).0, 1));
}

#[test]
fn three_copies_are_three_too_many() {
    let once = frames(&exchanges(10), Numbers::Counted);
    let copy = Sighting {
        after_us: 300,
        is_routed: true,
        has_other_mac: true,
        has_no_checksum: false,
    };
    let often = doubled(
        &doubled(&once, &[copy]),
        &[Sighting {
            after_us: 7000,
            ..copy
        }],
    );
    assert_eq!(samples(&often), (samples(&once).0, 3 * once.len() as u64));
}

#[test]
fn copies_that_come_much_later_are_packets() {
    let once = frames(&exchanges(10), Numbers::Counted);
    let late = doubled(
        &once,
        &[Sighting {
            after_us: 25_000,
            is_routed: false,
            has_other_mac: false,
            has_no_checksum: false,
        }],
    );
    assert_eq!(samples(&late).1, 0);
}

#[test]
fn other_tags_are_other_flows() {
    let once = frames(&exchanges(5), Numbers::Counted);
    let tagged = once.iter().map(|(time_ns, frame)| {
        let tagged = [&frame[..12], &[0x81, 0, 0, 9], &frame[12..]].concat();
        (time_ns + 100 * US, tagged)
    });
    let both: Vec<_> = once
        .iter()
        .cloned()
        .zip(tagged)
        .flat_map(|(one, other)| [one, other])
        .collect();
    let (own, found) = samples(&both);
    assert_eq!(found, 0);
    assert_eq!(own.len(), 2 * samples(&once).0.len());
}
