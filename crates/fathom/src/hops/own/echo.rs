//! Echo requests (RFC 792, RFC 4443) where no port of TCP is open.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, sendto,
    setsockopt, socket, sockopt,
};

/// From one request to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Bytes of a request's data, as many as ping sends.
const DATA_BYTES: usize = 56;
/// Type of a request.
const REQUEST_V4: u8 = 8;
const REQUEST_V6: u8 = 128;
/// Nobody reads the replies: the programs in the kernel see them. So they need little room.
const RECEIVE_BYTES: usize = 2048;

/// Requests to a host, one each second.
pub(super) struct Echo {
    socket: OwnedFd,
    to: SockaddrStorage,
    is_ipv6: bool,
    identifier: u16,
    sequence: u16,
    due: Instant,
}

impl Echo {
    /// Opens a socket for echo requests with this identifier, where `net.ipv4.ping_group_range`
    /// allows it, else a raw one.
    ///
    /// # Errors
    /// When the system refuses both.
    pub(super) fn open(to: SocketAddr, identifier: u16) -> io::Result<Self> {
        let socket = ping_socket(to, identifier).or_else(|_| open(to, SockType::Raw))?;
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BYTES)?;
        Ok(Self {
            socket,
            to: SocketAddr::new(to.ip(), 0).into(),
            is_ipv6: to.is_ipv6(),
            identifier,
            sequence: 0,
            due: Instant::now(),
        })
    }

    /// Sends the next request, if its time has come. One that cannot be sent is lost like others.
    pub(super) fn poll(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + PERIOD;
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.is_ipv6, self.identifier, self.sequence);
        let flags = MsgFlags::MSG_DONTWAIT;
        let _ = sendto(self.socket.as_raw_fd(), &request, &self.to, flags);
    }
}

fn ping_socket(to: SocketAddr, identifier: u16) -> nix::Result<OwnedFd> {
    let socket = open(to, SockType::Datagram)?;
    let any: SocketAddr = if to.is_ipv6() {
        ([0_u16; 8], identifier).into()
    } else {
        ([0_u8; 4], identifier).into()
    };
    bind(socket.as_raw_fd(), &SockaddrStorage::from(any))?;
    Ok(socket)
}

fn open(to: SocketAddr, kind: SockType) -> nix::Result<OwnedFd> {
    let (family, protocol) = if to.is_ipv6() {
        (AddressFamily::Inet6, SockProtocol::IcmpV6)
    } else {
        (AddressFamily::Inet, SockProtocol::Icmp)
    };
    socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol)
}

/// The system adds the checksum of IPv6, which covers addresses.
fn request(is_ipv6: bool, identifier: u16, sequence: u16) -> Vec<u8> {
    let mut request = vec![if is_ipv6 { REQUEST_V6 } else { REQUEST_V4 }, 0, 0, 0];
    request.extend(identifier.to_be_bytes());
    request.extend(sequence.to_be_bytes());
    request.resize(request.len() + DATA_BYTES, 0);
    if !is_ipv6 {
        let checksum = checksum(&request);
        request[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    request
}

/// RFC 1071, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one() {
        let request = request(false, 0x1234, 7);
        let payload = &request[8..];
        let header = etherparse::Icmpv4Header::from_slice(&request).unwrap().0;
        let echo = etherparse::IcmpEchoHeader { id: 0x1234, seq: 7 };
        assert_eq!(header.icmp_type, etherparse::Icmpv4Type::EchoRequest(echo));
        assert_eq!(header.checksum, header.icmp_type.calc_checksum(payload));
    }
}
