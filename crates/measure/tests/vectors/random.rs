//! Packets that chance made: both paths must do the same with them, and never anything absurd.
//! Cases are written as vectors are, so that one that fails can be kept as one.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::io::Cursor;

use fathom_capture::LinkType;
use fathom_measure::Replay;
use fathom_measure::rtt::{Engine, Settings};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::compile;
use crate::frame::Frame;
use crate::kernel::Kernels;
use crate::native;
use crate::outcome::Outcome;
use crate::scenario::{self, BACK_NS};

/// What cases are measured with.
const SETTINGS: [&str; 4] = [
    "set events on",
    "set events on\nset bytes on\nset sample-interval 20 ms\nset per-rtt 4",
    "set events on\nset bytes on\nset slots 2\nset methods sequence handshake spin",
    "set sample-interval 5 ms\nset tunnels off\nset port 443\nset not-network 2001:db8:1::/64",
];

/// What may be around a packet.
const WRAPPINGS: [&str; 21] = [
    "ttl 20",
    "vlan 5",
    "qinq 4000 vlan 5",
    "qinq 5 vlan 6",
    "mpls 16",
    "pppoe 3",
    "in west > east vxlan 7",
    "in west > east geneve 7 options 2",
    "in west6 > east6 gre key 9",
    "in west > east ip",
    "in west > east gre sequence 1 erspan2 7",
    "in west > east gtp 5 sequence extension 1",
    "snap",
    "pppoe 3 compressed",
    "fragment 0 more",
    "fragment 8",
    "ecn 3",
    "total 0",
    "total 60",
    "extension 60 1",
    "extension 0 0 extension 43 2",
];

/// Packets that are not followed by sequence.
const REQUESTS: [&str; 12] = [
    "echo request 1 1",
    "echo request 1 2",
    "echo reply 1 1",
    "echo reply 1 2",
    "dns query 1 a.example",
    "dns answer 1 a.example",
    "dns query 2 a.example 28",
    "dns answer 2 a.example 28",
    "tcp seq 10 ack 20 dns query 3 b.example",
    "tcp seq 20 ack 30 dns answer 3 b.example",
    "udp 00",
    "protocol 89 00",
];

/// QUIC, and what looks like it.
const DATAGRAMS: [&str; 8] = [
    "quic short 0",
    "quic short 1",
    "quic short 0",
    "quic short 1",
    "quic initial",
    "quic handshake",
    "quic initial v2",
    "quic version 99",
];

/// Bytes that lead a little further into the parser than chance does.
const STARTS: [&[u8]; 4] = [
    &[],
    &[0x45, 0, 0, 60],
    &[0x60, 0, 0, 0],
    &[0, 0, 8, 0, 0x45],
];

/// The ends of packets: each of an odd place the answer to the one before it.
const ENDS: [&str; 6] = [
    "client > server",
    "server > client",
    "client6 > server6",
    "server6 > client6",
    "client > resolver",
    "resolver > client",
];

/// A place in `ENDS`, those that carry a story more often.
fn ends() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..2_usize, 1 => 2..ENDS.len()]
}

/// What is around a packet, mostly nothing.
fn wrapping() -> impl Strategy<Value = &'static str> {
    prop_oneof![15 => Just(""), 1 => select(&WRAPPINGS[..])]
}

/// What one end has sent so far; starts short of the wrap.
#[derive(Clone, Copy)]
struct Sender {
    next: u32,
    tsval: u32,
}

/// A segment, as far as it departs from what its connection would send next.
#[derive(Debug, Clone)]
struct Segment {
    flags: &'static str,
    length: u32,
    options: &'static str,
    has_ack: bool,
    has_timestamp: bool,
    tick: u32,
    /// Of the sequence number, the acknowledgement, the TSval, and the TSecr.
    shifts: [i32; 4],
    sack: Option<(u32, u32)>,
}

