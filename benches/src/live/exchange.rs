//! Connections that exist as packets only: every exchange is a request with a new timestamp and the
//! answer that echoes it.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockType, bind, sendmmsg, socket,
};

use crate::wire::{Segment, TcpFlags, Timestamps};

const PAYLOAD_BYTES: u16 = 40;
/// Requests are sent in bunches, at the start of each of these; the answers follow one later, which
/// makes the round trip.
const TICK: Duration = Duration::from_millis(1);

const TCP_OFFSET: usize = 14 + 20;
const SEQUENCE_OFFSET: usize = TCP_OFFSET + 4;
const ACKNOWLEDGEMENT_OFFSET: usize = TCP_OFFSET + 8;
/// Behind the TCP header: two NOPs, kind and length of the option.
const VALUE_OFFSET: usize = TCP_OFFSET + 24;
const ECHO_OFFSET: usize = TCP_OFFSET + 28;

/// What answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// A pure acknowledgement: an exchange gives one sample, towards the server.
    Acknowledgements,
    /// Data with a timestamp of its own, which the next request echoes: an exchange gives a sample
    /// towards each side.
    Data,
}

/// The frames of all flows in one direction, each of the same length, changed in place from one
/// exchange to the next.
#[derive(Debug)]
struct Side {
    frames: Vec<u8>,
    frame_bytes: usize,
}

impl Side {
    fn new(flows: u32, frame: impl Fn(u32) -> Vec<u8>) -> Self {
        let frames: Vec<u8> = (0..flows).flat_map(&frame).collect();
        Self {
            frame_bytes: frames.len() / flows as usize,
            frames,
        }
    }

    fn frame(&self, flow: usize) -> &[u8] {
        &self.frames[flow * self.frame_bytes..][..self.frame_bytes]
    }

    fn number(&self, flow: usize, offset: usize) -> u32 {
        let bytes = &self.frame(flow)[offset..];
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn set(&mut self, flow: usize, offset: usize, number: u32) {
        let start = flow * self.frame_bytes + offset;
        self.frames[start..start + 4].copy_from_slice(&number.to_be_bytes());
    }

    fn add(&mut self, flow: usize, offset: usize, difference: u32) {
        self.set(
            flow,
            offset,
            self.number(flow, offset).wrapping_add(difference),
        );
    }
}

/// What a packet socket is bound to, for an interface of this thread's namespace.
pub fn link_address(interface: &str) -> nix::Result<LinkAddr> {
    getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or(Errno::ENODEV)
}

/// Many connections, and the socket that their packets go through.
#[derive(Debug)]
pub struct Exchanges {
    socket: OwnedFd,
    requests: Side,
    answered: Side,
    answers: Answers,
    flows: usize,
}

impl Exchanges {
    /// Opens a packet socket on `interface` of this thread's namespace.
    pub(super) fn open(interface: &str, flows: u32, answers: Answers) -> nix::Result<Self> {
        // Protocol 0: it receives nothing.
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        bind(socket.as_raw_fd(), &link_address(interface)?)?;
        Ok(Self {
            socket,
            requests: Side::new(flows, request),
            answered: Side::new(flows, |flow| answer(flow, answers)),
            answers,
            flows: flows as usize,
        })
    }

    /// Sends `rounds` exchanges of every flow in turn, `exchanges_per_second` of them together, or
    /// later if the machine is too slow; says how long it took. Every exchange gives its samples,
    /// the first too.
    pub fn send(&mut self, rounds: u32, exchanges_per_second: u32) -> nix::Result<Duration> {
        let total = self.flows * rounds as usize;
        let bunch = exchanges_per_second as usize * TICK.as_millis() as usize / 1000;
        let start = Instant::now();
        let mut due = start;
        let mut unanswered = 0..0;
        while unanswered.end < total || !unanswered.is_empty() {
            let asked = unanswered.end..(unanswered.end + bunch).min(total);
            for position in asked.clone() {
                self.move_request_on(position % self.flows);
            }
            self.transmit(&self.requests, asked.clone())?;
            for position in unanswered.clone() {
                self.move_answer_on(position % self.flows);
            }
            self.transmit(&self.answered, unanswered)?;
            unanswered = asked;
            due += TICK;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(start.elapsed())
    }

    fn move_request_on(&mut self, flow: usize) {
        self.requests
            .add(flow, SEQUENCE_OFFSET, PAYLOAD_BYTES.into());
        self.requests.add(flow, VALUE_OFFSET, 1);
        if self.answers == Answers::Data {
            let value = self.answered.number(flow, VALUE_OFFSET);
            self.requests.set(flow, ECHO_OFFSET, value);
            self.requests
                .add(flow, ACKNOWLEDGEMENT_OFFSET, PAYLOAD_BYTES.into());
        }
    }

    fn move_answer_on(&mut self, flow: usize) {
        let value = self.requests.number(flow, VALUE_OFFSET);
        self.answered.set(flow, ECHO_OFFSET, value);
        self.answered
            .add(flow, ACKNOWLEDGEMENT_OFFSET, PAYLOAD_BYTES.into());
        if self.answers == Answers::Data {
            self.answered
                .add(flow, SEQUENCE_OFFSET, PAYLOAD_BYTES.into());
            self.answered.add(flow, VALUE_OFFSET, 1);
        }
    }

    fn transmit(&self, side: &Side, positions: std::ops::Range<usize>) -> nix::Result<()> {
        let slices: Vec<[IoSlice<'_>; 1]> = positions
            .map(|position| [IoSlice::new(side.frame(position % self.flows))])
            .collect();
        let mut sent = 0;
        while sent < slices.len() {
            let rest = &slices[sent..];
            let mut headers = MultiHeaders::<()>::preallocate(rest.len(), None);
            let addresses = vec![None; rest.len()];
            match sendmmsg(
                self.socket.as_raw_fd(),
                &mut headers,
                rest,
                addresses,
                [],
                MsgFlags::empty(),
            ) {
                Ok(results) => sent += results.count(),
                // A queue on the way is full for the moment; the packet was not taken.
                Err(Errno::ENOBUFS | Errno::EAGAIN) => thread::yield_now(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// 256 clients in each of many /24 networks, one port each; 64 servers.
fn ends(flow: u32) -> (SocketAddr, SocketAddr) {
    let client = Ipv4Addr::from_bits(Ipv4Addr::new(100, 64, 0, 0).to_bits() + flow);
    let server = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 1).to_bits() + flow % 64);
    ((client, 40_000).into(), (server, 443).into())
}

fn request(flow: u32) -> Vec<u8> {
    let (client, server) = ends(flow);
    let segment = Segment {
        sequence: 1_000,
        acknowledgement: 2_000,
        flags: TcpFlags::ACK | TcpFlags::PSH,
        payload_bytes: PAYLOAD_BYTES,
        timestamps: Some(Timestamps { value: 10, echo: 5 }),
    };
    segment.frame(client, server)
}

fn answer(flow: u32, answers: Answers) -> Vec<u8> {
    let (client, server) = ends(flow);
    let segment = Segment {
        sequence: 2_000
            - if answers == Answers::Data {
                u32::from(PAYLOAD_BYTES)
            } else {
                0
            },
        acknowledgement: 1_000 + u32::from(PAYLOAD_BYTES),
        flags: TcpFlags::ACK,
        payload_bytes: if answers == Answers::Data {
            PAYLOAD_BYTES
        } else {
            0
        },
        timestamps: Some(Timestamps { value: 5, echo: 10 }),
    };
    segment.frame(server, client)
}
