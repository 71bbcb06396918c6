//! The packets that are not cloned, whose cost is measured.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_benches::programs::Step;
use fathom_benches::wire::{Segment, TcpFlags, Timestamps};

const ETHERNET_BYTES: usize = 14;
const PAYLOAD_BYTES: u16 = 40;
const UDP: u8 = 17;
/// The port that is selected, and one that is not.
pub(crate) const SELECTED: u16 = 443;
const OTHER: u16 = 80;

/// A packet to measure.
#[derive(Debug)]
pub(crate) struct Packet {
    /// What it is, for people.
    pub(crate) name: String,
    /// Which program sees it.
    pub(crate) program: &'static str,
    /// What leaves before it, once.
    pub(crate) before: Option<Vec<u8>>,
    /// Whether only flows of some processes are probed, and this is not one of theirs.
    pub(crate) selects_processes: bool,
    pub(crate) frame: Vec<u8>,
    /// How it moves on.
    pub(crate) step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

/// A flow of this host's.
#[derive(Debug, Clone, Copy)]
struct Flow {
    protocol: Protocol,
    near: SocketAddr,
    far: SocketAddr,
}

impl Packet {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let flows = [false, true].into_iter().flat_map(|is_ipv6| {
            [Protocol::Tcp, Protocol::Udp].map(|protocol| Flow::new(protocol, is_ipv6, SELECTED))
        });
        flows.flat_map(Flow::packets).collect()
    }

    fn new(what: &str, program: &'static str, frame: Vec<u8>) -> Self {
        Self {
            name: what.to_owned(),
            program,
            before: None,
            selects_processes: false,
            frame,
            step: Step::default(),
        }
    }
}

impl Flow {
    fn new(protocol: Protocol, is_ipv6: bool, port: u16) -> Self {
        let (near, far): (SocketAddr, SocketAddr) = if is_ipv6 {
            let address = |host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
            ((address(1), 40_000).into(), (address(2), port).into())
        } else {
            let (near, far) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1));
            ((near, 40_000).into(), (far, port).into())
        };
        Self {
            protocol,
            near,
            far,
        }
    }

    fn transport(&self) -> usize {
        ETHERNET_BYTES + if self.near.is_ipv4() { 20 } else { 40 }
    }

    fn tcp(&self, is_leaving: bool, flags: TcpFlags) -> Vec<u8> {
        let segment = Segment {
            sequence: 1_000,
            acknowledgement: 9_000,
            flags,
            payload_bytes: PAYLOAD_BYTES,
            timestamps: Some(Timestamps {
                value: 500,
                echo: 700,
            }),
        };
        let (source, destination) = if is_leaving {
            (self.near, self.far)
        } else {
            (self.far, self.near)
        };
        segment.frame(source, destination)
    }

    fn frame(&self, is_leaving: bool) -> Vec<u8> {
        let mut frame = self.tcp(is_leaving, TcpFlags::ACK);
        if self.protocol == Protocol::Udp {
            // Ports are where they were. No checksum is looked at.
            let protocol = if self.near.is_ipv4() { 9 } else { 6 };
            frame[ETHERNET_BYTES + protocol] = UDP;
            let transport = self.transport();
            let length = (frame.len() - transport) as u16;
            frame[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
        }
        frame
    }

    /// What of it, and of others like it, is measured.
    fn packets(self) -> Vec<Packet> {
        let unselected = Self {
            far: SocketAddr::new(self.far.ip(), OTHER),
            ..self
        };
        let before = Some(self.frame(true));
        let mut packets = vec![
            Packet {
                before: before.clone(),
                step: self.step(),
                ..Packet::new("leaving in a followed flow", "leaving", self.frame(true))
            },
            Packet {
                step: self.step(),
                ..Packet::new("leaving, not selected", "leaving", unselected.frame(true))
            },
            Packet {
                selects_processes: true,
                step: self.step(),
                ..Packet::new("leaving, of another process", "leaving", self.frame(true))
            },
            Packet {
                before,
                ..Packet::new("reply to a followed flow", "arriving", self.frame(false))
            },
            Packet::new(
                "arriving, not selected",
                "arriving",
                unselected.frame(false),
            ),
            Packet::new("arriving, of no flow", "arriving", self.frame(false)),
        ];
        if self.protocol == Protocol::Tcp {
            let syn = self.tcp(true, TcpFlags::SYN);
            packets.push(Packet::new("leaving, of no flow: SYN", "leaving", syn));
        }
        for packet in &mut packets {
            packet.name = format!("{}, {}", packet.name, self.describe());
        }
        packets
    }

    fn describe(&self) -> String {
        let family = if self.near.is_ipv4() { "IPv4" } else { "IPv6" };
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        format!("{family} {protocol}")
    }

    /// TCP has new data each time.
    fn step(&self) -> Step {
        match self.protocol {
            Protocol::Tcp => Step {
                offset: self.transport() + 4,
                by: PAYLOAD_BYTES.into(),
            },
            Protocol::Udp => Step::default(),
        }
    }
}