impl Segment {
    /// As it stands in a vector; moves the sender on.
    fn write(&self, own: &mut Sender, peer: Sender) -> String {
        own.tsval = own.tsval.wrapping_add(self.tick);
        let [seq, ack, value, echo] = self.shifts;
        let seq = own.next.wrapping_add_signed(seq * 10);
        let ack = peer.next.wrapping_add_signed(ack * 10);
        let mut text = format!(
            "tcp {} seq {seq} len {} {}",
            self.flags, self.length, self.options
        );
        if self.has_ack {
            let _ = write!(text, " ack {ack}");
        }
        if self.has_timestamp {
            let (value, echo) = (
                own.tsval.wrapping_add_signed(value),
                peer.tsval.wrapping_add_signed(echo),
            );
            let _ = write!(text, " ts {value} {echo}");
        }
        if let Some((left, right)) = self.sack {
            let _ = write!(
                text,
                " sack {} {}",
                ack.wrapping_add(left * 10),
                ack.wrapping_add(right * 10)
            );
        }
        let is_numbered = matches!(self.flags, "syn" | "fin");
        let end = seq.wrapping_add(self.length + u32::from(is_numbered));
        if end.wrapping_sub(own.next) < 1 << 31 {
            own.next = end;
        }
        text
    }
}

/// Mostly nothing.
fn shift() -> impl Strategy<Value = i32> {
    prop_oneof![9 => Just(0), 1 => -3..4]
}

fn segment() -> impl Strategy<Value = Segment> {
    let flags = prop_oneof![20 => Just(""), 2 => Just("syn"), 1 => Just("fin"), 1 => Just("rst"), 1 => Just("psh")];
    let length = select(&[0, 0, 0, 1, 10, 10, 20, 1400][..]);
    let options = prop_oneof![
        20 => Just(""),
        1 => select(&["option-bytes 0800", "option-bytes 05ff0101", "offset 4", "offset 14"][..]),
    ];
    let shifts = [shift(), shift(), shift(), shift()];
    let sack = prop::option::weighted(0.1, (0..4_u32, 0..4_u32));
    (
        flags,
        length,
        options,
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.9),
        0..3_u32,
        shifts,
        sack,
    )
        .prop_map(
            |(flags, length, options, has_ack, has_timestamp, tick, shifts, sack)| Segment {
                flags,
                length,
                options,
                has_ack,
                has_timestamp,
                tick,
                shifts,
                sack,
            },
        )
}

/// What an IP packet carries.
#[derive(Debug, Clone)]
enum Carried {
    Segment(Segment),
    Other(&'static str),
}

fn carried() -> impl Strategy<Value = Carried> {
    prop_oneof![
        6 => segment().prop_map(Carried::Segment),
        2 => select(&DATAGRAMS[..]).prop_map(Carried::Other),
        1 => select(&REQUESTS[..]).prop_map(Carried::Other),
    ]
}

/// Harm that comes to a frame on its way into a capture, mostly none.
fn harm() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => Just(String::new()),
        1 => (15..130_u32).prop_map(|length| format!("snap {length}")),
        1 => (12..120_u32, 1..=255_u8).prop_map(|(at, bits)| format!("flip {at} {bits}")),
        1 => (60..100_u32).prop_map(|length| format!("pad {length}")),
    ]
}

/// How far the time of a packet lies back, as it does where two processors work on one flow.
fn back_us() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => 1..=BACK_NS / 1000]
}

/// A vector without an expectation. In half of them no segment has timestamps.
fn story() -> impl Strategy<Value = String> {
    let gap_us = select(&[0_u64, 10, 100, 1000, 2900, 5000, 12_000, 40_000][..]);
    let packet = (gap_us, back_us(), ends(), wrapping(), carried(), harm());
    (any::<bool>(), vec(packet, 1..60)).prop_map(|(has_timestamps, packets)| {
        let (mut text, mut now_us) = (String::new(), BACK_NS / 1000);
        let start = Sender {
            next: 0_u32.wrapping_sub(40),
            tsval: 0_u32.wrapping_sub(4),
        };
        let mut senders = [start; ENDS.len()];
        for (gap_us, back_us, at, wrapping, carried, harm) in packets {
            now_us += gap_us;
            let time_us = now_us - back_us;
            let transport = match carried {
                Carried::Other(text) => text.to_owned(),
                Carried::Segment(mut segment) => {
                    segment.has_timestamp &= has_timestamps;
                    let peer = senders[at ^ 1];
                    segment.write(&mut senders[at], peer)
                }
            };
            let _ = writeln!(
                text,
                "{time_us} us {} {wrapping} {transport} {harm}",
                ENDS[at]
            );
        }
        text
    })
}

