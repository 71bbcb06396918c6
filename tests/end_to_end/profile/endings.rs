//! How established connections end: in order, by a reset, or by silence.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use fathom_lab::{PacketKind, Rule, Shared, Topology, wait_until};
use fathom_tests::Prediction;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

use crate::cases::{Cases, Script, established};
use crate::stage::{
    Family, MILLISECOND, PATIENCE, Pair, ROUND_TRIP, SECOND, SEGMENT, Stage, lab, listen, timed,
};

// The ports of the cases.
const RESET_BY_CLIENT: u16 = 5100;
const RESET_BY_SERVER: u16 = 5102;
const FALLEN_SILENT: u16 = 5112;
const HALF_CLOSED: u16 = 5114;
const CLOSED_AT_ONCE: u16 = 5116;
const NOT_KEPT_ALIVE: u16 = 5118;
const NOT_ACCEPTED: u16 = 5120;

pub(crate) const SCRIPTS: [(u16, Script); 7] = [
    (RESET_BY_CLIENT, reset_by_client),
    (RESET_BY_SERVER, reset_by_server),
    (FALLEN_SILENT, fall_silent),
    (HALF_CLOSED, close_half),
    (CLOSED_AT_ONCE, close_at_once),
    (NOT_KEPT_ALIVE, keep_alive),
    (NOT_ACCEPTED, accept_not),
];

/// Holds a case against what was predicted; all are played for the first test that asks.
fn check(case: u16, client: &[Prediction], server: &[Prediction]) {
    static RUN: Shared<Cases> = Shared::new();
    RUN.get(|| Cases::play(Stage::over(prepare()), &SCRIPTS))
        .check(case, client, server);
}

/// The lab that the scripts are for.
pub(crate) fn prepare() -> Topology {
    let mut forward = Vec::new();
    for family in Family::BOTH {
        let from = |number, kind, case| {
            let rule = Rule::nth(number, kind).times(u64::from(u32::MAX));
            rule.on_port(family.port(case))
        };
        forward.extend([
            from(2, PacketKind::Data, FALLEN_SILENT),
            // Behind the acknowledgements of the SYN-ACK and of the answer.
            from(3, PacketKind::Ack, NOT_KEPT_ALIVE),
        ]);
    }
    let lab = lab(forward, Vec::new());
    lab.client.set("net/ipv4/tcp_retries2", "2").unwrap();
    lab
}

/// The client has sent a segment and got the answer, a byte.
fn at_client(end_state: &'static str, reason: &'static str) -> Prediction {
    Prediction::new("ESTABLISHED", end_state, reason)
        .with("bytes_sent", SEGMENT)
        .with("packets_sent", 1)
        .with("bytes_acknowledged", SEGMENT)
        .with("packets_acknowledged", 1)
        .with("bytes_received", 1)
        .with("packets_received", 1)
}

/// The same at the server, once the client has acknowledged the byte.
fn at_server(end_state: &'static str, reason: &'static str) -> Prediction {
    Prediction::new("ESTABLISHED", end_state, reason)
        .with("bytes_sent", 1)
        .with("packets_sent", 1)
        .with("bytes_acknowledged", 1)
        .with("packets_acknowledged", 1)
        .with("bytes_received", SEGMENT)
        .with("packets_received", 1)
}

/// To close the socket will reset the connection: it does not linger.
fn reset(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &linger).unwrap();
}

