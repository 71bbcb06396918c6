//! Segments as no well-behaved network or peer would send them, and what a receiver counts of them.

use fathom_lab::{ScriptedPeer, Segment, Shared, TcpFlags};
use fathom_tests::Prediction;

use crate::script::{
    Play, Scripted, be_accepted, be_accepted_from, deliver, established, received,
};
use crate::stage::Family;

// The ports of the cases.
const IN_ORDER: u16 = 5200;
const DUPLICATES: u16 = 5202;
const PARTIAL_DUPLICATES: u16 = 5204;
const DUPLICATES_OUT_OF_ORDER: u16 = 5206;
const OLD_TIMESTAMPS: u16 = 5208;
const PROBES: u16 = 5210;
const SEQUENCE_WRAP: u16 = 5212;
const WRONG_CHECKSUM: u16 = 5214;
pub(crate) const CASES: [(u16, Play); 8] = [
    (IN_ORDER, send_in_order),
    (DUPLICATES, send_duplicates),
    (PARTIAL_DUPLICATES, send_partial_duplicates),
    (DUPLICATES_OUT_OF_ORDER, send_duplicates_out_of_order),
    (OLD_TIMESTAMPS, send_old_timestamps),
    (PROBES, send_probes),
    (SEQUENCE_WRAP, cross_the_wrap),
    (WRONG_CHECKSUM, send_wrong_checksum),
];

/// Holds a case against what was predicted; all are played for the first test that asks.
fn check(case: u16, predictions: &[Prediction]) {
    static RUN: Shared<Scripted> = Shared::new();
    RUN.get(|| Scripted::play(&CASES)).check(case, predictions);
}

fn send_in_order(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        deliver(connection, 0, 1000);
    });
}

#[fathom_lab::test]
fn in_order() {
    check(IN_ORDER, &[established(), received(1000, 1)]);
}

fn send_duplicates(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        for (offset, length) in [(0, 1000), (1000, 1000), (0, 1000), (500, 1000)] {
            deliver(connection, offset, length);
        }
    });
}

/// A segment comes twice, and another has its bytes from two that have come: 1000 bytes each.
#[fathom_lab::test]
fn duplicates() {
    let last = received(2000, 4)
        .with("packets_duplicate", 2)
        .with("bytes_duplicate", 2000);
    check(DUPLICATES, &[established(), last]);
}

fn send_partial_duplicates(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        for (offset, length) in [(0, 1000), (500, 1000), (1400, 600)] {
            deliver(connection, offset, length);
        }
    });
}

/// The second segment starts with 500 bytes that have come, the third with 100.
#[fathom_lab::test]
fn partial_duplicates() {
    let last = received(2000, 3)
        .with("packets_partially_duplicate", 2)
        .with("bytes_partially_duplicate", 600);
    check(PARTIAL_DUPLICATES, &[established(), last]);
}

fn send_duplicates_out_of_order(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        for (offset, length) in [(1000, 1000), (1000, 1000), (0, 1000)] {
            deliver(connection, offset, length);
        }
    });
}

/// Inside the window, but not yet at its start: both copies come a thousand bytes too early, and
/// the second is a duplicate besides.
#[fathom_lab::test]
fn duplicates_out_of_order() {
    let last = received(2000, 3)
        .with("packets_out_of_order", 2)
        .with("bytes_out_of_order", 2000)
        .with("out_of_order_distance_mean_bytes", 1000.0)
        .with("out_of_order_distance_variance", 0.0)
        .with("out_of_order_distance_max_bytes", 1000)
        .with("packets_duplicate", 1)
        .with("bytes_duplicate", 1000);
    check(DUPLICATES_OUT_OF_ORDER, &[established(), last]);
}

fn send_old_timestamps(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        deliver(connection, 0, 1000);
        let clock = connection.clock().unwrap();
        connection.set_clock(clock - 1000);
        deliver(connection, 0, 1000);
        deliver(connection, 1000, 1000);
        connection.set_clock(clock + 1);
        deliver(connection, 1000, 1000);
    });
}

/// Segments with timestamps from before are dropped (RFC 7323, 5.3): the one with bytes that have
/// come is a duplicate, the one with new bytes is none. It comes again with a good timestamp. The
/// stack counts all four before it looks.
#[fathom_lab::test]
fn old_timestamps() {
    let last = received(2000, 4)
        .with("packets_duplicate", 1)
        .with("bytes_duplicate", 1000);
    check(OLD_TIMESTAMPS, &[established(), last]);
}

fn send_probes(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        deliver(connection, 0, 1000);
        for length in [0, 1] {
            let probe = Segment {
                flags: TcpFlags::ACK,
                ..connection.data(999, length)
            };
            connection.send(&probe).unwrap();
            let answer = connection.drain().unwrap().pop().unwrap();
            assert_eq!(connection.acknowledged_by(&answer), 1000);
        }
    });
}

/// Probes of a silent peer or a closed window have the last byte's number, and that byte or none
/// (RFC 9293, 3.8.4): they are no duplicates.
#[fathom_lab::test]
fn probes_are_no_duplicates() {
    check(PROBES, &[established(), received(1000, 2)]);
}

fn cross_the_wrap(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted_from(u32::MAX - 1500, peer, family, port, |connection, _| {
        let sent = [
            (0, 1000),
            (2000, 1000),
            (3000, 500),
            (1000, 1000),
            (500, 1000),
            (3000, 1000),
        ];
        for (offset, length) in sent {
            deliver(connection, offset, length);
        }
        assert!(connection.sequence_at(2000) < connection.sequence_at(0));
    });
}

/// Numbers wrap behind the byte 1500. Two segments come 1000 and 2000 bytes too early; then, when
/// all is there, one comes whole that has come before, on both sides of the wrap, and one of which
/// the first half has.
#[fathom_lab::test]
fn sequence_wrap() {
    let last = received(4000, 6)
        .with("packets_out_of_order", 2)
        .with("bytes_out_of_order", 1500)
        .with("out_of_order_distance_mean_bytes", 1500.0)
        .with("out_of_order_distance_variance", 250_000.0)
        .with("out_of_order_distance_max_bytes", 2000)
        .with("packets_duplicate", 1)
        .with("bytes_duplicate", 1000)
        .with("packets_partially_duplicate", 1)
        .with("bytes_partially_duplicate", 500);
    check(SEQUENCE_WRAP, &[established(), last]);
}

fn send_wrong_checksum(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, _| {
        for has_right_checksum in [false, true] {
            let segment = Segment {
                has_right_checksum,
                ..connection.data(0, 1000)
            };
            connection.send(&segment).unwrap();
        }
    });
}

#[fathom_lab::test]
fn wrong_checksum() {
    let last = received(1000, 2).with("checksum_errors", 1);
    check(WRONG_CHECKSUM, &[established(), last]);
}
