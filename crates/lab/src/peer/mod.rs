//! A TCP host played by a test, segment by segment, against the kernel.

mod connection;
mod icmp;
mod kernel;
mod options;
mod segment;
mod socket;
mod wire;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use self::wire::{Earlier, Search, Wire};
use crate::link::{Device, Layer, TcpFlags};
use crate::{Error, Namespace, Result};

pub use self::connection::{Connection, Opening};
pub use self::options::{TcpOptions, Timestamps};
pub use self::segment::Segment;

/// Largest packet of the kernel, in bytes.
const MTU_BYTES: u32 = 1500;
/// The only neighbour of a namespace, whose TCP is the test's own: it sends the segments that the
/// test builds, when it says so, and nothing else, and hands out what the kernel sends.
///
/// ```text
///   namespace: the kernel's TCP ──── peer0 (TUN) ──── the test
///                       10.78.0.1                     10.78.0.2
///                       fd78::1                       fd78::2
/// ```
///
/// The kernel takes in a segment while it is being sent, so a direct answer can be asked for at
/// once; nothing sleeps, and whatever waits has a deadline. Clones are the same peer, also on other
/// threads. Device and namespace are gone when the last clone, [`Connection`] and socket in the
/// namespace are.
///
/// # Examples
/// The kernel sends a byte, which goes missing; it sends the byte again.
/// ```no_run
/// use std::io::Write;
/// use std::net::{SocketAddr, TcpListener};
/// use std::time::Duration;
/// use fathom_lab::{Opening, ScriptedPeer};
///
/// let patience = Duration::from_secs(5);
/// let peer = ScriptedPeer::new()?;
/// let server = SocketAddr::from((ScriptedPeer::KERNEL_V4, 80));
/// let listener = peer.namespace().enter(|| TcpListener::bind(server))??;
/// let mut connection = peer.connect_to_kernel(4000, server, Opening::default(), patience)?;
/// let (mut stream, _) = listener.accept()?;
/// stream.write_all(b"x")?;
/// let lost = connection.expect(patience, |segment| segment.payload == b"x")?;
/// let again = connection.expect(patience, |segment| segment.payload == b"x")?;
/// assert_eq!(lost.sequence, again.sequence);
/// connection.send(&connection.ack())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedPeer {
    namespace: Namespace,
    wire: Arc<Wire>,
}

