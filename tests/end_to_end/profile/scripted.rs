//! Segments that no well-behaved network or peer would make: a script plays the other end, so that only the kernel's end has a profile.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fathom_lab::{Connection, Opening, ScriptedPeer, Segment, TcpFlags, obstacle, wait_until};
use fathom_tests::{Fathom, Prediction, Profile, check};

use crate::stage::{Family, MILLISECOND, PATIENCE, about, listen, profiles_of};

// The ports of the cases.
const IN_ORDER: u16 = 5200;
const DUPLICATES: u16 = 5202;
const PARTIAL_DUPLICATES: u16 = 5204;
const DUPLICATES_OUT_OF_ORDER: u16 = 5206;
const OLD_TIMESTAMPS: u16 = 5208;
const PROBES: u16 = 5210;
const SEQUENCE_WRAP: u16 = 5212;
const WRONG_CHECKSUM: u16 = 5214;
const CLOSED_WINDOW: u16 = 5216;
const LOST_FIN: u16 = 5218;
const KERNEL_WRAP: u16 = 5220;
const OPENED_AT_ONCE: u16 = 5222;
const HOST_UNREACHABLE: u16 = 5224;

/// What the script does to a connection that the kernel has accepted.
type Script = fn(&mut Connection, &mut TcpStream);
const SCRIPTS: [(u16, Script); 10] = [
    (IN_ORDER, |connection, _| deliver(connection, 0, 1000)),
    (DUPLICATES, send_duplicates),
    (PARTIAL_DUPLICATES, send_partial_duplicates),
    (DUPLICATES_OUT_OF_ORDER, send_duplicates_out_of_order),
    (OLD_TIMESTAMPS, send_old_timestamps),
    (PROBES, send_probes),
    (SEQUENCE_WRAP, cross_the_wrap),
    (WRONG_CHECKSUM, send_wrong_checksum),
    (CLOSED_WINDOW, close_the_window),
    (LOST_FIN, lose_the_fin),
];
/// The script's port.
const SCRIPT_PORT: u16 = 4000;

/// What was printed of all cases, and how long the script kept the window closed over each family.
struct Run {
    profiles: Vec<(u16, Vec<Profile>)>,
    closed: [Duration; 2],
}

impl Run {
    fn check(&self, case: u16, predictions: &[Prediction]) {
        for family in Family::BOTH {
            self.check_one(case, family, predictions);
        }
    }

    fn check_one(&self, case: u16, family: Family, predictions: &[Prediction]) {
        let port = family.port(case);
        let (_, profiles) = self.profiles.iter().find(|run| run.0 == port).unwrap();
        check(&format!("{family:?}"), profiles, predictions);
    }
}

/// All cases, driven by the first test that asks; `None` where it cannot be.
fn run() -> Option<&'static Run> {
    static RUN: OnceLock<Option<Run>> = OnceLock::new();
    RUN.get_or_init(drive).as_ref()
}

fn drive() -> Option<Run> {
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return None;
    }
    let peer = ScriptedPeer::new().unwrap();
    let kernel = peer.namespace();
    kernel.set_congestion_control("reno").unwrap();
    kernel.set("net/ipv4/tcp_early_retrans", "0").unwrap();
    let networks = ["--net", "10.78.0.0/16,fd78::/16"];
    let fathom = Fathom::profile(kernel, &networks).unwrap();
    let mut closed = [Duration::ZERO; 2];
    let mut ports = Vec::new();
    for (number, family) in Family::BOTH.into_iter().enumerate() {
        for (case, script) in SCRIPTS {
            let start = Instant::now();
            be_accepted(&peer, family, family.port(case), script);
            if case == CLOSED_WINDOW {
                closed[number] = start.elapsed();
            }
        }
        be_connected_to(&peer, family, family.port(KERNEL_WRAP));
        open_at_once(&peer, family, family.port(OPENED_AT_ONCE));
        be_unreachable(&peer, family, family.port(HOST_UNREACHABLE));
        let cases = SCRIPTS.map(|(case, _)| case);
        let opened = [KERNEL_WRAP, OPENED_AT_ONCE, HOST_UNREACHABLE];
        ports.extend(
            cases
                .into_iter()
                .chain(opened)
                .map(|case| family.port(case)),
        );
    }
    let mut profiles = Vec::new();
    for port in ports {
        let mut own = Vec::new();
        let waited = wait_until(PATIENCE, "the last profile", || {
            own = profiles_of(&fathom.profiles(), kernel, port);
            own.last().is_some_and(Profile::is_last)
        });
        assert!(waited.is_ok(), "port {port}: {own:#?}");
        profiles.push((port, own));
    }
    fathom.finish().unwrap();
    Some(Run { profiles, closed })
}

fn kernel_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => ScriptedPeer::KERNEL_V4,
        Family::V6 => ScriptedPeer::KERNEL_V6,
    }
}

