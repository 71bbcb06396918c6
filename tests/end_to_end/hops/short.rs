//! Many short connections to one server: what they share is asked once.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fathom_lab::{Chain, Family, Passed, Tap};
use fathom_tests::Fathom;

use crate::stage::{MILLISECOND, PATIENCE, beside_others, chain, connect};

const ROUTERS: usize = 3;
const CLIENTS: usize = 8;
const REQUESTS: usize = 20;
const LASTS: Duration = Duration::from_secs(15);
/// More than any probe has, and less than what an application sends.
const TTL_OF_PROBES: u8 = 32;

fn serve(listener: &TcpListener, connections: usize) {
    std::thread::scope(|scope| {
        for _ in 0..connections {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            scope.spawn(move || {
                let mut message = [0; 100];
                while stream.read_exact(&mut message).is_ok() {
                    if stream.write_all(&message).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// One connection after the other, each of some requests, until the time is over.
fn talk(chain: &Chain, listener: &TcpListener, made: &AtomicUsize) {
    let end = Instant::now() + LASTS;
    let address = listener.local_addr().unwrap();
    while Instant::now() < end {
        let mut stream = connect(&chain.client, address);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        made.fetch_add(1, Ordering::Relaxed);
        for _ in 0..REQUESTS {
            let mut message = [7; 100];
            stream.write_all(&message).unwrap();
            stream.read_exact(&mut message).unwrap();
        }
    }
}

#[fathom_lab::test]
fn short_connections_cost_less_than_one_probe_for_a_hundred_packets() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| MILLISECOND / 2).build().unwrap();
    let server = chain.server_address(Family::V4);
    let listener = chain
        .server
        .enter(|| TcpListener::bind((server, 0)).unwrap());
    let listener = listener.unwrap();
    let tap = Tap::start(&chain.client, Chain::HOST_INTERFACE).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &[]).unwrap();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, usize::MAX));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| talk(&chain, &listener, &made)))
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        // Its next call ends.
        nix::sys::socket::shutdown(
            std::os::fd::AsRawFd::as_raw_fd(&listener),
            nix::sys::socket::Shutdown::Both,
        )
        .unwrap();
    });
    let finished = fathom.finish().unwrap();
    let passed = tap.finish().unwrap();
    let tcp = passed.iter().filter(|packet| packet.header.protocol == 6);
    let (probes, packets): (Vec<&Passed>, Vec<&Passed>) =
        tcp.partition(|packet| packet.is_outgoing && packet.header.hop_limit <= TTL_OF_PROBES);
    let [known, found, beyond] = [
        "probes to known routers",
        "probes that found a router",
        "probes beyond the last known router",
    ]
    .map(|name| finished.count(name));
    println!(
        "{} connections, {} packets, {} probes: {known} to known routers, {found} found one, {beyond} beyond",
        made.into_inner(),
        packets.len(),
        probes.len()
    );
    assert!(probes.len() * 100 < packets.len());
    assert!(packets.len() > 10_000, "the machine was too slow to tell");
    assert_eq!(found, ROUTERS as u64);
    assert!(known >= 30 && beyond <= known, "{}", finished.errors);
    let routers: std::collections::BTreeSet<u8> = finished
        .hops()
        .iter()
        .filter(|hop| hop.lost < hop.sent)
        .map(|hop| hop.ttl)
        .collect();
    assert_eq!(routers, (1..=ROUTERS as u8).collect());
}
