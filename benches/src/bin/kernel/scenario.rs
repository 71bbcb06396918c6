//! The packets whose cost is measured, each with what the program must have seen before.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_benches::programs::Step;
use fathom_benches::wire::{Segment, TcpFlags, Timestamps};

const CLIENT_SEQUENCE: u32 = 1_000;
const SERVER_SEQUENCE: u32 = 9_000;
const CLIENT_VALUE: u32 = 500;
const SERVER_VALUE: u32 = 700;
const PAYLOAD_BYTES: u16 = 40;
const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// Odd, so that the addresses it is added to repeat only after 2^32 packets.
const ADDRESS_STEP: u32 = 0x9e37_79b1;

/// A packet to measure.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// What it is, for people.
    pub(crate) name: &'static str,
    /// What the program sees before, once.
    pub(crate) before: Vec<Vec<u8>>,
    /// How flows are opened, all of them, before.
    pub(crate) opening: Option<Step>,
    frame: Vec<u8>,
    /// How it moves on.
    pub(crate) steps: [Step; 2],
    /// Whether its flow is in the table.
    pub(crate) has_flow: bool,
    /// The most that it may cost, as a multiple of the reference, where there is a target.
    pub(crate) most_ratio: Option<f64>,
}

impl Scenario {
    /// All of them, each with a connection of its own; the last fills the table.
    pub(crate) fn all() -> [Self; 10] {
        let without_timestamps = Connection {
            has_timestamps: false,
            ..Connection::v4(1)
        };
        let tagged = Connection {
            is_tagged: true,
            ..Connection::v4(2)
        };
        [
            Self::known_value(),
            Self::new_value(),
            Connection::v4(4).acknowledgement("pure ACK, nothing pending", false),
            Connection::v4(5).acknowledgement("pure ACK that answers nothing, data pending", true),
            Connection::v4(6).sent_again("TCP data, sent again and again"),
            without_timestamps.data("TCP data without timestamps, unanswered", 0),
            Connection::v6(7).data("IPv6 TCP data, known TSval", 0),
            tagged.data("VLAN TCP data, known TSval", 0),
            Connection::v4(8).flood("SYN, another address each time", TcpFlags::SYN),
            Self {
                most_ratio: Some(6.0),
                ..Self::new_flow("ACK, another address each time: a new flow, table full")
            },
        ]
    }

    /// Bulk data within one tick of the sender's clock: most packets of a busy link.
    pub(crate) fn known_value() -> Self {
        Self {
            most_ratio: Some(1.3),
            ..Connection::v4(0).data("TCP data, known TSval", 0)
        }
    }

    pub(crate) fn known_value_with_events() -> Self {
        Self {
            name: "TCP data, known TSval, --events",
            most_ratio: None,
            ..Self::known_value()
        }
    }

    fn new_flow(name: &'static str) -> Self {
        Connection::v4(9).flood(name, TcpFlags::ACK)
    }

    pub(crate) fn new_flow_by_interval() -> Self {
        Self::new_flow("a new flow, table full, --interval")
    }

    /// Data whose sender's clock has moved on: each packet begins a measurement.
    pub(crate) fn new_value() -> Self {
        Connection::v4(3).data("TCP data, new TSval each time, unanswered", 1)
    }

    /// The former of 65,536 connections that take turns, in another order than they were opened in:
    /// the table must have room for them.
    pub(crate) fn many_flows() -> Self {
        let connection = Connection::v4(0);
        let source_port = |by| Step {
            offset: connection.tcp_offset(),
            by,
        };
        Self {
            name: "TCP data, known TSval, 65,536 flows in turns",
            before: Vec::new(),
            opening: Some(source_port(1 << 16)),
            steps: [source_port(0x9e37 << 16), Step::default()],
            most_ratio: Some(1.6),
            ..connection.data("", 0)
        }
    }

    /// The frame after so many repetitions.
    pub(crate) fn frame_after(&self, repetitions: u32) -> Vec<u8> {
        let mut frame = self.frame.clone();
        for step in self.steps {
            step.take(&mut frame, repetitions);
        }
        frame
    }
}

/// A TCP connection seen from its handshake on.
#[derive(Debug, Clone, Copy)]
struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    has_timestamps: bool,
    is_tagged: bool,
}

impl Connection {
    fn v4(number: u16) -> Self {
        Self {
            client: (Ipv4Addr::new(198, 18, 0, 1), 40_000 + number).into(),
            server: (Ipv4Addr::new(198, 19, 0, 1), 443).into(),
            has_timestamps: true,
            is_tagged: false,
        }
    }

    fn v6(number: u16) -> Self {
        let address = |host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
        Self {
            client: (address(1), 40_000 + number).into(),
            server: (address(2), 443).into(),
            ..Self::v4(number)
        }
    }

