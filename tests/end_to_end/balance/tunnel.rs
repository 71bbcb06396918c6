//! The end of a tunnel, in a server: takes the outer header off, and hands on what is within. This
//! kernel has no devices for tunnels.

use std::io::{Error as IoError, ErrorKind};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use fathom_lab::{Namespace, Worker};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Bytes of an IPv4 header without options, as the balancer writes it.
const HEADER: usize = 20;

/// A running end of a tunnel. Its worker returns how many packets came through.
pub(crate) struct TunnelEnd(Worker<Result<u32>>);

impl TunnelEnd {
    /// For packets to any address of this namespace.
    pub(crate) fn start(namespace: &Namespace) -> Result<Self> {
        namespace.set("net/ipv4/conf/all/rp_filter", "0")?;
        namespace.set("net/ipv4/conf/lo/rp_filter", "0")?;
        let (outer, inner) = namespace.enter(|| -> Result<_> {
            let inner = socket(
                AddressFamily::Inet,
                SockType::Raw,
                SockFlag::empty(),
                SockProtocol::Raw,
            )?;
            Ok((raw_socket(libc::IPPROTO_IPIP)?, inner))
        })??;
        setsockopt(&outer, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20))?;
        let worker = Worker::start("tunnel", move |stop| {
            let mut count = 0;
            let mut packet = [0; 2048];
            while !stop.is_set() {
                let length = match recv(outer.as_raw_fd(), &mut packet, MsgFlags::empty()) {
                    Err(nix::Error::EAGAIN | nix::Error::EINTR) => continue,
                    length => length?,
                };
                let within = packet.get(HEADER..length).context("an outer header")?;
                ensure!(packet[0] == 0x45 && within[0] >> 4 == 4, "not IPv4 in IPv4");
                let to: [u8; 4] = within[16..20].try_into()?;
                let to = SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::from(to), 0));
                sendto(inner.as_raw_fd(), within, &to, MsgFlags::empty())?;
                count += 1;
            }
            Ok(count)
        })?;
        Ok(Self(worker))
    }

    /// Ends it. Returns how many packets came through.
    pub(crate) fn stop(self) -> Result<u32> {
        self.0.finish()
    }
}

/// A socket that takes the packets of this protocol, with their header.
#[expect(unsafe_code, reason = "nix has no name for the protocol")]
fn raw_socket(protocol: i32) -> Result<OwnedFd> {
    // SAFETY: a call without pointers; the descriptor that comes back is ours alone.
    unsafe {
        let descriptor = libc::socket(libc::AF_INET, libc::SOCK_RAW, protocol);
        if descriptor < 0 {
            let error = IoError::last_os_error();
            ensure!(
                error.kind() != ErrorKind::PermissionDenied,
                "raw sockets are refused"
            );
            return Err(error.into());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}
