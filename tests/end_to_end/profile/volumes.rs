//! Packets and IP bytes of connections, held against those that passed the links; totals, and the
//! order that profiles come in.

use std::net::{SocketAddr, TcpStream};

use fathom_lab::{Link, Namespace, PacketKind, Rule, wait_until};
use fathom_tests::{Fathom, Profile};
use nix::sys::signal::Signal;

use crate::stage::{Family, PATIENCE, Pair, Stage, listen};

const WHOLE: u16 = 5900;
const LOSSY: u16 = 5902;
const SEGMENTS: usize = 20;
/// More than 8 MiB of moments.
const CONNECTIONS_TO_FILL_THE_RING: usize = 10_000;
/// The option with which an acknowledgement tells of one gap, with its padding (RFC 2018).
const SACK_BYTES: u64 = 12;

/// Packets and IP bytes that passed a link to or from the server's port.
fn passed(link: &Link, port: u16, is_to_server: bool) -> [u64; 2] {
    let mut sums = [0; 2];
    for packet in link.truth() {
        let of_port = packet.header.is_some_and(|header| {
            let end = if is_to_server {
                header.destination_port
            } else {
                header.source_port
            };
            end == port
        });
        if of_port {
            sums[0] += 1;
            sums[1] += u64::from(packet.length_bytes);
        }
    }
    sums
}

/// `None` where no profile has the field: not every kernel can tell each.
fn sum(profiles: &[Profile], name: &str) -> Option<u64> {
    let told = profiles.iter().filter_map(|profile| profile.number(name));
    told.reduce(|sum, one| sum + one)
}

/// Each counter of the last profile's totals is the sum of all.
fn adds_up(profiles: &[Profile]) {
    let (last, before) = profiles.split_last().unwrap();
    for name in [
        "packets",
        "bytes",
        "reverse_packets",
        "reverse_bytes",
        "bytes_sent",
        "bytes_received",
        "bytes_acknowledged",
        "packets_sent",
        "packets_received",
        "packets_lost",
        "bytes_retransmitted",
        "packets_retransmitted",
        "packets_out_of_order",
        "packets_duplicate",
        "rtt_samples",
        "stalls",
        "stalled_ns",
        "duration_ns",
    ] {
        let total = format!("total_{name}");
        assert_eq!(
            last.number(&total),
            sum(profiles, name),
            "{total} of {profiles:#?}"
        );
        assert!(before.iter().all(|profile| profile.get(&total).is_none()));
    }
}

#[test]
fn packets_and_bytes_are_those_of_the_link() {
    let lost = Rule::nth(5, PacketKind::Data).on_port(LOSSY);
    let lost6 = Rule::nth(5, PacketKind::Data).on_port(LOSSY + 1);
    let stage = Stage::build(vec![lost, lost6], Vec::new());
    for family in Family::BOTH {
        for port in [WHOLE, LOSSY].map(|port| family.port(port)) {
            let mut pair = Pair::open(&stage.lab, SocketAddr::new(family.server(), port));
            pair.upload(SEGMENTS);
            pair.close();
        }
    }
    for family in Family::BOTH {
        for (port, is_whole) in [(WHOLE, true), (LOSSY, false)] {
            let port = family.port(port);
            let (near, far) = (&stage.lab.lan, &stage.lab.wan);
            let client = stage.profiles(&stage.lab.client, port);
            let server = stage.profiles(&stage.lab.server, port);
            for (profiles, link, is_client) in [(&client, near, true), (&server, far, false)] {
                adds_up(profiles);
                let end = profiles.last().unwrap();
                let told = |names: [&str; 2]| names.map(|name| end.number(name).unwrap());
                let sent = told(["total_packets", "total_bytes"]);
                let received = told(["total_reverse_packets", "total_reverse_bytes"]);
                let truth = [
                    passed(link, port, is_client),
                    passed(link, port, !is_client),
                ];
                println!("{port}: {sent:?} and {received:?} of {truth:?}");
                if is_whole {
                    assert_eq!([sent, received], truth);
                    continue;
                }
                // What was lost on the way to the server is on its link's near side;
                // acknowledgements that tell of the gap are longer.
                let lost = u64::from(!is_client);
                let [to_server, from_server] = if is_client {
                    [sent, received]
                } else {
                    [received, sent]
                };
                let [truth_to, truth_from] = if is_client {
                    truth
                } else {
                    [truth[1], truth[0]]
                };
                assert_eq!(to_server[0] + lost, truth_to[0]);
                assert_eq!(from_server[0], truth_from[0]);
                let short = truth_from[1] - from_server[1];
                assert!(short <= SACK_BYTES * truth_from[0], "short by {short}");
                assert!(short > 0 && short.is_multiple_of(4), "short by {short}");
            }
        }
    }
}

