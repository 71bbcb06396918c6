//! What the kernel's end sends, against a script: closed windows, lost FINs, sequence numbers that
//! wrap, SYNs that cross or cannot be delivered.

use std::io::Write;
use std::time::Duration;

use fathom_lab::{Opening, ScriptedPeer, Segment, Shared, TcpFlags};
use fathom_tests::Prediction;

use crate::script::{Play, Scripted, be_accepted, close, established, received};
use crate::stage::{Family, MILLISECOND, PATIENCE, about, timed};

// The ports of the cases.
const CLOSED_WINDOW: u16 = 5700;
const LOST_FIN: u16 = 5702;
const SEQUENCE_WRAP: u16 = 5704;
const OPENED_AT_ONCE: u16 = 5706;
const HOST_UNREACHABLE: u16 = 5708;
pub(crate) const CASES: [(u16, Play); 5] = [
    (CLOSED_WINDOW, close_the_window),
    (LOST_FIN, lose_the_fin),
    (SEQUENCE_WRAP, be_connected_to),
    (OPENED_AT_ONCE, open_at_once),
    (HOST_UNREACHABLE, be_unreachable),
];

/// Holds a case against what was predicted; all are played for the first test that asks.
fn check(case: u16, predictions: &[Prediction]) {
    static RUN: Shared<Scripted> = Shared::new();
    RUN.get(|| Scripted::play(&CASES)).check(case, predictions);
}

fn close_the_window(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, stream| {
        let open = connection.ack();
        let closed = Segment {
            window: 0,
            ..connection.ack()
        };
        connection.send(&closed).unwrap();
        stream.write_all(&[1; 1000]).unwrap();
        for _ in 0..2 {
            let probe = connection.next(PATIENCE).unwrap();
            assert!(probe.is_bare_ack(), "{probe}");
        }
        connection.send(&open).unwrap();
        connection
            .expect(PATIENCE, |segment| segment.payload.len() == 1000)
            .unwrap();
        connection.send(&connection.ack()).unwrap();
    });
}

/// The window is closed before the kernel has data and until its second probe, 200 ms and another
/// 400 ms later (RFC 9293, 3.8.6.1): a limit, but no stall, for no packet is out that could time
/// out. Jiffies of 4 ms begin and end it.
#[fathom_lab::test]
fn zero_window() {
    let bounds = timed(600 * MILLISECOND);
    let limited = bounds.start().saturating_sub(8 * MILLISECOND)..=*bounds.end();
    let last = received(0, 0)
        .with("bytes_sent", 1000)
        .with("packets_sent", 1)
        .with("bytes_acknowledged", 1000)
        .with("packets_acknowledged", 2)
        .within("window_limited_ns", limited.clone())
        .within("busy_ns", limited)
        .within("send_buffer_limited_ns", about(Duration::ZERO))
        .within("stalled_ns", about(Duration::ZERO));
    check(CLOSED_WINDOW, &[established(), last]);
}

fn lose_the_fin(peer: &ScriptedPeer, family: Family, port: u16) {
    be_accepted(peer, family, port, |connection, stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        for _ in 0..2 {
            let fin = connection.next(PATIENCE).unwrap();
            assert!(fin.has(TcpFlags::FIN), "{fin}");
        }
        connection.send(&connection.ack()).unwrap();
    });
}

/// The kernel's FIN is sent again after 200 ms, the least timeout, and then acknowledged at once: a
/// stall of a connection without data.
#[fathom_lab::test]
fn lost_fin() {
    let lossy = Prediction::new("ESTABLISHED", "UPDATE", "lossy")
        .with("packets_lost", 1)
        .within("duration_ns", about(200 * MILLISECOND));
    let recovered = Prediction::new("UPDATE", "UPDATE", "recovered")
        .with("packets_retransmitted", 1)
        .with("packets_acknowledged", 1)
        .with("stalls", 1)
        .within("stalled_ns", about(Duration::ZERO));
    let last = Prediction::new("UPDATE", "FINISHED", "FIN");
    check(LOST_FIN, &[established(), lossy, recovered, last]);
}

/// The kernel connects, with numbers that wrap in its data.
fn be_connected_to(peer: &ScriptedPeer, family: Family, port: u16) {
    let mut stream = peer
        .start_connecting(family == Family::V6, port, Some(u32::MAX - 1500))
        .unwrap();
    let mut connection = peer
        .accept_from_kernel(port, Opening::default(), PATIENCE)
        .unwrap();
    for _ in 0..3 {
        stream.write_all(&[1; 1000]).unwrap();
        connection.next(PATIENCE).unwrap();
        connection.send(&connection.ack()).unwrap();
    }
    stream.set_nonblocking(false).unwrap();
    close(connection, stream);
}

#[fathom_lab::test]
fn sequence_wrap() {
    let last = Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_sent", 3000)
        .with("packets_sent", 3)
        .with("bytes_acknowledged", 3000)
        .with("packets_acknowledged", 4);
    check(SEQUENCE_WRAP, &[established(), last]);
}

/// Both SYNs cross.
fn open_at_once(peer: &ScriptedPeer, family: Family, port: u16) {
    let stream = peer
        .start_connecting(family == Family::V6, port, None)
        .unwrap();
    let syn = peer
        .expect(PATIENCE, |segment| {
            segment.has(TcpFlags::SYN) && segment.destination.port() == port
        })
        .unwrap();
    let mut connection = peer.open(port, syn.source, Opening::default());
    connection.send(&connection.syn()).unwrap();
    connection.next(PATIENCE).unwrap();
    connection.send(&connection.ack()).unwrap();
    stream.set_nonblocking(false).unwrap();
    close(connection, stream);
}

/// One acknowledgement is of the kernel's SYN and of its SYN-ACK, and the stack counts both.
#[fathom_lab::test]
fn simultaneous_open() {
    let first = established().with("packets_acknowledged", 2);
    check(OPENED_AT_ONCE, &[first, received(0, 0)]);
}

fn be_unreachable(peer: &ScriptedPeer, family: Family, port: u16) {
    let stream = peer
        .start_connecting(family == Family::V6, port, None)
        .unwrap();
    let syn = peer
        .expect(PATIENCE, |segment| {
            segment.has(TcpFlags::SYN) && segment.destination.port() == port
        })
        .unwrap();
    peer.send_unreachable(&syn).unwrap();
    assert!(stream.take_error().unwrap().is_some());
}

#[fathom_lab::test]
fn unreachable_by_the_host() {
    let only = Prediction::new("NEW", "UNREACHABLE", "host unreachable");
    check(
        HOST_UNREACHABLE,
        &[only.within("duration_ns", about(Duration::ZERO))],
    );
}
