//! What passes an interface, with the kernel's own times.

use std::io::{self, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimestampns};
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, RecvMsg, recvmsg, setsockopt};

use crate::link::{Layer, PRIORITY, PacketHeader, precede_ordinary_threads};
use crate::worker::{STOP_LATENCY, Stop};
use crate::{Error, Namespace, Result, Worker};

/// What may wait for the thread that reads: seconds of the traffic of a test.
const BUFFER_BYTES: usize = 64 << 20;
/// The longest packet that a device passes in one piece.
const PACKET_BYTES: usize = 1 << 16;

/// A packet as the kernel saw it pass an interface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// When, in ns of `CLOCK_REALTIME`, stamped in the kernel by the CPU that carried the packet.
    pub time_ns: u64,
    /// Whether it left through the interface.
    pub is_outgoing: bool,
    /// Its headers.
    pub header: PacketHeader,
}

/// What passed, each with its first bytes.
type Packets = Vec<(Passed, Vec<u8>)>;

/// Watches all IP packets of an interface from its start to [`Tap::finish`].
///
/// A [`Link`](crate::Link) says when its threads read and wrote a packet, which may be later than
/// it passed: a thread can wait for a CPU. The time of a tap can not.
///
/// # Examples
/// ```no_run
/// use fathom_lab::{Tap, Topology};
/// let lab = Topology::builder().build()?;
/// let tap = Tap::start(&lab.router, Topology::WAN_INTERFACE)?;
/// lab.client.run("ping -c 3 10.77.2.1")?;
/// assert_eq!(tap.finish()?.len(), 6);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Tap {
    interface: String,
    worker: Worker<io::Result<Packets>>,
}

impl Tap {
    /// Starts to watch `interface`, which carries bare IP packets; whatever passes after the return
    /// is seen.
    ///
    /// # Errors
    /// [`Error::Namespace`] or [`Error::Runtime`] without privileges or without the interface.
    pub fn start(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::keeping(0, namespace, interface)
    }

    /// The same, and keeps the first `bytes` of each packet for [`Tap::finish_with_bytes`].
    ///
    /// # Errors
    /// As [`Tap::start`].
    pub fn keeping(bytes: usize, namespace: &Namespace, interface: &str) -> Result<Self> {
        let socket = namespace
            .enter(|| open(interface))?
            .map_err(|source| Error::runtime(format!("watch {interface}"), source))?;
        Ok(Self {
            interface: interface.to_owned(),
            worker: Worker::start("tap", move |stop| read_until(&socket, bytes, stop))?,
        })
    }

    /// All that passed so far, in order of time.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the socket failed, or lost packets because the thread that reads had
    /// no CPU for too long.
    pub fn finish(self) -> Result<Vec<Passed>> {
        let packets = self.finish_with_bytes()?;
        Ok(packets.into_iter().map(|(passed, _)| passed).collect())
    }

    /// The same, each with its first bytes, from the IP header on.
    ///
    /// # Errors
    /// As [`Tap::finish`].
    pub fn finish_with_bytes(self) -> Result<Vec<(Passed, Vec<u8>)>> {
        let mut passed = self
            .worker
            .finish()
            .map_err(|source| Error::runtime(format!("watch {}", self.interface), source))?;
        passed.sort_by_key(|(packet, _)| packet.time_ns);
        Ok(passed)
    }
}

/// A socket that takes all packets of `interface`, without their link layer, and when they passed;
/// it does not block.
#[expect(
    unsafe_code,
    reason = "nix neither opens packet sockets for all protocols nor makes their addresses"
)]
pub(crate) fn open(interface: &str) -> io::Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    // Without a protocol it takes no packets, so that none of another interface comes before the
    // address is bound.
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: integers only.
    let status = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    let status = Errno::result(status)?;
    // SAFETY: a new descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(status) };
    setsockopt(&socket, RcvBufForce, &BUFFER_BYTES)?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of_val(&address) as u32;
    // SAFETY: the kernel reads one address, which outlives the call.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(status)?;
    Ok(socket)
}

/// Everything until told to end, and then what still waits.
fn read_until(socket: &OwnedFd, kept_bytes: usize, stop: &Stop) -> io::Result<Packets> {
    if kept_bytes > 0 {
        // Who keeps packets wants all of a busy lab's; without the privilege some may be lost.
        let _ = precede_ordinary_threads(PRIORITY);
    }
    let mut passed = Vec::new();
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        let is_last = stop.is_set();
        while read(socket, kept_bytes, &mut buffer, &mut passed)? {}
        if is_last {
            break;
        }
        let mut events = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut events, STOP_LATENCY.as_millis() as u16)?;
    }
    match lost(socket)? {
        0 => Ok(passed),
        count => Err(io::Error::other(format!("{count} packets were lost"))),
    }
}

/// Takes the next packet, kept if it is IP; whether there was one.
fn read(
    socket: &OwnedFd,
    kept_bytes: usize,
    buffer: &mut [u8],
    passed: &mut Packets,
) -> io::Result<bool> {
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = match recvmsg::<LinkAddr>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Ok(message) => message,
        Err(Errno::EAGAIN) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_outgoing = message
        .address
        .is_some_and(|address| address.pkttype() == libc::PACKET_OUTGOING);
    let time_ns = received_ns(&message)?;
    let time_ns = time_ns.ok_or_else(|| io::Error::other("a packet came without a time"))?;
    let length = message.bytes;
    let packet = &buffer[..length];
    passed.extend(PacketHeader::parse(Layer::Ip, packet).map(|header| {
        let passed = Passed {
            time_ns,
            is_outgoing,
            header,
        };
        (passed, packet[..packet.len().min(kept_bytes)].to_vec())
    }));
    Ok(true)
}

/// When the kernel had the packet, or the last segment, that was read, in ns of `CLOCK_REALTIME`;
/// of a socket that asks for it.
pub(crate) fn received_ns<A>(message: &RecvMsg<'_, '_, A>) -> io::Result<Option<u64>> {
    Ok(message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(stamp) => {
            Some(stamp.tv_sec().cast_unsigned() * 1_000_000_000 + stamp.tv_nsec().cast_unsigned())
        }
        _ => None,
    }))
}

#[expect(unsafe_code, reason = "PACKET_STATISTICS has no safe wrapper")]
fn lost(socket: &OwnedFd) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of_val(&statistics) as u32;
    // SAFETY: the kernel writes at most `length` bytes into the structure, which outlives the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    Errno::result(status)?;
    Ok(statistics.tp_drops)
}
