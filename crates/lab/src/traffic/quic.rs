//! UDP that looks like QUIC to an observer: version 1 or 2 Initial packets, then short headers with
//! the latency spin bit.
//!
//! Headers follow RFC 9000 §17 and RFC 9369 §3.2; what QUIC encrypts is random bytes, so no QUIC
//! implementation could decrypt it, and no observer can tell.

mod connection;
mod packet;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use self::connection::Connection;
use super::{bind_udp, wait_readable};
use crate::worker::STOP_LATENCY;
use crate::{Namespace, Result, Stop, Worker};

/// Connections a server keeps; clients beyond get no answer.
const MAXIMUM_CONNECTIONS: usize = 1_024;

/// A version of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// RFC 9000.
    #[default]
    V1,
    /// RFC 9369.
    V2,
}

/// What an endpoint does with the latency spin bit (RFC 9000 §17.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spin {
    /// The client inverts, the server reflects.
    #[default]
    Active,
    /// Always zero.
    Zero,
    /// Another random value in every packet.
    Random,
}

/// When an endpoint sends packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// So many a second, evenly spaced; at least one.
    PerSecond(u32),
    /// One for each it receives, at once; a client sends another when it hears nothing for a
    /// second.
    Reply,
}

/// How an endpoint behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Version of the client's connections; servers answer in the client's.
    pub version: Version,
    /// Its spin bit.
    pub spin: Spin,
    /// Its rate.
    pub pace: Pace,
    /// Bytes of a short-header packet, from 32 to 1200.
    pub packet_bytes: usize,
    /// Seed of everything random in it.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::V1,
            spin: Spin::Active,
            pace: Pace::Reply,
            packet_bytes: 200,
            seed: 0,
        }
    }
}

/// What an endpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Datagrams sent with long headers, retransmissions included.
    pub handshakes_sent: u64,
    /// Short-header packets sent.
    pub sent: u64,
    /// Short-header packets received.
    pub received: u64,
    /// Changes of the spin bit in what was sent.
    pub spin_edges: u64,
    /// Connections that completed the handshake.
    pub established: u64,
}

/// A server for any number of clients; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    worker: Worker<Report>,
}

impl Server {
    /// Listens at `address` in `namespace`.
    ///
    /// # Errors
    /// [`crate::Error::Runtime`] when the address is taken or missing.
    pub fn start(namespace: &Namespace, address: SocketAddr, options: Options) -> Result<Self> {
        let mut endpoint = Endpoint {
            socket: bind_udp(namespace, address)?,
            connections: HashMap::new(),
            accepting: Some(options),
        };
        let worker = Worker::start("quic server", move |stop| endpoint.run(None, stop))?;
        Ok(Self { worker })
    }

    /// Ends it and says what it did.
    pub fn finish(self) -> Report {
        self.worker.finish()
    }
}

/// A client with one connection; it ends when its time is over or when dropped.
#[derive(Debug)]
pub struct Client {
    worker: Worker<Report>,
}

impl Client {
    /// Connects from a port of its own in `namespace` to `server` and sends for `duration`.
    ///
    /// # Errors
    /// [`crate::Error::Runtime`] when no socket can be opened.
    pub fn start(
        namespace: &Namespace,
        server: SocketAddr,
        duration: Duration,
        options: Options,
    ) -> Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let connection = Connection::client(options, Instant::now());
        let mut endpoint = Endpoint {
            socket: bind_udp(namespace, (any, 0).into())?,
            connections: HashMap::from([(server, connection)]),
            accepting: None,
        };
        let worker = Worker::start("quic client", move |stop| {
            endpoint.run(Some(Instant::now() + duration), stop)
        })?;
        Ok(Self { worker })
    }

    /// Waits for its end and says what it did.
    pub fn join(self) -> Report {
        self.worker.join()
    }

    /// Ends it and says what it did.
    pub fn finish(self) -> Report {
        self.worker.finish()
    }
}

/// A socket and the connections over it, by the peer's address.
#[derive(Debug)]
struct Endpoint {
    socket: UdpSocket,
    connections: HashMap<SocketAddr, Connection>,
    /// How to behave to new clients; `None` for a client.
    accepting: Option<Options>,
}

impl Endpoint {
    fn run(&mut self, end: Option<Instant>, stop: &Stop) -> Report {
        while !stop.is_set() && end.is_none_or(|end| Instant::now() < end) {
            self.receive();
            let now = Instant::now();
            for (peer, connection) in &mut self.connections {
                while let Some(datagram) = connection.poll(now) {
                    // What the kernel refuses is lost, as on any network.
                    let _ = self.socket.send_to(&datagram, peer);
                }
            }
            let due = self.connections.values().filter_map(Connection::due).min();
            let rest = due.map_or(STOP_LATENCY, |due| {
                due.saturating_duration_since(Instant::now())
            });
            wait_readable(&self.socket, rest.min(STOP_LATENCY));
        }
        let reports = self
            .connections
            .values()
            .map(|connection| connection.report);
        reports.fold(Report::default(), |sum, report| Report {
            handshakes_sent: sum.handshakes_sent + report.handshakes_sent,
            sent: sum.sent + report.sent,
            received: sum.received + report.received,
            spin_edges: sum.spin_edges + report.spin_edges,
            established: sum.established + report.established,
        })
    }

    fn receive(&mut self) {
        let mut buffer = [0; 1_500];
        loop {
            let (length, peer) = match self.socket.recv_from(&mut buffer) {
                Ok(received) => received,
                // An ICMP error about an earlier datagram says nothing about the next.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            let (datagram, now) = (&buffer[..length], Instant::now());
            if let Some(connection) = self.connections.get_mut(&peer) {
                connection.on_datagram(datagram, now);
            } else if let Some(options) = self.accepting
                && self.connections.len() < MAXIMUM_CONNECTIONS
                && let Some(connection) = Connection::accept(options, datagram, now)
            {
                self.connections.insert(peer, connection);
            }
        }
    }
}
