//! Connections that never come to be: refused, unreachable, or without an answer.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use fathom_lab::{PacketKind, Rule, Shared, Topology};
use fathom_tests::Prediction;
use serde_json::Value;

use crate::cases::{Cases, Script};
use crate::stage::{Family, MILLISECOND, ROUND_TRIP, SECOND, Stage, about, lab, timed};

// The ports of the cases.
const REFUSED: u16 = 5600;
const UNREACHABLE: u16 = 5602;
const SILENT: u16 = 5604;
const GIVEN_UP: u16 = 5606;
pub(crate) const SCRIPTS: [(u16, Script); 4] = [
    (REFUSED, be_refused),
    (UNREACHABLE, reach_nowhere),
    (SILENT, meet_silence),
    (GIVEN_UP, give_up),
];

/// How long the client of [`GIVEN_UP`] waits.
const HASTE: Duration = Duration::from_millis(300);
/// Networks that the router has no route to.
const NOWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 9, 9)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 9, 0, 0, 0, 0, 0, 9)),
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
    for port in [SILENT, GIVEN_UP] {
        for family in Family::BOTH {
            let all = Rule::nth(1, PacketKind::Syn).times(u64::from(u32::MAX));
            forward.push(all.on_port(family.port(port)));
        }
    }
    let lab = lab(forward, Vec::new());
    lab.client.set("net/ipv4/tcp_syn_retries", "1").unwrap();
    lab
}

/// The error of connecting from the client. It waits in the kernel: who polls may take the error
/// from the socket before its state changes, and then neither set of probes finds it there.
fn connect(lab: &Topology, address: SocketAddr) -> ErrorKind {
    let connect = || TcpStream::connect(address);
    lab.client.enter(connect).unwrap().unwrap_err().kind()
}

fn be_refused(lab: &Topology, address: SocketAddr) {
    assert_eq!(connect(lab, address), ErrorKind::ConnectionRefused);
}

/// Nobody listens: a reset comes back after a round trip. The server has no socket that could have
/// a profile.
#[fathom_lab::test]
fn refused() {
    let client = Prediction::new("NEW", "BROKEN", "refused")
        .within("duration_ns", about(ROUND_TRIP))
        .with("establishment_ns", Value::Null);
    check(REFUSED, &[client], &[]);
}

fn reach_nowhere(lab: &Topology, address: SocketAddr) {
    let nowhere = NOWHERE[usize::from(address.is_ipv6())];
    let error = connect(lab, SocketAddr::new(nowhere, address.port()));
    assert_eq!(error, ErrorKind::NetworkUnreachable);
}

/// The router has no route and says so (ICMP, RFC 792 and 4443), a round trip of the first link
/// later.
#[fathom_lab::test]
fn unreachable_by_the_router() {
    let client = Prediction::new("NEW", "UNREACHABLE", "network unreachable")
        .within("duration_ns", about(10 * MILLISECOND))
        .with("establishment_ns", Value::Null);
    check(UNREACHABLE, &[client], &[]);
}

fn meet_silence(lab: &Topology, address: SocketAddr) {
    assert_eq!(connect(lab, address), ErrorKind::TimedOut);
}

/// No SYN arrives. The one retry that the client may make (`net.ipv4.tcp_syn_retries`) stands for
/// three seconds, one and twice that; as the first timeouts of a SYN do not double, two copies go
/// in that time, after one second and after two, and the third timeout is the end.
#[fathom_lab::test]
fn black_hole_at_the_start() {
    let client = Prediction::new("NEW", "UNREACHABLE", "timeout")
        .with("packets_lost", 2)
        .with("packets_retransmitted", 2)
        .with("stalls", 2)
        .within("duration_ns", timed(3 * SECOND))
        .within("stalled_ns", timed(2 * SECOND))
        .with("establishment_ns", Value::Null);
    check(SILENT, &[client], &[]);
}

fn give_up(lab: &Topology, address: SocketAddr) {
    let connect = || TcpStream::connect_timeout(&address, HASTE);
    let error = lab.client.enter(connect).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// The application closes its socket before there is an answer.
#[fathom_lab::test]
fn given_up() {
    let client = Prediction::new("NEW", "BROKEN", "given up by this host")
        .within("duration_ns", about(HASTE))
        .with("establishment_ns", Value::Null);
    check(GIVEN_UP, &[client], &[]);
}
