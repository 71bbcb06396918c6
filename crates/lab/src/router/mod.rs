//! A router whose kernel forwards nothing: a thread does, as it was told, with habits that Linux
//! routers do not have.

mod answer;
mod packet;
mod port;
mod transit;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::port::Port;
use self::transit::{Side, Transit, Verdict};
use crate::link::{PRIORITY, precede_ordinary_threads};
use crate::worker::STOP_LATENCY;
use crate::{Error, Namespace, Result, Stop, Worker};

/// The longest packet that a device passes in one piece.
const PACKET_BYTES: usize = 1 << 16;

/// What a router of a [`Chain`](crate::Chain) does instead of Linux; put there by
/// [`ChainBuilder::scripted`](crate::ChainBuilder::scripted).
///
/// It forwards both families, takes one from the TTL, and answers packets that have none left by a
/// time-exceeded message from its near address, with a TTL of 255. It answers nothing else, not
/// even an echo request to itself. Beside it, plain links have no offloads. The default is a router
/// whose answers quote as much as those of Linux.
///
/// # Examples
/// ```
/// use fathom_lab::{MplsLabel, ScriptedRouter};
/// let label = MplsLabel { label: 24_001, traffic_class: 0, ttl: 1 };
/// let router = ScriptedRouter { labels: vec![label], ..ScriptedRouter::default() };
/// assert!(router.interface.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedRouter {
    /// Which expired packets are answered.
    pub answers: Answers,
    /// Most bytes that are quoted after the IP header; 8 is the least that RFC 792 allows. An
    /// answer has at most 576 bytes (IPv4) or 1280 (IPv6), and with extensions quotes at most 128
    /// bytes, header included, filled up with zeroes (RFC 4884 §5).
    pub quoted_payload_bytes: usize,
    /// The label stack of its answers, outermost first (RFC 4950); empty is none.
    pub labels: Vec<MplsLabel>,
    /// The interface its answers name (RFC 5837).
    pub interface: Option<InterfaceInformation>,
    /// Whether the answers state the length of the quote, as RFC 4884 demands of those with
    /// extensions; older routers do not.
    pub is_length_stated: bool,
    /// DSCP (0 to 63) that packets from the client's side leave with.
    pub dscp: Option<u8>,
    /// ECN field (0 to 3) that packets from the client's side leave with.
    pub ecn: Option<u8>,
    /// Translation of the client's address.
    pub translation: Option<Translation>,
}

impl Default for ScriptedRouter {
    fn default() -> Self {
        Self {
            answers: Answers::Always,
            quoted_payload_bytes: PACKET_BYTES,
            labels: Vec::new(),
            interface: None,
            is_length_stated: true,
            dscp: None,
            ecn: None,
            translation: None,
        }
    }
}

/// Which expired packets a router answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// All.
    Always,
    /// The first and then every n-th; 0 and 1 are all.
    EveryNth(u32),
    /// None.
    Never,
}

/// An entry of a label stack (RFC 3032 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MplsLabel {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 3 bits.
    pub traffic_class: u8,
    /// The time to live that the entry arrived with.
    pub ttl: u8,
}

/// What an answer tells of the interface on which the expired packet came in (RFC 5837), next to
/// the address the answer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceInformation {
    /// The index of the interface.
    pub index: u32,
    /// Its name; at most 63 bytes are told.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
}

/// A translation that knows one inside host, the client, whose packets leave from the router's far
/// address, and back (RFC 3022).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// What is added to the client's TCP and UDP ports, modulo 65,536.
    pub port_offset: u16,
    /// Whether ICMP errors have the client's address and port put back into what they quote; the
    /// quoted transport checksum stays as translated.
    pub restores_quotes: bool,
}

/// What is joined to one side of a router.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) interface: String,
    /// Where packets out of the interface go on Ethernet.
    pub(crate) neighbour: Option<[u8; 6]>,
}

/// The addresses of one family that a router uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    /// What it answers as.
    pub(crate) own: IpAddr,
    /// What the client is translated to.
    pub(crate) outside: IpAddr,
    /// Who is translated.
    pub(crate) client: IpAddr,
}

/// Starts the router in `namespace`, between its near and its far attachment; it ends with the
/// worker.
pub(crate) fn start(
    namespace: &Namespace,
    script: &ScriptedRouter,
    identities: [Identity; 2],
    near: &Attachment,
    far: &Attachment,
) -> Result<Worker<()>> {
    let failed =
        |source: io::Error| Error::runtime(format!("start router `{}`", namespace.name()), source);
    let ports = namespace
        .enter(|| Ok([Port::open(near)?, Port::open(far)?]))?
        .map_err(failed)?;
    let mut transit = Transit::new(script.clone(), identities);
    Worker::start("router", move |stop| {
        // Without the privilege it only takes longer.
        let _ = precede_ordinary_threads(PRIORITY);
        // It fails when an interface goes away, and then there is nothing left to forward.
        let _ = forward(&ports, &mut transit, stop);
    })
}

fn forward(ports: &[Port; 2], transit: &mut Transit, stop: &Stop) -> io::Result<()> {
    let [near, far] = ports;
    let mut buffer = vec![0; PACKET_BYTES];
    let patience = PollTimeout::try_from(STOP_LATENCY).unwrap_or(PollTimeout::ZERO);
    while !stop.is_set() {
        let mut events = [near, far].map(|port| PollFd::new(port.as_fd(), PollFlags::POLLIN));
        match poll(&mut events, patience) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (side, from, to) in [(Side::Near, near, far), (Side::Far, far, near)] {
            while let Some(length) = from.receive(&mut buffer)? {
                let packet = &mut buffer[..length];
                // What an interface refuses is lost, as behind any router.
                let _ = match transit.pass(packet, side) {
                    Verdict::Forward => to.send(packet),
                    Verdict::Answer(answer) => from.send(&answer),
                    Verdict::Drop => Ok(()),
                };
                if stop.is_set() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
