//! Many short connections of nine packets, with the same known round-trip time on either side of
//! the capture point.

use std::collections::HashSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_lab::Sequence;

use crate::Error;
use crate::recorder::{Direction, Measured, Passing, Recorder};
use crate::timestamps::HostTimestamps;
use crate::wire::{Segment, flag};

/// Round trip between the capture point and every client, in nanoseconds.
pub const CLIENT_HALF_NS: u64 = 3_000_000;
/// Round trip between the capture point and every server, in nanoseconds.
pub const SERVER_HALF_NS: u64 = 20_000_000;

/// New connections a second of simulated time.
const CONNECTIONS_PER_SECOND: u64 = 5_000;
/// Longest time a client waits before its request, in nanoseconds.
const REQUEST_WAIT_NS: u64 = 5_000_000;
/// Longest time a client keeps a connection open after the response: with the rate above, some
/// 5,000 connections are open at a time.
const CLOSE_WAIT_NS: u64 = 2_000_000_000;

/// What [`write_connections`] makes.
#[derive(Debug, Clone)]
pub struct ConnectionsOptions {
    /// How many connections, of nine packets each.
    pub connections: u64,
    /// Decides every tuple, number and gap.
    pub seed: u64,
    /// Whether the hosts use TCP timestamps (1 ms ticks).
    pub has_timestamps: bool,
}

/// Makes `options.connections` connections, half of them over IPv6, and records what passes a
/// capture point 3 ms (there and back) from the client and 20 ms from the server.
///
/// ```text
/// client          capture point          server
///   | SYN ------------->|------------------>|
///   |<------------------|<--------- SYN-ACK |   SYN      to server, 20 ms, handshake
///   | ACK ------------->|------------------>|   SYN-ACK  to client,  3 ms, handshake
///   | request --------->|------------------>|
///   |<------------------|<-- response (ACK) |   request  to server, 20 ms, sequence
///   | ACK ------------->|------------------>|   response to client,  3 ms, sequence
///   | FIN ------------->|------------------>|
///   |<------------------|<--------- FIN-ACK |   FIN      to server, 20 ms, sequence
///   | ACK ------------->|------------------>|   FIN-ACK  to client,  3 ms, sequence
/// ```
///
/// # Errors
/// When the recorder cannot write.
pub fn write_connections<C: Write, T: Write>(
    options: &ConnectionsOptions,
    recorder: &mut Recorder<C, T>,
) -> Result<(), Error> {
    let mut random = Sequence::new(options.seed);
    let mut servers_of_clients = HashSet::new();
    let mut packets = Vec::with_capacity(options.connections as usize * 9);
    for index in 0..options.connections {
        let (client, server) = loop {
            let tuple = random_tuple(&mut random, index % 2 == 0);
            if servers_of_clients.insert(tuple) {
                break tuple;
            }
        };
        let flow = recorder.add_flow(client, server);
        let start_ns =
            (index * 1_000_000_000 + random.below(1_000_000_000)) / CONNECTIONS_PER_SECOND;
        Conversation::new(options, flow, start_ns, &mut random).speak(&mut random, &mut packets);
    }
    // A stable sort: packets of one connection at the same instant stay in their order.
    packets.sort_by_key(|(captured_at_ns, _)| *captured_at_ns);
    for (captured_at_ns, passing) in &packets {
        recorder.record(*captured_at_ns, passing)?;
    }
    Ok(())
}

/// Addresses for documentation and benchmarks only: 10.0.0.0/8 and 198.18.0.0/15 (RFC 2544),
/// `2001:db8::/32` (RFC 3849).
fn random_tuple(random: &mut Sequence, is_ipv4: bool) -> (SocketAddr, SocketAddr) {
    let (client, server): (IpAddr, IpAddr) = if is_ipv4 {
        let client = Ipv4Addr::from_bits(0x0a00_0001 + random.below(0x00ff_fffe) as u32);
        (
            client.into(),
            Ipv4Addr::from_bits(0xc612_0001 + random.below(0xffff) as u32).into(),
        )
    } else {
        let prefix = 0x2001_0db8_u128 << 96;
        let client = Ipv6Addr::from_bits(prefix | u128::from(random.bits()));
        (
            client.into(),
            Ipv6Addr::from_bits(prefix | 0xffff << 64 | u128::from(random.below(0x1_0000))).into(),
        )
    };
    let client_port = 32_768 + random.below(28_232) as u16;
    (
        SocketAddr::new(client, client_port),
        SocketAddr::new(server, 20_000 + random.below(100) as u16),
    )
}

/// One end of a connection.
struct Host {
    timestamps: HostTimestamps,
    next_sequence: u32,
    expected: u32,
    /// One way between this host and the capture point.
    distance_ns: u64,
}

/// A connection whose hosts speak in turn: each packet is answered as soon as it arrives, or starts
/// when its host decides.
struct Conversation {
    flow: usize,
    has_timestamps: bool,
    client: Host,
    server: Host,
    now_ns: u64,
}

impl Conversation {
    fn new(
        options: &ConnectionsOptions,
        flow: usize,
        start_ns: u64,
        random: &mut Sequence,
    ) -> Self {
        let mut host = |half_ns: u64| Host {
            timestamps: HostTimestamps::new(random.below(1 << 32) as u32),
            next_sequence: random.below(1 << 32) as u32,
            expected: 0,
            distance_ns: half_ns / 2,
        };
        let (client, server) = (host(CLIENT_HALF_NS), host(SERVER_HALF_NS));
        Self {
            flow,
            has_timestamps: options.has_timestamps,
            client,
            server,
            now_ns: start_ns,
        }
    }