fn reset_by_client(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(1);
    reset(&pair.client);
    drop(pair.client);
    assert_eq!(
        pair.server.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[fathom_lab::test]
fn reset_from_the_client() {
    check(
        RESET_BY_CLIENT,
        &[established(), at_client("BROKEN", "reset by this host")],
        &[established(), at_server("BROKEN", "reset by the peer")],
    );
}

fn reset_by_server(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(1);
    wait_until(PATIENCE, "the last acknowledgement", || {
        unacknowledged(&pair.server) == 0
    })
    .unwrap();
    reset(&pair.server);
    drop(pair.server);
    assert_eq!(
        pair.client.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

/// The server resets the connection when its answer has been acknowledged.
#[fathom_lab::test]
fn reset_from_the_server() {
    check(
        RESET_BY_SERVER,
        &[established(), at_client("BROKEN", "reset by the peer")],
        &[established(), at_server("BROKEN", "reset by this host")],
    );
}

fn fall_silent(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(1);
    pair.client.write_all(&[3; SEGMENT]).unwrap();
    assert_eq!(
        pair.client.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::TimedOut
    );
}

/// Data is lost from the second segment on. It goes again after 240 ms and after 480 ms more. At
/// the third timeout, 960 ms later, 1440 ms have passed since it first went again, more than the
/// 1400 ms that the two retries of the client stand for (`net.ipv4.tcp_retries2`: 200 ms, twice and
/// four times that). The server hears nothing of all that; the FIN of its application meets a host
/// without a connection.
#[fathom_lab::test]
fn black_hole_in_the_middle() {
    let lossy = at_client("UPDATE", "lossy")
        .with("bytes_sent", 2 * SEGMENT)
        .with("packets_sent", 2)
        .with("packets_lost", 1);
    let dead = Prediction::new("UPDATE", "UNREACHABLE", "timeout")
        .with("bytes_sent", 2 * SEGMENT)
        .with("packets_sent", 2)
        .with("bytes_retransmitted", 2 * SEGMENT)
        .with("packets_retransmitted", 2)
        .with("packets_lost", 1)
        .with("stalls", 2)
        .within("duration_ns", timed(1440 * MILLISECOND))
        .within("stalled_ns", timed(1440 * MILLISECOND));
    check(
        FALLEN_SILENT,
        &[established(), lossy, dead],
        &[established(), at_server("BROKEN", "reset by the peer")],
    );
}

fn close_half(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(1);
    pair.client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(pair.server.read(&mut [0]).unwrap(), 0);
    let mut bytes = vec![4; 5 * SEGMENT];
    pair.server.write_all(&bytes).unwrap();
    pair.client.read_exact(&mut bytes).unwrap();
    drop(pair.server);
    assert_eq!(pair.client.read(&mut [0]).unwrap(), 0);
}

/// The client's FIN does not keep the server from sending five segments more.
#[fathom_lab::test]
fn half_close() {
    let client = at_client("FINISHED", "FIN")
        .with("packets_acknowledged", 2)
        .with("bytes_received", 1 + 5 * SEGMENT)
        .with("packets_received", 6);
    let server = at_server("FINISHED", "FIN")
        .with("bytes_sent", 1 + 5 * SEGMENT)
        .with("packets_sent", 6)
        .with("bytes_acknowledged", 1 + 5 * SEGMENT)
        .with("packets_acknowledged", 7);
    check(
        HALF_CLOSED,
        &[established(), client],
        &[established(), server],
    );
}

fn close_at_once(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(1);
    for stream in [&pair.client, &pair.server] {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    for stream in [&mut pair.client, &mut pair.server] {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

/// Both FINs are on the way at a time, and each is acknowledged.
#[fathom_lab::test]
fn simultaneous_close() {
    check(
        CLOSED_AT_ONCE,
        &[
            established(),
            at_client("FINISHED", "FIN").with("packets_acknowledged", 2),
        ],
        &[
            established(),
            at_server("FINISHED", "FIN").with("packets_acknowledged", 2),
        ],
    );
}

fn keep_alive(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    setsockopt(&pair.client, sockopt::TcpKeepIdle, &1).unwrap();
    setsockopt(&pair.client, sockopt::TcpKeepInterval, &1).unwrap();
    setsockopt(&pair.client, sockopt::TcpKeepCount, &1).unwrap();
    setsockopt(&pair.client, sockopt::KeepAlive, &true).unwrap();
    pair.upload(1);
    assert_eq!(
        pair.client.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::TimedOut
    );
}

/// After a second of silence the client asks whether the server is still there, which is lost, and
/// after another gives up, with a reset.
#[fathom_lab::test]
fn not_kept_alive() {
    let client = at_client("UNREACHABLE", "timeout")
        .with("unanswered_probes", 1)
        .within("duration_ns", timed(2 * SECOND + ROUND_TRIP));
    check(
        NOT_KEPT_ALIVE,
        &[established(), client],
        &[established(), at_server("BROKEN", "reset by the peer")],
    );
}

fn accept_not(lab: &Topology, address: SocketAddr) {
    let listener = listen(&lab.server, address);
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let mut client = lab.client.enter(connect).unwrap().unwrap();
    client.write_all(&[5; SEGMENT]).unwrap();
    // The handshake's last packet went before the segment, and the reset will come for both.
    wait_until(PATIENCE, "the segment to be acknowledged", || {
        unacknowledged(&client) == 0
    })
    .unwrap();
    drop(listener);
    assert_eq!(
        client.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

/// Bytes in the send queue.
pub(crate) fn unacknowledged(stream: &TcpStream) -> i32 {
    let mut bytes = 0_i32;
    #[expect(unsafe_code, reason = "std has no call for it")]
    // SAFETY: the kernel writes one integer, which outlives the call.
    let status = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(status, 0);
    bytes
}

/// The application of the server goes without having accepted: its kernel resets what waits. No
/// process has had the connection.
#[fathom_lab::test]
fn not_accepted() {
    let client = Prediction::new("ESTABLISHED", "BROKEN", "reset by the peer")
        .with("bytes_sent", SEGMENT)
        .with("packets_sent", 1)
        .with("bytes_acknowledged", SEGMENT)
        .with("packets_acknowledged", 1);
    let server = Prediction::new("ESTABLISHED", "BROKEN", "reset by this host")
        .with("bytes_received", SEGMENT)
        .with("packets_received", 1)
        .with("pid", Value::Null)
        .with("process", Value::Null)
        .with("accept_queue_ns", Value::Null);
    check(
        NOT_ACCEPTED,
        &[established(), client],
        &[established(), server],
    );
}