impl ScriptedPeer {
    /// The interface of the namespace that leads to the peer.
    pub const INTERFACE: &str = "peer0";
    /// The IPv4 address of the kernel.
    pub const KERNEL_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1));
    /// The IPv6 address of the kernel.
    pub const KERNEL_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1));
    /// The IPv4 address of the peer.
    pub const PEER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 2));
    /// The IPv6 address of the peer.
    pub const PEER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2));

    /// A peer of a new namespace.
    ///
    /// # Errors
    /// As [`Namespace::new`] and [`ScriptedPeer::attach`].
    pub fn new() -> Result<Self> {
        Self::attach(&Namespace::new("kernel")?)
    }

    /// A peer of `namespace`, which must not have one.
    ///
    /// # Errors
    /// [`Error::Device`] when the device cannot be created, [`Error::Command`] when it cannot be
    /// set up.
    pub fn attach(namespace: &Namespace) -> Result<Self> {
        let layer = Layer::Ip;
        let device = Device::create(namespace, Self::INTERFACE, layer, MTU_BYTES)?;
        // With a queue, a packet would be left to another CPU that is sending one, such as a
        // multicast report, at the time.
        let interface = Self::INTERFACE;
        namespace.run(&format!("tc qdisc replace dev {interface} root noqueue"))?;
        for (address, prefix) in [(Self::KERNEL_V4, 24), (Self::KERNEL_V6, 64)] {
            namespace.add_address(interface, &format!("{address}/{prefix}"))?;
        }
        Ok(Self {
            namespace: namespace.clone(),
            wire: Arc::new(Wire::new(device)),
        })
    }

    /// Where the kernel's sockets are to be opened, by [`Namespace::enter`].
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Hands a segment to the kernel, which has dealt with it on return unless another thread is
    /// inside a call on the socket.
    ///
    /// # Errors
    /// As [`Segment::packet`]; [`Error::Runtime`] when the device is down.
    pub fn send(&self, segment: &Segment) -> Result<()> {
        self.send_packet(&segment.packet()?)
    }

    /// Hands any IP packet to the kernel.
    ///
    /// # Errors
    /// [`Error::Runtime`] when it is none, or the device is down.
    pub fn send_packet(&self, packet: &[u8]) -> Result<()> {
        self.wire.send(packet)
    }

    /// Tells the kernel by ICMP that the destination of `refused`, a segment of its own, cannot be
    /// reached: host unreachable (RFC 792) or address unreachable (RFC 4443 §3.1).
    ///
    /// # Errors
    /// As [`ScriptedPeer::send`].
    pub fn send_unreachable(&self, refused: &Segment) -> Result<()> {
        self.send_packet(&icmp::unreachable(refused)?)
    }

    /// Waits for the first segment of the kernel that `is_wanted`; those before, of any connection,
    /// are passed over for good.
    ///
    /// # Errors
    /// [`Error::Deadline`], telling what came instead, when none comes within `patience`.
    pub fn expect(
        &self,
        patience: Duration,
        is_wanted: impl Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        self.take(patience, Earlier::Skip, &is_wanted)
    }

    /// As [`ScriptedPeer::expect`], but those before can still be asked for.
    ///
    /// # Errors
    /// As [`ScriptedPeer::expect`].
    pub fn expect_keeping(
        &self,
        patience: Duration,
        is_wanted: impl Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        self.take(patience, Earlier::Keep, &is_wanted)
    }

    /// All segments that the kernel has sent and nobody has asked for, of any connection, without
    /// waiting.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the device is gone.
    pub fn drain(&self) -> Result<Vec<Segment>> {
        self.wire.drain(|_| true)
    }

    /// A connection that the peer is going to open from its port `port` to `kernel`; nothing is
    /// sent yet.
    pub fn open(&self, port: u16, kernel: SocketAddr, opening: Opening) -> Connection {
        Connection::new(&self.wire, Self::address_for(kernel, port), kernel, opening)
    }

    /// A connection that the kernel opens by `syn`; nothing is answered yet.
    pub fn answer(&self, syn: &Segment, opening: Opening) -> Connection {
        let mut connection = Connection::new(&self.wire, syn.destination, syn.source, opening);
        connection.observe(syn);
        connection
    }

    /// Connects from port `port` of the peer to `kernel`, where a socket listens.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the kernel refuses, [`Error::Deadline`] when it does not answer
    /// within `patience`.
    pub fn connect_to_kernel(
        &self,
        port: u16,
        kernel: SocketAddr,
        opening: Opening,
        patience: Duration,
    ) -> Result<Connection> {
        let mut connection = self.open(port, kernel, opening);
        connection.send(&connection.syn())?;
        let answer = connection.expect(patience, |segment| {
            segment.has(TcpFlags::SYN | TcpFlags::ACK) || segment.has(TcpFlags::RST)
        })?;
        refused_by(&answer, &connection)?;
        connection.send(&connection.ack())?;
        Ok(connection)
    }

    /// Accepts a connection that the kernel opens to port `port` of the peer: waits for the SYN,
    /// answers and waits for the acknowledgement, each for at most `patience`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the kernel refuses, [`Error::Deadline`] when it does not connect or
    /// not go on.
    pub fn accept_from_kernel(
        &self,
        port: u16,
        opening: Opening,
        patience: Duration,
    ) -> Result<Connection> {
        let syn = self.expect_keeping(patience, |segment| {
            segment.flags.contains(TcpFlags::SYN)
                && !segment.has(TcpFlags::ACK)
                && segment.destination.port() == port
        })?;
        let mut connection = self.answer(&syn, opening);
        connection.send(&connection.syn())?;
        let answer = connection.expect(patience, |segment| {
            segment.has(TcpFlags::ACK) || segment.has(TcpFlags::RST)
        })?;
        refused_by(&answer, &connection)?;
        Ok(connection)
    }

    /// Lets the kernel open a connection to port `port` of the peer, over IPv4 or IPv6, without
    /// waiting for it: the SYN is sent on return, and the stream does not block. With
    /// `initial_sequence` that is the kernel's ISS instead of a random one; zero asks for a random
    /// one too.
    ///
    /// # Errors
    /// [`Error::Namespace`] or [`Error::Runtime`] when the kernel does not open it.
    pub fn start_connecting(
        &self,
        is_v6: bool,
        port: u16,
        initial_sequence: Option<u32>,
    ) -> Result<TcpStream> {
        let peer = if is_v6 { Self::PEER_V6 } else { Self::PEER_V4 };
        let address = SocketAddr::new(peer, port);
        self.namespace
            .enter(|| socket::connect(address, initial_sequence))?
            .map_err(|source| Error::runtime(format!("open a connection to {address}"), source))
    }

    fn take(
        &self,
        patience: Duration,
        earlier: Earlier,
        is_wanted: &dyn Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        let search = Search {
            earlier,
            is_candidate: &|_| true,
            is_wanted,
        };
        self.wire.take(patience, search, &mut Vec::new())
    }

    /// The peer's address of the family of `kernel`, with `port`.
    fn address_for(kernel: SocketAddr, port: u16) -> SocketAddr {
        let address = if kernel.is_ipv4() {
            Self::PEER_V4
        } else {
            Self::PEER_V6
        };
        SocketAddr::new(address, port)
    }
}

fn refused_by(answer: &Segment, connection: &Connection) -> Result<()> {
    if answer.has(TcpFlags::RST) {
        let action = format!("open the connection {connection}");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        return Err(Error::runtime(action, refused));
    }
    Ok(())
}
