//! What a link carries: packets per processor second under a flood of small datagrams, how late it
//! releases, and what it costs idle.
//!
//! `cargo bench -p fathom-lab` needs root and takes about five seconds.

#![expect(
    clippy::unwrap_used,
    clippy::cast_sign_loss,
    reason = "a benchmark stops at the first failure"
)]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};

use fathom_lab::{Fate, Link, LinkConfig, LinkEnd, Namespace, Way, obstacle, wait_until};

const FLOOD: Duration = Duration::from_secs(2);
const PAYLOAD_BYTES: u16 = 18;
const SEGMENTS: usize = 64;

fn main() {
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return;
    }
    let reference_us = loopback_datagram_us();
    println!("reference: a datagram sent and received over loopback takes {reference_us:.2} us");
    for delay in [Duration::ZERO, Duration::from_millis(20)] {
        flood(delay, reference_us);
    }
    idle();
    lateness();
}

fn pair(delay: Duration) -> (Namespace, Namespace, Link) {
    let client = Namespace::new("client").unwrap();
    let server = Namespace::new("server").unwrap();
    let ends = (LinkEnd::new(&client, "eth0"), LinkEnd::new(&server, "eth0"));
    let link = Link::start(ends.0, ends.1, LinkConfig::symmetric(delay)).unwrap();
    client.add_address("eth0", "10.77.1.1/24").unwrap();
    server.add_address("eth0", "10.77.1.2/24").unwrap();
    (client, server, link)
}

fn bind(namespace: &Namespace, address: &str) -> UdpSocket {
    namespace
        .enter(|| UdpSocket::bind(address))
        .unwrap()
        .unwrap()
}

/// What one datagram through the kernel costs on this machine now, in us.
fn loopback_datagram_us() -> f64 {
    const DATAGRAMS: u32 = 100_000;
    let namespace = Namespace::new("reference").unwrap();
    let receiver = bind(&namespace, "127.0.0.1:9");
    let sender = bind(&namespace, "127.0.0.1:0");
    sender.connect("127.0.0.1:9").unwrap();
    let mut buffer = [0; 64];
    let start = Instant::now();
    for _ in 0..DATAGRAMS {
        sender.send(&[7; PAYLOAD_BYTES as usize]).unwrap();
        receiver.recv(&mut buffer).unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(DATAGRAMS)
}

/// One sender as fast as it can, to a socket that nobody reads. Its kernel cuts 64 datagrams from
/// each write (UDP segmentation), or the sender would be slower than the link.
fn flood(delay: Duration, reference_us: f64) {
    let (client, server, link) = pair(delay);
    let _receiver = bind(&server, "10.77.1.2:9");
    let sender = bind(&client, "10.77.1.1:0");
    sender.connect("10.77.1.2:9").unwrap();
    setsockopt(&sender, UdpGsoSegment, &PAYLOAD_BYTES.into()).unwrap();
    let start = Instant::now();
    while start.elapsed() < FLOOD {
        // A full device queue refuses: the flood is faster than the link.
        let _ = sender.send(&[7; PAYLOAD_BYTES as usize * SEGMENTS]);
    }
    let elapsed = start.elapsed();
    wait_until(Duration::from_secs(5), "the link to empty", || {
        let totals = link.totals(Way::Forward);
        totals.settled() == totals.read
    })
    .unwrap();
    let delivered = link.totals(Way::Forward).delivered as f64;
    let cpu = link.cpu_time(Way::Forward);
    let packet_us = cpu.as_secs_f64() * 1e6 / delivered;
    println!(
        "flood, {delay:?} delay: {:.0} packets/s, {:.0} packets per processor second of the link ({packet_us:.2} us each, \
         {:.2} of the reference)",
        delivered / elapsed.as_secs_f64(),
        delivered / cpu.as_secs_f64(),
        packet_us / reference_us,
    );
}

/// What a link costs that carries nothing.
fn idle() {
    let (_client, _server, link) = pair(Duration::from_millis(20));
    let before = link.cpu_time(Way::Forward);
    std::thread::sleep(Duration::from_millis(500));
    let used = link.cpu_time(Way::Forward).saturating_sub(before);
    println!("idle: {used:?} of processor time in 500 ms");
}

/// How late packets are released at a moderate rate.
fn lateness() {
    let (client, server, link) = pair(Duration::from_millis(10));
    let _receiver = bind(&server, "10.77.1.2:9");
    let sender = bind(&client, "10.77.1.1:0");
    sender.connect("10.77.1.2:9").unwrap();
    let before = link.cpu_time(Way::Forward);
    let start = Instant::now();
    for number in 0..1_000_u32 {
        let due = Duration::from_millis(1) * number;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        sender.send(&[7; PAYLOAD_BYTES as usize]).unwrap();
    }
    let elapsed = start.elapsed();
    wait_until(Duration::from_secs(5), "the link to empty", || {
        link.totals(Way::Forward).settled() == 1_000
    })
    .unwrap();
    let used = link.cpu_time(Way::Forward).saturating_sub(before);
    let mut lateness_us: Vec<f64> = link
        .truth()
        .iter()
        .filter(|packet| packet.fate == Fate::Delivered)
        .filter_map(|packet| Some((packet.written_ns? - packet.due_ns) as f64 / 1e3))
        .collect();
    lateness_us.sort_by(f64::total_cmp);
    let quantile = |share: f64| lateness_us[(lateness_us.len() as f64 * share) as usize];
    println!(
        "1000 packets/s: released {:.1} us late in the median, {:.1} us at the 99th percentile; {:.0} % of a processor",
        quantile(0.5),
        quantile(0.99),
        100.0 * used.as_secs_f64() / elapsed.as_secs_f64(),
    );
}