/// No more than two samples a packet, and no round trip longer than the capture.
fn check_sanity(outcomes: &[Outcome], frames: &[(u64, Frame)]) -> Result<(), TestCaseError> {
    let times = || frames.iter().map(|(time_ns, _)| *time_ns);
    let span_ns = times().max().unwrap_or_default() - times().min().unwrap_or_default();
    let samples = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Sample(sample) => Some(sample),
        Outcome::Flow(_) => None,
    });
    prop_assert!(samples.clone().count() <= frames.len() * 2);
    for sample in samples {
        prop_assert!(sample.rtt_ns <= span_ns, "{}", Outcome::Sample(*sample));
        prop_assert!(
            sample
                .minimum_ns
                .is_none_or(|minimum_ns| minimum_ns <= sample.rtt_ns)
        );
        prop_assert!(
            sample
                .bytes
                .is_none_or(|bytes| bytes.answered < bytes.sent && bytes.returned < 1 << 20),
            "{}",
            Outcome::Sample(*sample)
        );
    }
    Ok(())
}

#[test]
fn both_paths_do_the_same() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let kernels = RefCell::new(Kernels::default());
    let samples = Cell::new(0);
    let programs = select(&["ethernet_ingress", "xdp_ingress"][..]);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    runner
        .run(
            &(select(&SETTINGS[..]), programs, story()),
            |(settings, program, story)| {
                let mut scenario = scenario::read(&format!("{settings}\n{story}")).unwrap();
                let mut kernels = kernels.borrow_mut();
                let kernel = kernels.with(program, &scenario.settings, &scenario.methods);
                scenario.frames.retain(|(_, frame)| kernel.takes(frame));
                // A test run knows of no bytes beyond those it is given.
                for (_, frame) in &mut scenario.frames {
                    frame.length = frame.data.len() as u32;
                }
                let in_kernel = kernel.run(&scenario.frames);
                let natively = native::run(scenario.link, &scenario.settings, &scenario.frames);
                samples.set(samples.get() + natively.counts["samples"]);
                prop_assert!(
                    natively == in_kernel,
                    "{settings}\n{story}natively\n{natively}in the kernel\n{in_kernel}"
                );
                Ok(())
            },
        )
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(samples.get() > 0, "the cases were to no purpose");
    println!("{} samples", samples.get());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn samples_stay_within_the_capture(settings in select(&SETTINGS[..]), story in story()) {
        let scenario = scenario::read(&format!("{settings}\n{story}")).unwrap();
        let run = native::run(scenario.link, &scenario.settings, &scenario.frames);
        check_sanity(&run.outcomes, &scenario.frames)?;
    }

    #[test]
    fn any_bytes_are_read_on_any_link(
        link in prop_oneof![
            3 => select(&[LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2, LinkType::NULL, LinkType::PPP][..]),
            1 => any::<u16>().prop_map(LinkType),
        ],
        start in select(&STARTS[..]),
        packets in vec((0..1_000_000_u64, vec(any::<u8>(), 0..200), 0..4000_u32), 0..20),
    ) {
        let mut now_ns = 0;
        let frames: Vec<(u64, Frame)> = packets.into_iter().map(|(gap_ns, data, beyond)| {
            now_ns += gap_ns;
            let data = [start, &data].concat();
            (now_ns, Frame { length: data.len() as u32 + beyond, data })
        }).collect();
        let run = native::run(link, &Settings::files(), &frames);
        prop_assert_eq!(run.counts["frames"], frames.len() as u64);
        check_sanity(&run.outcomes, &frames)?;
    }

    #[test]
    fn a_damaged_capture_gives_what_came_before(story in story(), at in any::<prop::sample::Index>(), bits in 1..=255_u8, keep in any::<prop::sample::Index>()) {
        let scenario = scenario::read(&story).unwrap();
        let mut file = native::file(scenario.link, &scenario.frames);
        let at = at.index(file.len());
        file[at] ^= bits;
        file.truncate(keep.index(file.len()) + 1);
        let Ok(mut replay) = Replay::from_reader("damaged", Cursor::new(file)) else {
            return Ok(());
        };
        let mut engine = Engine::new(&scenario.settings, native::SEED).unwrap();
        while replay.run(&mut engine, &mut |_| {}).is_none() {}
        prop_assert!(engine.counts().get("samples") <= engine.counts().get("frames") * 2);
    }
}