    fn frame(&self, is_from_client: bool, segment: &Segment) -> Vec<u8> {
        let (source, destination) = if is_from_client {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        let mut bytes = segment.frame(source, destination);
        if self.is_tagged {
            bytes.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
        }
        bytes
    }

    /// A segment of the client's, or of the server's answering it.
    fn segment(&self, is_from_client: bool, flags: TcpFlags, payload_bytes: u16) -> Segment {
        let own = u32::from(!flags.contains(TcpFlags::SYN));
        let (sequence, acknowledgement, value, echo) = if is_from_client {
            (
                CLIENT_SEQUENCE + own,
                SERVER_SEQUENCE + 1,
                CLIENT_VALUE + own,
                SERVER_VALUE,
            )
        } else {
            (
                SERVER_SEQUENCE + own,
                CLIENT_SEQUENCE + 1,
                SERVER_VALUE,
                CLIENT_VALUE,
            )
        };
        Segment {
            sequence,
            acknowledgement,
            flags,
            payload_bytes,
            timestamps: self.has_timestamps.then_some(Timestamps { value, echo }),
        }
    }

    fn handshake(&self) -> Vec<Vec<u8>> {
        vec![
            self.frame(true, &self.segment(true, TcpFlags::SYN, 0)),
            self.frame(
                false,
                &self.segment(false, TcpFlags::SYN | TcpFlags::ACK, 0),
            ),
            self.frame(true, &self.segment(true, TcpFlags::ACK, 0)),
        ]
    }

    fn tcp_offset(&self) -> usize {
        let ip_bytes = if self.client.is_ipv4() { 20 } else { 40 };
        ETHERNET_BYTES + usize::from(self.is_tagged) * TAG_BYTES + ip_bytes
    }

    fn data(&self, name: &'static str, value_step: u32) -> Scenario {
        let sequence = Step {
            offset: self.tcp_offset() + 4,
            by: u32::from(PAYLOAD_BYTES),
        };
        // Behind the header: two NOPs, kind and length of the option.
        let value = Step {
            offset: self.tcp_offset() + 24,
            by: value_step,
        };
        let steps = if value_step == 0 {
            [sequence, Step::default()]
        } else {
            [sequence, value]
        };
        Scenario {
            name,
            before: self.handshake(),
            opening: None,
            frame: self.frame(true, &self.segment(true, TcpFlags::ACK, PAYLOAD_BYTES)),
            steps,
            has_flow: true,
            most_ratio: None,
        }
    }

    fn sent_again(&self, name: &'static str) -> Scenario {
        Scenario {
            steps: [Step::default(); 2],
            ..self.data(name, 0)
        }
    }

    fn acknowledgement(&self, name: &'static str, is_data_pending: bool) -> Scenario {
        let mut before = self.handshake();
        if is_data_pending {
            let mut data = self.segment(true, TcpFlags::ACK, PAYLOAD_BYTES);
            data.timestamps = Some(Timestamps {
                value: CLIENT_VALUE + 100,
                echo: SERVER_VALUE,
            });
            before.push(self.frame(true, &data));
        }
        Scenario {
            name,
            before,
            opening: None,
            frame: self.frame(false, &self.segment(false, TcpFlags::ACK, 0)),
            steps: [Step::default(); 2],
            has_flow: true,
            most_ratio: None,
        }
    }

    fn flood(&self, name: &'static str, flags: TcpFlags) -> Scenario {
        let source_address = Step {
            offset: ETHERNET_BYTES + 12,
            by: ADDRESS_STEP,
        };
        Scenario {
            name,
            before: Vec::new(),
            opening: None,
            frame: self.frame(true, &self.segment(true, flags, 0)),
            steps: [source_address, Step::default()],
            has_flow: false,
            most_ratio: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(frame: &[u8], offset: usize) -> u32 {
        u32::from_be_bytes(frame[offset..offset + 4].try_into().unwrap())
    }

    #[test]
    fn data_moves_on_by_its_sequence_number_and_value() {
        let tagged = Connection {
            is_tagged: true,
            ..Connection::v4(1)
        };
        for connection in [Connection::v4(0), Connection::v6(0), tagged] {
            let scenario = connection.data("data", 1);
            let [sequence, value] = scenario.steps;
            let start = scenario.frame_after(0);
            assert_eq!(number(&start, sequence.offset), CLIENT_SEQUENCE + 1);
            assert_eq!(number(&start, value.offset), CLIENT_VALUE + 1);
            let later = scenario.frame_after(3);
            let moved = CLIENT_SEQUENCE + 1 + 3 * u32::from(PAYLOAD_BYTES);
            assert_eq!(number(&later, sequence.offset), moved);
            assert_eq!(number(&later, value.offset), CLIENT_VALUE + 4);
        }
    }

    #[test]
    fn a_flood_moves_on_by_its_source_address() {
        let scenario = Connection::v4(0).flood("flood", TcpFlags::SYN);
        let address = number(&scenario.frame_after(0), scenario.steps[0].offset);
        assert_eq!(Ipv4Addr::from_bits(address), Ipv4Addr::new(198, 18, 0, 1));
        assert_ne!(scenario.frame_after(1), scenario.frame_after(0));
    }
}