/// The script connects, plays and closes; then the kernel closes.
fn be_accepted(peer: &ScriptedPeer, family: Family, port: u16, script: Script) {
    let address = SocketAddr::from((kernel_address(family), port));
    let listener = listen(peer.namespace(), address);
    let opening = Opening {
        initial_sequence: if port == family.port(SEQUENCE_WRAP) {
            u32::MAX - 1500
        } else {
            1
        },
        ..Opening::default()
    };
    let mut connection = peer
        .connect_to_kernel(SCRIPT_PORT, address, opening, PATIENCE)
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    script(&mut connection, &mut stream);
    close(connection, stream);
}

/// The script's FIN, then the kernel's, unless it was before.
fn close(mut connection: Connection, mut stream: TcpStream) {
    connection.send(&connection.fin()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    drop(stream);
    let last = connection.sequence_at(connection.sent().cast_signed());
    connection
        .expect(PATIENCE, |segment| {
            segment.has(TcpFlags::FIN) || segment.acknowledgement == last
        })
        .unwrap();
    connection.drain().unwrap();
    connection.send(&connection.ack()).unwrap();
}

/// The script's bytes from `offset` on; everything before has arrived.
fn deliver(connection: &mut Connection, offset: u32, length: usize) {
    connection.send(&connection.data(offset, length)).unwrap();
}

/// The handshake, of which the kernel's end takes no time: the script answers at once.
fn established() -> Prediction {
    Prediction::new("NEW", "ESTABLISHED", "established")
        .with("packets_acknowledged", 1)
        .within("establishment_ns", about(Duration::ZERO))
}

/// The end of a connection that took in so much and sent nothing but a FIN.
fn received(bytes: u32, packets: u32) -> Prediction {
    Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_received", bytes)
        .with("packets_received", packets)
        .with("packets_acknowledged", 1)
}

#[test]
fn in_order() {
    let Some(run) = run() else { return };
    run.check(IN_ORDER, &[established(), received(1000, 1)]);
}

fn send_duplicates(connection: &mut Connection, _: &mut TcpStream) {
    for (offset, length) in [(0, 1000), (1000, 1000), (0, 1000), (500, 1000)] {
        deliver(connection, offset, length);
    }
}

/// A segment comes twice, and another has its bytes from two that have come: 1000 bytes each.
#[test]
fn duplicates() {
    let Some(run) = run() else { return };
    let last = received(2000, 4)
        .with("duplicate_packets", 2)
        .with("duplicate_bytes", 2000);
    run.check(DUPLICATES, &[established(), last]);
}

fn send_partial_duplicates(connection: &mut Connection, _: &mut TcpStream) {
    for (offset, length) in [(0, 1000), (500, 1000), (1400, 600)] {
        deliver(connection, offset, length);
    }
}

/// The second segment starts with 500 bytes that have come, the third with 100.
#[test]
fn partial_duplicates() {
    let Some(run) = run() else { return };
    let last = received(2000, 3)
        .with("partial_duplicate_packets", 2)
        .with("partial_duplicate_bytes", 600);
    run.check(PARTIAL_DUPLICATES, &[established(), last]);
}

fn send_duplicates_out_of_order(connection: &mut Connection, _: &mut TcpStream) {
    for (offset, length) in [(1000, 1000), (1000, 1000), (0, 1000)] {
        deliver(connection, offset, length);
    }
}

/// Inside the window, but not yet at its start: both copies come a thousand bytes too early, and the second is a duplicate besides.
#[test]
fn duplicates_out_of_order() {
    let Some(run) = run() else { return };
    let last = received(2000, 3)
        .with("out_of_order_packets", 2)
        .with("out_of_order_bytes", 2000)
        .with("out_of_order_distance_mean_bytes", 1000.0)
        .with("out_of_order_distance_variance", 0.0)
        .with("out_of_order_distance_max_bytes", 1000)
        .with("duplicate_packets", 1)
        .with("duplicate_bytes", 1000);
    run.check(DUPLICATES_OUT_OF_ORDER, &[established(), last]);
}

fn send_old_timestamps(connection: &mut Connection, _: &mut TcpStream) {
    deliver(connection, 0, 1000);
    let clock = connection.clock().unwrap();
    connection.set_clock(clock - 1000);
    deliver(connection, 0, 1000);
    deliver(connection, 1000, 1000);
    connection.set_clock(clock + 1);
    deliver(connection, 1000, 1000);
}

/// Segments with timestamps from before are dropped (RFC 7323, 5.3): the one with bytes that have come is a duplicate, the one with new bytes is none. It
/// comes again with a good timestamp. The stack counts all four before it looks.
#[test]
fn old_timestamps() {
    let Some(run) = run() else { return };
    let last = received(2000, 4)
        .with("duplicate_packets", 1)
        .with("duplicate_bytes", 1000);
    run.check(OLD_TIMESTAMPS, &[established(), last]);
}

fn send_probes(connection: &mut Connection, _: &mut TcpStream) {
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
}

/// Probes of a silent peer or a closed window have the last byte's number, and that byte or none (RFC 9293, 3.8.4): they are no duplicates.
#[test]
fn probes_are_no_duplicates() {
    let Some(run) = run() else { return };
    run.check(PROBES, &[established(), received(1000, 2)]);
}

fn cross_the_wrap(connection: &mut Connection, _: &mut TcpStream) {
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
}

/// Numbers wrap behind the byte 1500. Two segments come 1000 and 2000 bytes too early; then, when all is there, one comes whole that has come before, on both
/// sides of the wrap, and one of which the first half has.
#[test]
fn sequence_wrap() {
    let Some(run) = run() else { return };
    let last = received(4000, 6)
        .with("out_of_order_packets", 2)
        .with("out_of_order_bytes", 1500)
        .with("out_of_order_distance_mean_bytes", 1500.0)
        .with("out_of_order_distance_variance", 250_000.0)
        .with("out_of_order_distance_max_bytes", 2000)
        .with("duplicate_packets", 1)
        .with("duplicate_bytes", 1000)
        .with("partial_duplicate_packets", 1)
        .with("partial_duplicate_bytes", 500);
    run.check(SEQUENCE_WRAP, &[established(), last]);
}

fn send_wrong_checksum(connection: &mut Connection, _: &mut TcpStream) {
    for has_right_checksum in [false, true] {
        let segment = Segment {
            has_right_checksum,
            ..connection.data(0, 1000)
        };
        connection.send(&segment).unwrap();
    }
}

#[test]
fn wrong_checksum() {
    let Some(run) = run() else { return };
    let last = received(1000, 2).with("checksum_errors", 1);
    run.check(WRONG_CHECKSUM, &[established(), last]);
}

fn close_the_window(connection: &mut Connection, stream: &mut TcpStream) {
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
}

/// The window is closed before the kernel has data and until its second probe, 200 and 400 ms later (RFC 9293, 3.8.6.1): a limit, but no stall, for no
/// packet is out that could time out. Jiffies of 4 ms begin and end it.
#[test]
fn zero_window() {
    let Some(run) = run() else { return };
    for (family, closed) in Family::BOTH.into_iter().zip(run.closed) {
        let limited = 600 * MILLISECOND - 8 * MILLISECOND..=closed + 8 * MILLISECOND;
        let last = received(0, 0)
            .with("bytes_sent", 1000)
            .with("packets_sent", 1)
            .with("bytes_acknowledged", 1000)
            .with("packets_acknowledged", 2)
            .within("window_limited_ns", limited.clone())
            .within("busy_ns", limited)
            .within("send_buffer_limited_ns", about(Duration::ZERO))
            .within("stalled_ns", about(Duration::ZERO));
        run.check_one(CLOSED_WINDOW, family, &[established(), last]);
    }
}

fn lose_the_fin(connection: &mut Connection, stream: &mut TcpStream) {
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..2 {
        let fin = connection.next(PATIENCE).unwrap();
        assert!(fin.has(TcpFlags::FIN), "{fin}");
    }
    connection.send(&connection.ack()).unwrap();
}

/// The kernel's FIN is sent again after 200 ms, the least timeout, and then acknowledged at once: a stall of a connection without data.
#[test]
fn lost_fin() {
    let Some(run) = run() else { return };
    let lossy = Prediction::new("ESTABLISHED", "UPDATE", "lossy")
        .with("packets_lost", 1)
        .within("duration_ns", about(200 * MILLISECOND));
    let recovered = Prediction::new("UPDATE", "UPDATE", "recovered")
        .with("packets_retransmitted", 1)
        .with("packets_acknowledged", 1)
        .with("stalls", 1)
        .within("stalled_ns", about(Duration::ZERO));
    let last = Prediction::new("UPDATE", "FINISHED", "FIN");
    run.check(LOST_FIN, &[established(), lossy, recovered, last]);
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

#[test]
fn sequence_wrap_of_the_kernel() {
    let Some(run) = run() else { return };
    let last = Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_sent", 3000)
        .with("packets_sent", 3)
        .with("bytes_acknowledged", 3000)
        .with("packets_acknowledged", 4);
    run.check(KERNEL_WRAP, &[established(), last]);
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
#[test]
fn simultaneous_open() {
    let Some(run) = run() else { return };
    let first = established().with("packets_acknowledged", 2);
    run.check(OPENED_AT_ONCE, &[first, received(0, 0)]);
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

#[test]
fn unreachable_by_the_host() {
    let Some(run) = run() else { return };
    let only = Prediction::new("NEW", "UNREACHABLE", "host unreachable");
    run.check(
        HOST_UNREACHABLE,
        &[only.within("duration_ns", about(Duration::ZERO))],
    );
}
