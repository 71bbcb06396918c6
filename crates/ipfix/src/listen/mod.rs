//! Sockets that exporters send to, all waited for together.

mod address;

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{setsockopt, sockopt};

use crate::{Collected, Collector, Error, Frames, Session, TlsAcceptor, TlsStream};
pub use address::{ListenAddress, TlsFiles};

/// How often a wait ends to look for signals, in milliseconds.
const LOOK_MS: u16 = 50;
/// Datagrams that may wait in the kernel, in bytes; it may grant less.
const DATAGRAM_QUEUE_BYTES: usize = 8 << 20;
/// Connections at the same time; those that come then wait.
const MOST_CONNECTIONS: usize = 256;
/// Datagrams or reads of a socket before the others have their turn.
const TURN: usize = 64;

/// What is told of what arrives.
pub trait Hears {
    /// A record.
    fn record(&mut self, record: Collected<'_>);

    /// Something that cannot be read. `is_over`: the connection is closed for it.
    fn malformed(&mut self, exporter: SocketAddr, reason: &dyn std::fmt::Display, is_over: bool);
}

/// Sockets that exporters send to.
pub struct Listeners {
    datagrams: Vec<UdpSocket>,
    /// For connections, and what makes TLS of them where that is wanted.
    streams: Vec<(TcpListener, Option<TlsAcceptor>)>,
    connections: Vec<Connection>,
    /// Connections so far.
    accepted: u64,
    buffer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    session: Session,
    frames: Frames,
}

enum Stream {
    Tcp(TcpStream),
    Tls(TlsStream),
}

impl Listeners {
    /// Listens at these addresses.
    ///
    /// # Errors
    /// [`Error::Listen`] when one of them is taken, or not of this machine;
    /// [`Error::Certificates`].
    pub fn open(addresses: &[ListenAddress]) -> Result<Self, Error> {
        let mut listeners = Self {
            datagrams: Vec::new(),
            streams: Vec::new(),
            connections: Vec::new(),
            accepted: 0,
            buffer: vec![0; 1 << 16],
        };
        for address in addresses {
            let failed = |source| Error::Listen {
                address: address.to_string(),
                source,
            };
            match address {
                ListenAddress::Udp(address) => {
                    let socket = open_datagrams(*address).map_err(failed)?;
                    listeners.datagrams.push(socket);
                }
                ListenAddress::Tcp(address) => {
                    let listener = open_connections(*address).map_err(failed)?;
                    listeners.streams.push((listener, None));
                }
                ListenAddress::Tls { address, files } => {
                    let acceptor = TlsAcceptor::new(files)?;
                    let listener = open_connections(*address).map_err(failed)?;
                    listeners.streams.push((listener, Some(acceptor)));
                }
            }
        }
        Ok(listeners)
    }

    /// Where it listens, as `udp:ADDRESS:PORT`: a port that was 0 is the one that was found.
    pub fn addresses(&self) -> Vec<String> {
        let datagrams = self.datagrams.iter();
        let datagrams = datagrams.map(|socket| ("udp", socket.local_addr()));
        let streams = self.streams.iter().map(|(listener, acceptor)| {
            let transport = if acceptor.is_some() { "tls" } else { "tcp" };
            (transport, listener.local_addr())
        });
        let known = datagrams.chain(streams);
        let shown = known.filter_map(|(transport, address)| {
            let address = address.ok()?;
            Some(format!("{transport}:{address}"))
        });
        shown.collect()
    }

    /// Waits a moment for messages, and reads those that came.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&mut self, collector: &mut Collector, hears: &mut dyn Hears) -> io::Result<()> {
        self.poll()?;
        for socket in &self.datagrams {
            read_datagrams(socket, &mut self.buffer, collector, hears);
        }
        self.accept();
        let buffer = &mut self.buffer;
        self.connections.retain_mut(|connection| {
            let goes_on = connection.read(buffer, collector, hears);
            if !goes_on {
                let is_within_message = connection.frames.is_within_message();
                collector.forget(connection.session, is_within_message);
            }
            goes_on
        });
        Ok(())
    }

    /// Reads the datagrams that wait in the kernel, for so long at most: nobody sends them again.
    pub fn drain(&mut self, patience: Duration, collector: &mut Collector, hears: &mut dyn Hears) {
        let end = Instant::now() + patience;
        for socket in &self.datagrams {
            let mut read = || read_datagrams(socket, &mut self.buffer, collector, hears);
            while read() && Instant::now() < end {}
        }
    }

    fn poll(&self) -> nix::Result<()> {
        let datagrams = self.datagrams.iter().map(AsFd::as_fd);
        let has_room = self.connections.len() < MOST_CONNECTIONS;
        let streams = self.streams.iter().filter(|_| has_room);
        let streams = streams.map(|(listener, _)| listener.as_fd());
        let connections = self
            .connections
            .iter()
            .map(|connection| connection.stream.as_fd());
        let all = datagrams.chain(streams).chain(connections);
        let mut waiting: Vec<_> = all
            .map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut waiting, LOOK_MS) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn accept(&mut self) {
        for (listener, acceptor) in &self.streams {
            while self.connections.len() < MOST_CONNECTIONS {
                let Ok((stream, exporter)) = listener.accept() else {
                    break;
                };
                if stream.set_nonblocking(true).is_err() {
                    continue;
                }
                let stream = match acceptor {
                    None => Stream::Tcp(stream),
                    Some(acceptor) => match acceptor.accept(stream) {
                        Ok(stream) => Stream::Tls(stream),
                        Err(_) => continue,
                    },
                };
                self.accepted += 1;
                self.connections.push(Connection {
                    stream,
                    session: Session {
                        exporter,
                        connection: self.accepted,
                    },
                    frames: Frames::default(),
                });
            }
        }
    }
}

fn open_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // More than the system lets anyone have needs a capability.
    if setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAM_QUEUE_BYTES).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &DATAGRAM_QUEUE_BYTES)?;
    }
    Ok(socket)
}

fn open_connections(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Reads some. `false`: no more wait.
fn read_datagrams(
    socket: &UdpSocket,
    buffer: &mut [u8],
    collector: &mut Collector,
    hears: &mut dyn Hears,
) -> bool {
    for _ in 0..TURN {
        // Nothing waits any more; or an error of an earlier answer, which concerns nobody here.
        let Ok((length, exporter)) = socket.recv_from(buffer) else {
            return false;
        };
        let session = Session {
            exporter,
            connection: 0,
        };
        let read = collector.messages(session, &buffer[..length], &mut |it| hears.record(it));
        if let Err(error) = read {
            hears.malformed(exporter, &error, false);
        }
    }
    true
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Connection {
    /// Reads what came; false when no more will.
    fn read(
        &mut self,
        buffer: &mut [u8],
        collector: &mut Collector,
        hears: &mut dyn Hears,
    ) -> bool {
        for _ in 0..TURN {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(length) => self.frames.push(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // Such as a client that does not trust the certificate.
                    if error.kind() == ErrorKind::InvalidData {
                        hears.malformed(self.session.exporter, &error, true);
                    }
                    return false;
                }
            }
            loop {
                match self.frames.message() {
                    Ok(Some(message)) => {
                        let mut take = |it: Collected<'_>| hears.record(it);
                        // Where the next begins is known all the same.
                        if let Err(error) = collector.messages(self.session, message, &mut take) {
                            hears.malformed(self.session.exporter, &error, false);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        hears.malformed(self.session.exporter, &error, true);
                        return false;
                    }
                }
            }
        }
        true
    }
}
