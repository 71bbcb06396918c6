//! One connection as a state machine: datagrams and time in, datagrams out.

use std::time::{Duration, Instant};

use super::packet::{
    ConnectionId, FIXED_BIT, ID_BYTES, LONG_FORM, LongHeader, NUMBER_MASK, PacketType, SPIN_BIT,
    parse_short,
};
use super::{Options, Pace, Report, Spin};
use crate::random::Sequence;

/// Smallest datagram with an Initial packet of a client (RFC 9000 §14.1); both sides use it.
const INITIAL_BYTES: usize = 1_200;
/// Wait before the first retransmission of an Initial packet, doubled each time (RFC 9002 §6.2.2:
/// about 1 s).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MAXIMUM_INITIALS: u64 = 6;
/// A replying client that heard nothing for so long sends again.
const SILENCE: Duration = Duration::from_secs(1);
/// A paced sender that heard nothing for so long ends.
const ABANDONED: Duration = Duration::from_secs(10);
/// A sender that is further behind gives up catching up.
const MAXIMUM_BACKLOG: Duration = Duration::from_millis(100);
/// Which side of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// One side of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    role: Role,
    options: Options,
    random: Sequence,
    own_id: ConnectionId,
    peer_id: ConnectionId,
    /// A server owes an answer to an Initial packet.
    owes_answer: bool,
    /// When the latest datagram came.
    heard: Instant,
    /// When to send next.
    due: Option<Instant>,
    /// Packets to send at once, one for each received.
    replies: u32,
    next_number: u64,
    highest_received: Option<u64>,
    /// Value for the next packet.
    spin: bool,
    last_sent_spin: bool,
    pub(super) report: Report,
}

impl Connection {
    /// A connection whose first packet is due `now`.
    pub(super) fn client(options: Options, now: Instant) -> Self {
        let mut connection = Self::new(Role::Client, options, options.seed, now);
        connection.random.fill(&mut connection.peer_id);
        connection.due = Some(now);
        connection
    }

    /// The server's side of a connection that a valid first `datagram` opens.
    pub(super) fn accept(options: Options, datagram: &[u8], now: Instant) -> Option<Self> {
        let initial = LongHeader::parse(datagram)?;
        if datagram.len() < INITIAL_BYTES {
            return None;
        }
        let options = Options {
            version: initial.version,
            ..options
        };
        let seed = options.seed ^ u64::from_be_bytes(initial.source_id);
        let mut connection = Self::new(Role::Server, options, seed, now);
        connection.on_datagram(datagram, now);
        Some(connection)
    }

    fn new(role: Role, options: Options, seed: u64, now: Instant) -> Self {
        let mut random = Sequence::new(seed ^ role as u64);
        let mut own_id = [0; ID_BYTES];
        random.fill(&mut own_id);
        Self {
            role,
            options,
            random,
            own_id,
            peer_id: [0; ID_BYTES],
            owes_answer: false,
            heard: now,
            due: None,
            replies: 0,
            next_number: 0,
            highest_received: None,
            spin: false,
            last_sent_spin: false,
            report: Report::default(),
        }
    }

