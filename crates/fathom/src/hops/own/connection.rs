//! A connection of TCP that carries no data: keep-alives show that its other end is there.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

/// How long an address has to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Seconds between keep-alives.
const PERIOD_S: u32 = 1;
/// Keep-alives without an answer until the system gives the connection up: the most that it allows.
const KEEP_ALIVES: u32 = 127;

/// A connection, or what is to be one.
pub(super) struct Connection {
    stream: TcpStream,
    began: Instant,
}

/// What has become of an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Pending,
    Connected,
    /// The host is there, but takes no connections to this port.
    Refused,
    Failed,
}

impl Connection {
    /// A socket for a connection to this address, from this port; from a free one if it is 0.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn bind(to: SocketAddr, port: u16) -> nix::Result<Self> {
        let (family, from): (_, SocketAddr) = if to.is_ipv6() {
            (AddressFamily::Inet6, ([0_u16; 8], port).into())
        } else {
            (AddressFamily::Inet, ([0_u8; 4], port).into())
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(family, SockType::Stream, flags, None)?;
        // The port is used again after a connection from it has ended.
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        setsockopt(&socket, sockopt::KeepAlive, &true)?;
        setsockopt(&socket, sockopt::TcpKeepIdle, &PERIOD_S)?;
        setsockopt(&socket, sockopt::TcpKeepInterval, &PERIOD_S)?;
        setsockopt(&socket, sockopt::TcpKeepCount, &KEEP_ALIVES)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
        Ok(Self {
            stream: socket.into(),
            began: Instant::now(),
        })
    }

    /// The port of this side.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn port(&self) -> std::io::Result<u16> {
        self.stream.local_addr().map(|address| address.port())
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, to: SocketAddr) -> Attempt {
        self.began = Instant::now();
        match connect(self.stream.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) => Attempt::Connected,
            Err(error) => Attempt::after(error),
        }
    }

    /// What has become of that by now.
    pub(super) fn attempt(&self, now: Instant) -> Attempt {
        let mut watched = [PollFd::new(self.stream.as_fd(), PollFlags::POLLOUT)];
        let is_known = poll(&mut watched, PollTimeout::ZERO).is_ok_and(|count| count > 0);
        if !is_known {
            let is_over = now.saturating_duration_since(self.began) >= PATIENCE;
            return if is_over {
                Attempt::Failed
            } else {
                Attempt::Pending
            };
        }
        match self.stream.take_error() {
            Ok(None) => Attempt::Connected,
            Ok(Some(error)) => Attempt::after(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
            Err(_) => Attempt::Failed,
        }
    }

    /// Has the other end closed it, or is it gone? What the other end says is read and forgotten.
    pub(super) fn is_closed(&self) -> bool {
        let mut forgotten = [0; 4096];
        match (&self.stream).read(&mut forgotten) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

impl Attempt {
    fn after(error: Errno) -> Self {
        match error {
            Errno::EINPROGRESS => Self::Pending,
            Errno::ECONNREFUSED => Self::Refused,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What becomes of an attempt on this host, where that is known soon.
    fn tried(to: SocketAddr) -> (Connection, Attempt) {
        let mut connection = Connection::bind(to, 0).unwrap();
        let mut attempt = connection.connect(to);
        while attempt == Attempt::Pending {
            attempt = connection.attempt(Instant::now());
        }
        (connection, attempt)
    }

    #[test]
    fn what_becomes_of_an_attempt_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let (connection, attempt) = tried(to);
        assert_eq!(attempt, Attempt::Connected);
        assert!(!connection.is_closed());
        let (accepted, from) = listener.accept().unwrap();
        assert_eq!(from.port(), connection.port().unwrap());
        drop((accepted, listener));
        let deadline = Instant::now() + PATIENCE;
        while !connection.is_closed() {
            assert!(Instant::now() < deadline);
        }
        drop(connection);
        assert_eq!(tried(to).1, Attempt::Refused);
    }

    #[test]
    fn an_address_has_so_much_time() {
        let nobody = "127.0.0.1:1".parse().unwrap();
        let connection = Connection::bind(nobody, 0).unwrap();
        // A socket that listens to nothing and connects to nothing is never ready.
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let idle = Connection {
            stream: std::os::fd::OwnedFd::from(listening).into(),
            ..connection
        };
        let began = idle.began;
        assert_eq!(idle.attempt(began), Attempt::Pending);
        assert_eq!(idle.attempt(began + PATIENCE), Attempt::Failed);
    }
}