    fn speak(&mut self, random: &mut Sequence, packets: &mut Vec<(u64, Passing)>) {
        use Direction::{ToClient, ToServer};
        let request_bytes = 100 + random.below(900) as u16;
        let response_bytes = 100 + random.below(1250) as u16;
        let syn = self.send(packets, ToServer, flag::SYN, 0, None);
        let syn_ack = self.send(packets, ToClient, flag::SYN | flag::ACK, 0, Some(syn));
        self.send(packets, ToServer, flag::ACK, 0, Some(syn_ack));
        self.client_waits(random.below(REQUEST_WAIT_NS));
        let request = self.send(
            packets,
            ToServer,
            flag::ACK | flag::PSH,
            request_bytes,
            None,
        );
        let response = self.send(
            packets,
            ToClient,
            flag::ACK | flag::PSH,
            response_bytes,
            Some(request),
        );
        self.send(packets, ToServer, flag::ACK, 0, Some(response));
        self.client_waits(random.below(CLOSE_WAIT_NS));
        let fin = self.send(packets, ToServer, flag::FIN | flag::ACK, 0, None);
        let fin_ack = self.send(packets, ToClient, flag::FIN | flag::ACK, 0, Some(fin));
        self.send(packets, ToServer, flag::ACK, 0, Some(fin_ack));
    }

    /// Sends a segment at the present instant, which then becomes that of its arrival.
    fn send(
        &mut self,
        packets: &mut Vec<(u64, Passing)>,
        direction: Direction,
        flags: u8,
        payload_bytes: u16,
        answers: Option<Measured>,
    ) -> Measured {
        let (sender, receiver) = match direction {
            Direction::ToServer => (&mut self.client, &mut self.server),
            Direction::ToClient => (&mut self.server, &mut self.client),
        };
        let timestamps = sender.timestamps.send(self.now_ns, sender.expected);
        let segment = Segment {
            sequence: sender.next_sequence,
            acknowledgement: sender.expected,
            flags,
            payload_bytes,
            timestamps: self.has_timestamps.then_some(timestamps),
            ..Segment::default()
        };
        sender.next_sequence = segment.end();
        receiver.expected = segment.end();
        receiver.timestamps.receive(&segment);
        let captured_at_ns = self.now_ns + sender.distance_ns;
        let transit_ns = Some(receiver.distance_ns);
        let sent_at_ns = self.now_ns;
        packets.push((
            captured_at_ns,
            Passing {
                flow: self.flow,
                direction,
                segment,
                is_retransmission: false,
                sent_at_ns,
                transit_ns,
                answers,
            },
        ));
        self.now_ns = captured_at_ns + receiver.distance_ns;
        Measured {
            captured_at_us: captured_at_ns / 1000,
            is_syn: segment.has(flag::SYN),
            transit_ns,
        }
    }

    /// After an acknowledgement that arrived at the server at the present instant: goes back to
    /// when the client sent it, and waits there.
    fn client_waits(&mut self, wait_ns: u64) {
        self.now_ns = self.now_ns - self.client.distance_ns - self.server.distance_ns + wait_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_a_known_half() {
        let (mut capture, mut truth) = (Vec::new(), Vec::new());
        let mut recorder = Recorder::new(&mut capture, &mut truth).unwrap();
        let options = ConnectionsOptions {
            connections: 200,
            seed: 3,
            has_timestamps: true,
        };
        write_connections(&options, &mut recorder).unwrap();
        let totals = recorder.finish().unwrap();
        assert_eq!(
            (
                totals.packets,
                totals.handshake_samples,
                totals.sequence_samples
            ),
            (1800, 400, 800)
        );
        assert_eq!(totals.retransmissions, 0);
        assert!(
            (1000..=1200).contains(&totals.timestamp_samples),
            "{totals:?}"
        );
        for row in String::from_utf8(truth).unwrap().lines().skip(1) {
            let columns: Vec<&str> = row.split(',').collect();
            let half_ns = if columns[6] == "to-server" {
                SERVER_HALF_NS
            } else {
                CLIENT_HALF_NS
            };
            assert_eq!(columns[7], half_ns.to_string(), "{row}");
            assert_eq!(columns[8], half_ns.to_string(), "{row}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let capture = |seed| {
            let (mut capture, mut truth) = (Vec::new(), Vec::new());
            let mut recorder = Recorder::new(&mut capture, &mut truth).unwrap();
            write_connections(
                &ConnectionsOptions {
                    connections: 50,
                    seed,
                    has_timestamps: true,
                },
                &mut recorder,
            )
            .unwrap();
            (capture, truth)
        };
        assert_eq!(capture(1), capture(1));
        assert_ne!(capture(1), capture(2));
    }

    #[test]
    fn without_the_option_there_are_no_timestamp_samples() {
        let mut recorder = Recorder::new(std::io::sink(), std::io::sink()).unwrap();
        write_connections(
            &ConnectionsOptions {
                connections: 5,
                seed: 1,
                has_timestamps: false,
            },
            &mut recorder,
        )
        .unwrap();
        let totals = recorder.finish().unwrap();
        assert_eq!((totals.timestamp_samples, totals.sequence_samples), (0, 20));
    }
}
