//! UDP datagrams with few hops to live, and who answered them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv4Ttl, Ipv6RecvErr, Ipv6Ttl};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

use super::{bind_udp, wait_readable};
use crate::{Error, Namespace, Result};

/// Destination port, where nobody should listen: the first of traceroute's.
const PORT: u16 = 33_434;

/// How often a datagram is sent that cannot be: once for each earlier one that may be answered
/// meanwhile.
const SEND_ATTEMPTS: usize = 16;

/// Who answered a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The source of the ICMP error.
    pub responder: IpAddr,
    /// Whether the probe reached its destination, where nobody listened.
    pub has_arrived: bool,
    /// From before it was sent until the error was read.
    pub round_trip: Duration,
}

/// A UDP flow whose datagrams have a chosen number of hops to live.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use fathom_lab::{Chain, Family, traffic::probe::Prober};
/// let chain = Chain::builder(2).build()?;
/// let prober = Prober::new(&chain.client, chain.server_address(Family::V6), 4000)?;
/// let answer = prober.probe(1, Duration::from_secs(1))?;
/// assert_eq!(answer.map(|it| it.responder), Some(chain.responder(1, Family::V6)));
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Prober {
    socket: UdpSocket,
    destination: IpAddr,
}

impl Prober {
    /// A flow from `source_port` of `namespace` (0 is any) to a port of `destination` that should
    /// be closed.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the port is taken or there is no route.
    pub fn new(namespace: &Namespace, destination: IpAddr, source_port: u16) -> Result<Self> {
        let any: IpAddr = match destination {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = bind_udp(namespace, SocketAddr::new(any, source_port))?;
        let prober = Self {
            socket,
            destination,
        };
        prober.prepare().map_err(|source| prober.failed(source))?;
        Ok(prober)
    }

    /// The port the datagrams come from.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the kernel does not tell.
    pub fn source_port(&self) -> Result<u16> {
        let address = self.socket.local_addr();
        Ok(address.map_err(|source| self.failed(source))?.port())
    }

    /// Sends a datagram that lives `hop_limit` hops and waits for its answer; `None` when there is
    /// none within `patience`. A later answer is not taken for that of another hop, unless it
    /// quotes too little to tell.
    ///
    /// # Errors
    /// [`Error::Runtime`] when it cannot be sent.
    pub fn probe(&self, hop_limit: u8, patience: Duration) -> Result<Option<Answer>> {
        self.exchange(hop_limit, patience)
            .map_err(|source| self.failed(source))
    }

    fn prepare(&self) -> io::Result<()> {
        self.socket
            .connect(SocketAddr::new(self.destination, PORT))?;
        match self.destination {
            IpAddr::V4(_) => setsockopt(&self.socket, Ipv4RecvErr, &true)?,
            IpAddr::V6(_) => setsockopt(&self.socket, Ipv6RecvErr, &true)?,
        }
        Ok(())
    }

    fn exchange(&self, hop_limit: u8, patience: Duration) -> io::Result<Option<Answer>> {
        match self.destination {
            IpAddr::V4(_) => setsockopt(&self.socket, Ipv4Ttl, &hop_limit.into())?,
            IpAddr::V6(_) => setsockopt(&self.socket, Ipv6Ttl, &hop_limit.into())?,
        }
        let sent = Instant::now();
        self.send(hop_limit)?;
        loop {
            // Looked at before the queue is, so that what came in time is found even if this thread
            // had no CPU.
            let rest = patience.saturating_sub(sent.elapsed());
            match self.read_error()? {
                Some((hops, mut answer)) if hops.is_none_or(|hops| hops == hop_limit) => {
                    answer.round_trip = sent.elapsed();
                    return Ok(Some(answer));
                }
                Some(_) => {}
                None if rest.is_zero() => return Ok(None),
                None => {
                    wait_readable(&self.socket, rest);
                }
            }
        }
    }

    /// Sends a datagram. The answer to the one before makes the call fail if it came late, or was
    /// read in the moment between the kernel's putting it in the queue and its noting it at the
    /// socket; what fails again and again has another cause.
    fn send(&self, hop_limit: u8) -> io::Result<()> {
        let mut result = Ok(());
        for _ in 0..SEND_ATTEMPTS {
            while self.read_error()?.is_some() {}
            result = self.socket.send(&[hop_limit; 12]).map(drop);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// The next error in the queue, and the hops its probe had, which are its payload, if the error
    /// quotes it.
    fn read_error(&self) -> io::Result<Option<(Option<u8>, Answer)>> {
        let mut quoted = [0; 64];
        let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let mut slices = [IoSliceMut::new(&mut quoted)];
        let message = match recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_ERRQUEUE,
        ) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let answer = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, Some(from)) => {
                let responder = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr)).into();
                Some((responder, error.ee_type == ICMP_UNREACHABLE))
            }
            ControlMessageOwned::Ipv6RecvErr(error, Some(from)) => {
                let responder = Ipv6Addr::from(from.sin6_addr.s6_addr).into();
                Some((responder, error.ee_type == ICMPV6_UNREACHABLE))
            }
            _ => None,
        });
        let payload = message.iovs().next();
        let hops = payload.and_then(|payload| payload.first()).copied();
        let (responder, has_arrived) =
            answer.ok_or_else(|| io::Error::other("an error without a source"))?;
        let answer = Answer {
            responder,
            has_arrived,
            round_trip: Duration::ZERO,
        };
        Ok(Some((hops, answer)))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::runtime(format!("probe the way to {}", self.destination), source)
    }
}

/// Destination unreachable (RFC 792).
const ICMP_UNREACHABLE: u8 = 3;
/// Destination unreachable (RFC 4443 §3.1).
const ICMPV6_UNREACHABLE: u8 = 1;