/// The one that is accepted last is told of first if it was established first.
#[test]
fn profiles_come_in_the_order_of_their_times() {
    let stage = Stage::build(Vec::new(), Vec::new());
    let address = SocketAddr::new(Family::V4.server(), WHOLE);
    let listener = listen(&stage.lab.server, address);
    let connect = || TcpStream::connect(address).unwrap();
    let waiting = stage.lab.client.enter(connect).unwrap();
    // While one waits for its application, others come and go.
    for port in [LOSSY, LOSSY + 2, LOSSY + 4] {
        let mut pair = Pair::open(&stage.lab, SocketAddr::new(address.ip(), port));
        pair.upload(1);
        pair.close();
    }
    let (accepted, _) = listener.accept().unwrap();
    drop((waiting, accepted));
    for port in [WHOLE, LOSSY, LOSSY + 2, LOSSY + 4] {
        for host in [&stage.lab.client, &stage.lab.server] {
            stage.profiles(host, port);
        }
    }
    let hosts = [&stage.lab.client, &stage.lab.server];
    // Those of other tests' connections, which all have the same addresses, come too: one that has
    // no process in its namespace any more is told of at the end, as it was seen last.
    let finished = stage.fathom.finish().unwrap();
    let times: Vec<_> = finished
        .profiles()
        .iter()
        .filter(|profile| hosts.iter().any(|host| profile.is_of(host)))
        .map(|profile| profile.time("time").unwrap())
        .collect();
    assert_eq!(times.len(), 16);
    assert!(times.is_sorted(), "{times:#?}");
}

/// Nobody empties the ring while it fills, so the end of a connection is lost.
#[fathom_lab::test]
fn a_connection_whose_end_was_missed_has_a_last_profile() {
    let host = Namespace::new("host").unwrap();
    host.run("ip link set lo up").unwrap();
    // The sockets are looked through as often as periodic profiles may come.
    let options = ["--net", "127.77.0.0/16", "--active-timeout", "500ms"];
    let mut fathom = Fathom::profile(&host, &options).unwrap();
    let listener = listen(&host, "127.77.0.1:5906".parse().unwrap());
    let connect = || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let followed = host.enter(connect).unwrap();
    let port = followed.0.local_addr().unwrap().port();
    let wait_for_both_ends = |fathom: &Fathom, reason| {
        wait_until(PATIENCE, reason, || {
            let profiles = fathom.profiles().into_iter();
            let of_port = profiles.filter(|profile| profile.has_port(port));
            of_port
                .filter(|profile| profile.text("reason") == reason)
                .count()
                == 2
        })
        .unwrap();
    };
    wait_for_both_ends(&fathom, "established");
    fathom.process().signal(Signal::SIGSTOP).unwrap();
    host.enter(|| (0..CONNECTIONS_TO_FILL_THE_RING).for_each(|_| drop(connect())))
        .unwrap();
    drop(followed);
    fathom.process().signal(Signal::SIGCONT).unwrap();
    wait_for_both_ends(&fathom, "its end was missed");
    let finished = fathom.finish().unwrap();
    assert!(finished.count("moments lost: ring full") > 0);
}