    /// When [`Connection::poll`] will have something, unless a datagram comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes a datagram from the peer.
    pub(super) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        self.heard = now;
        if let Some(header) = LongHeader::parse(datagram) {
            self.peer_id = header.source_id;
            match self.role {
                Role::Server => self.owes_answer = true,
                Role::Client if !self.is_established() => {
                    self.establish();
                    self.due = Some(now);
                }
                Role::Client => {}
            }
            return;
        }
        let Some((is_spin_set, number)) = parse_short(datagram, self.own_id) else {
            return;
        };
        self.report.received += 1;
        if !self.is_established() {
            // The client has heard the server: its rate starts.
            self.establish();
            self.due = (self.options.pace != Pace::Reply).then_some(now);
        }
        if self.highest_received.is_none_or(|highest| number > highest) {
            self.highest_received = Some(number);
            self.spin = is_spin_set != (self.role == Role::Client);
        }
        if self.options.pace == Pace::Reply {
            self.replies = self.replies.saturating_add(1);
        }
    }

    /// The next datagram to send at `now`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.owes_answer {
            self.owes_answer = false;
            self.report.handshakes_sent += 1;
            return Some(self.server_handshake());
        }
        let is_due = self.due.is_some_and(|due| due <= now);
        if !self.is_established() {
            return is_due.then(|| self.retry_initial(now)).flatten();
        }
        if self.replies > 0 {
            self.replies -= 1;
        } else if !is_due {
            return None;
        }
        match self.options.pace {
            Pace::PerSecond(rate) => {
                let interval = Duration::from_secs(1) / rate.max(1);
                let due = self.due.unwrap_or(now);
                let backlog = now.saturating_duration_since(due);
                let start = if backlog > MAXIMUM_BACKLOG { now } else { due };
                let is_alone = now.saturating_duration_since(self.heard) > ABANDONED;
                self.due = (!is_alone).then_some(start + interval);
            }
            Pace::Reply => self.due = (self.role == Role::Client).then(|| now + SILENCE),
        }
        Some(self.short_packet())
    }

    fn is_established(&self) -> bool {
        self.report.established > 0
    }

    fn establish(&mut self) {
        self.report.established = 1;
    }

    fn retry_initial(&mut self, now: Instant) -> Option<Vec<u8>> {
        let attempt = self.report.handshakes_sent;
        if attempt >= MAXIMUM_INITIALS {
            self.due = None;
            return None;
        }
        self.report.handshakes_sent += 1;
        self.due = Some(now + INITIAL_TIMEOUT * (1 << attempt));
        let mut datagram = Vec::with_capacity(INITIAL_BYTES);
        self.push_long(&mut datagram, PacketType::Initial, INITIAL_BYTES);
        Some(datagram)
    }

    /// An Initial and a Handshake packet in one datagram, as servers send them.
    fn server_handshake(&mut self) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(INITIAL_BYTES);
        self.push_long(&mut datagram, PacketType::Initial, 200);
        self.push_long(&mut datagram, PacketType::Handshake, INITIAL_BYTES - 200);
        datagram
    }

    /// Appends a long-header packet of `packet_bytes` (RFC 9000 §17.2).
    fn push_long(&mut self, datagram: &mut Vec<u8>, kind: PacketType, packet_bytes: usize) {
        let start = datagram.len();
        let protected_bits = self.random.bits() as u8 & 0x0f;
        let type_bits = kind.bits(self.options.version) << 4;
        datagram.push(LONG_FORM | FIXED_BIT | type_bits | protected_bits);
        datagram.extend_from_slice(&self.options.version.number().to_be_bytes());
        for id in [self.peer_id, self.own_id] {
            datagram.push(ID_BYTES as u8);
            datagram.extend_from_slice(&id);
        }
        if kind == PacketType::Initial {
            // No token.
            datagram.push(0);
        }
        let rest = packet_bytes - (datagram.len() - start) - 2;
        // A two-byte variable-length integer (RFC 9000 §16).
        datagram.extend_from_slice(&(0x4000 | rest as u16).to_be_bytes());
        let payload = datagram.len();
        datagram.resize(start + packet_bytes, 0);
        self.random.fill(&mut datagram[payload..]);
    }

    /// A short-header packet (RFC 9000 §17.3.1); its number stands masked where QUIC's is, in eight
    /// bytes.
    fn short_packet(&mut self) -> Vec<u8> {
        let is_spin_set = match self.options.spin {
            Spin::Active => self.spin,
            Spin::Zero => false,
            Spin::Random => self.random.bits() & 1 == 1,
        };
        self.report.sent += 1;
        self.report.spin_edges += u64::from(is_spin_set != self.last_sent_spin);
        self.last_sent_spin = is_spin_set;
        let protected_bits = self.random.bits() as u8 & 0x1f;
        let spin_bit = if is_spin_set { SPIN_BIT } else { 0 };
        let mut packet = vec![FIXED_BIT | spin_bit | protected_bits];
        packet.extend_from_slice(&self.peer_id);
        packet.extend_from_slice(&(self.next_number ^ NUMBER_MASK).to_be_bytes());
        self.next_number += 1;
        let payload = packet.len();
        packet.resize(self.options.packet_bytes.clamp(32, INITIAL_BYTES), 0);
        self.random.fill(&mut packet[payload..]);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;
    use proptest::prelude::*;

    /// A client and a server after the handshake.
    fn connected(client: Options, server: Options, now: Instant) -> (Connection, Connection) {
        let mut client = Connection::client(client, now);
        let initial = client.poll(now).unwrap();
        assert_eq!(initial.len(), INITIAL_BYTES);
        assert_eq!(client.poll(now), None);
        let mut server = Connection::accept(server, &initial, now).unwrap();
        let answer = server.poll(now).unwrap();
        assert_eq!(answer.len(), INITIAL_BYTES);
        client.on_datagram(&answer, now);
        (client, server)
    }

    #[test]
    fn spin_changes_once_a_round_trip() {
        let now = Instant::now();
        let (mut client, mut server) = connected(Options::default(), Options::default(), now);
        for round in 0..10 {
            let request = client.poll(now).unwrap();
            assert_eq!(request[0] & SPIN_BIT != 0, round % 2 == 1);
            server.on_datagram(&request, now);
            let reply = server.poll(now).unwrap();
            assert_eq!(reply[0] & SPIN_BIT, request[0] & SPIN_BIT);
            assert_eq!(server.poll(now), None);
            client.on_datagram(&reply, now);
        }
        assert_eq!(client.report.spin_edges, 9);
        assert_eq!(server.report.received, 10);
    }

    #[test]
    fn reordered_packets_do_not_spin() {
        let now = Instant::now();
        let (mut client, mut server) = connected(Options::default(), Options::default(), now);
        client.spin = true;
        let early = client.short_packet();
        client.spin = false;
        let late = client.short_packet();
        server.on_datagram(&late, now);
        server.on_datagram(&early, now);
        assert!(!server.spin);
    }

    #[test]
    fn version_2_has_its_own_types() {
        let options = Options {
            version: Version::V2,
            ..Options::default()
        };
        let now = Instant::now();
        let mut client = Connection::client(options, now);
        let initial = client.poll(now).unwrap();
        assert_eq!(initial[0] & 0xf0, 0xd0);
        assert_eq!(initial[1..5], [0x6b, 0x33, 0x43, 0xcf]);
        let server = Connection::accept(Options::default(), &initial, now).unwrap();
        assert_eq!(server.options.version, Version::V2);
    }

    #[test]
    fn pace_and_disabled_spin() {
        let now = Instant::now();
        let options = Options {
            pace: Pace::PerSecond(100),
            spin: Spin::Zero,
            ..Options::default()
        };
        let (mut client, _) = connected(options, options, now);
        assert!(client.poll(now).is_some());
        assert_eq!(client.poll(now), None);
        assert_eq!(client.due(), Some(now + Duration::from_millis(10)));
        client.spin = true;
        let packet = client.poll(now + Duration::from_millis(10)).unwrap();
        assert_eq!(packet[0] & (LONG_FORM | FIXED_BIT | SPIN_BIT), FIXED_BIT);
    }

    #[test]
    fn initial_is_retransmitted_and_given_up() {
        let mut now = Instant::now();
        let mut client = Connection::client(Options::default(), now);
        let mut sent = 0;
        while let Some(due) = client.due() {
            now = due;
            sent += u64::from(client.poll(now).is_some());
        }
        assert_eq!(sent, MAXIMUM_INITIALS);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(datagram in prop::collection::vec(any::<u8>(), 0..64)) {
            let now = Instant::now();
            Connection::client(Options::default(), now).on_datagram(&datagram, now);
            prop_assert!(Connection::accept(Options::default(), &datagram, now).is_none());
        }
    }
}
