//! Traffic for the lab: real tools, and generators that say exactly what they did.

pub mod dns;
pub mod farm;
pub mod flood;
pub mod loops;
pub mod probe;
pub mod tcp;
pub mod tools;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::{Error, Namespace, Result};

/// A UDP socket in `namespace` that never blocks; [`wait_readable`] waits for it.
fn bind_udp(namespace: &Namespace, address: SocketAddr) -> Result<UdpSocket> {
    namespace
        .enter(|| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?
        .map_err(|source: std::io::Error| bind_error(namespace, "UDP", address, source))
}

/// A TCP listener in `namespace` that never blocks; [`wait_readable`] waits for it.
fn listen_tcp(namespace: &Namespace, address: SocketAddr) -> Result<TcpListener> {
    namespace
        .enter(|| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?
        .map_err(|source: std::io::Error| bind_error(namespace, "TCP", address, source))
}

fn bind_error(
    namespace: &Namespace,
    protocol: &str,
    address: SocketAddr,
    source: std::io::Error,
) -> Error {
    let name = namespace.name();
    Error::runtime(
        format!("bind {protocol} {address} in namespace `{name}`"),
        source,
    )
}

/// Waits until `socket` has something to read or `patience` is over, whichever is first; whether it
/// has. Socket timeouts are only as fine as the kernel's tick.
fn wait_readable(socket: &impl AsFd, patience: Duration) -> bool {
    let mut events = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    // A failure shows in the read that follows.
    ppoll(&mut events, Some(TimeSpec::from_duration(patience)), None) != Ok(0)
}
