//! The contender: a packet socket that sees all that leaves, and sends headers once more from user
//! space, with real-time priority.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Context;
use fathom_benches::live::link_address;
use fathom_lab::{Stop, Worker};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimeout};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::application::SAMPLED;

const BUFFER_BYTES: usize = 64 << 20;
const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_OFFSET: usize = ETHERNET_BYTES + IP_BYTES;
const HEADERS_BYTES: usize = UDP_OFFSET + 8;
/// Of the highest real-time priorities, below those of the kernel's own threads.
const PRIORITY: i32 = 50;
/// How often it looks whether to end.
const PATIENCE_MS: i64 = 50;

/// It, at work on a processor of its own.
pub(super) struct Cloner(Worker<anyhow::Result<()>>);

impl Cloner {
    /// Starts it on an interface of this thread's namespace.
    pub(super) fn start(interface: &str, processor: usize) -> anyhow::Result<Self> {
        let socket = open(interface).context("open the packet socket")?;
        let work = move |stop: &Stop| {
            fathom_lab::stay_on(processor).context("stay on a processor")?;
            be_real_time().context("get real-time priority")?;
            clone_until(&socket, stop).context("clone packets")
        };
        Ok(Self(Worker::start("cloner", work)?))
    }

    /// Ends it.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.0.finish()
    }
}

fn open(interface: &str) -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )?;
    setsockopt(&socket, RcvBufForce, &BUFFER_BYTES)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(PATIENCE_MS))?;
    bind(socket.as_raw_fd(), &link_address(interface)?)?;
    Ok(socket)
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn be_real_time() -> nix::Result<()> {
    let priority = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: the pointer is valid.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    Errno::result(status).map(drop)
}

fn clone_until(socket: &OwnedFd, stop: &Stop) -> nix::Result<()> {
    let mut frame = [0; 128];
    while !stop.is_set() {
        let length = match recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(error),
        };
        if let Some(probe) = probe(&frame[..length]) {
            send(socket.as_raw_fd(), &probe, MsgFlags::empty())?;
        }
    }
    Ok(())
}

/// The probe of a packet that is to have one: the same that fathom makes.
fn probe(frame: &[u8]) -> Option<[u8; HEADERS_BYTES]> {
    let (headers, payload) = frame.split_first_chunk::<HEADERS_BYTES>()?;
    let is_udp = headers[12..14] == [0x08, 0x00] && headers[ETHERNET_BYTES + 9] == 17;
    let number = u32::from_ne_bytes(*payload.first_chunk()?);
    if !is_udp || !number.is_multiple_of(SAMPLED) {
        return None;
    }
    let number = (number / SAMPLED + 1) as u16;
    let mut probe = *headers;
    let ip = &mut probe[ETHERNET_BYTES..UDP_OFFSET];
    ip[2..4].copy_from_slice(&28_u16.to_be_bytes());
    ip[4..6].copy_from_slice(&number.to_be_bytes());
    ip[8] = 1;
    ip[10..12].fill(0);
    let (words, _) = ip.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    probe[UDP_OFFSET + 4..UDP_OFFSET + 6].copy_from_slice(&(0x4000 | number).to_be_bytes());
    Some(probe)
}
