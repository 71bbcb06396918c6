//! A store whose sessions are known.

use std::net::{IpAddr, Ipv6Addr};

use fathom_record::{FlowKey, Histogram, Nanoseconds, Protocol, Record, Time};
use fathom_store::{Batches, Settings, Writer};
use tempfile::TempDir;

use crate::records::{Agent, Dns, Profile, Responses, RoundTrips, Traffic};

pub(crate) const MILLISECOND: u64 = 1_000_000;
/// 2025-11-24T16:00:00Z.
const BEGIN_S: u64 = 1_764_000_000;
const NETWORKS: &str =
    "prefix,name\n192.0.2.0/24,north\n2001:db8:1::/48,north\n198.51.100.0/24,south\n";
/// The client's ports follow it.
const CLIENT_PORT: u16 = 40_000;
/// Sessions of each kind.
pub(crate) const SESSIONS: u16 = 20;

fn time(second: u64) -> Time {
    Time((BEGIN_S + second) * 1_000_000_000)
}

fn flow(server: IpAddr, port: u16) -> FlowKey {
    let client = match server {
        IpAddr::V4(_) => IpAddr::from([10, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1)),
    };
    FlowKey {
        protocol: Protocol::TCP,
        source: client,
        source_port: port,
        destination: server,
        destination_port: 443,
    }
}

/// The profile of a short connection, which sent data again.
fn short_connection(flow: FlowKey, rtt_ms: u64) -> Profile {
    let [first, last] = connection(flow, rtt_ms, 0);
    Profile {
        start_state: first.start_state,
        establishment_ns: first.establishment_ns,
        packets_retransmitted: 1,
        ..last
    }
}

/// The two profiles of a connection that the host opened.
fn connection(flow: FlowKey, rtt_ms: u64, syn_losses: u64) -> [Profile; 2] {
    let second = u64::from(flow.source_port - CLIENT_PORT);
    let first = Profile {
        time: time(second),
        flow,
        start_state: "NEW",
        end_state: "ESTABLISHED",
        role: "client",
        establishment_ns: Some(Nanoseconds((rtt_ms + 1_000 * syn_losses) * MILLISECOND)),
        total_duration_ns: None,
        total_rtt_samples: None,
        total_rtt_mean_ns: None,
        total_stalled_ns: None,
        packets_retransmitted: syn_losses,
        jitter_ns: Some(Nanoseconds(rtt_ms * MILLISECOND / 2)),
        interface: "eth0",
    };
    let last = Profile {
        time: time(second + 10),
        start_state: "ESTABLISHED",
        end_state: "FINISHED",
        establishment_ns: None,
        total_duration_ns: Some(Nanoseconds(10_000 * MILLISECOND)),
        total_rtt_samples: Some(100),
        total_rtt_mean_ns: Some(Nanoseconds(rtt_ms * MILLISECOND)),
        total_stalled_ns: Some(Nanoseconds(syn_losses * 1_000 * MILLISECOND)),
        packets_retransmitted: 0,
        jitter_ns: Some(Nanoseconds(rtt_ms * MILLISECOND / 10)),
        ..first
    };
    [first, last]
}

/// What packets tell of the same flow, at two interfaces of a router.
fn packets(flow: FlowKey, rtt_ms: u64) -> Vec<Box<dyn Record>> {
    let mut records: Vec<Box<dyn Record>> = Vec::new();
    let (time, duration_ns) = (time(60), Nanoseconds(60_000 * MILLISECOND));
    for interface in ["lan0", "wan0"] {
        let round_trips = |flow, ms| RoundTrips {
            time,
            duration_ns,
            flow,
            rtt_samples: 5,
            rtt_mean_ns: Nanoseconds(ms * MILLISECOND),
            interface,
        };
        let mut latency_histogram = Histogram::new();
        latency_histogram.record(2 * rtt_ms * MILLISECOND);
        records.push(Box::new(Traffic {
            time,
            duration_ns,
            flow,
            interface,
        }));
        records.push(Box::new(round_trips(flow, rtt_ms)));
        records.push(Box::new(round_trips(flow.reversed(), 1)));
        records.push(Box::new(Responses {
            time,
            duration_ns,
            flow,
            latency_p50_ns: Some(Nanoseconds(2 * rtt_ms * MILLISECOND)),
            interface,
            latency_histogram,
        }));
    }
    records
}

/// Sessions to three servers: over IPv4 20 to 39 ms away, of which five lose their SYN; over IPv6
/// 10 to 29 ms; both of the network `north`; and of `south`, 50 ms and over IPv4 alone.
pub(crate) fn store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let north_6 = IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
    let (north_4, south) = (
        IpAddr::from([192, 0, 2, 1]),
        IpAddr::from([198, 51, 100, 1]),
    );
    let mut records: Vec<Box<dyn Record>> = vec![Box::new(Agent {
        time: time(1),
        labels: "site=ber1",
    })];
    for number in 1..=SESSIONS {
        let more = u64::from(number) - 1;
        let syn_losses = u64::from(number <= 5);
        for (server, rtt_ms, syn_losses) in
            [(north_4, 20 + more, syn_losses), (north_6, 10 + more, 0)]
        {
            let flow = flow(server, CLIENT_PORT + number);
            records.extend(connection(flow, rtt_ms, syn_losses).map(|it| Box::new(it) as _));
            records.extend(packets(flow, rtt_ms));
        }
        let to_south = flow(south, CLIENT_PORT + number);
        records.push(Box::new(short_connection(to_south, 50)));
        records.extend(packets(to_south, 50));
        let resolver = FlowKey {
            protocol: Protocol::UDP,
            destination_port: 53,
            ..flow(north_4, number)
        };
        records.push(Box::new(Dns {
            time: time(more),
            flow: resolver,
            latency_ns: Nanoseconds((1 + more) * MILLISECOND),
        }));
    }
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    let mut batches = Batches::new("desk");
    for record in &records {
        batches.put(&**record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap();
    std::fs::write(directory.path().join("networks.csv"), NETWORKS).unwrap();
    directory
}
