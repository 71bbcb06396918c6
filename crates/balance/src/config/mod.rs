//! What `lb.toml` says, checked. Nothing here touches the system.

mod check;
mod health;
mod parse;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fathom_record::Network;
use serde::Deserialize;

use crate::controller::{Bounds, Policy};
#[cfg(feature = "live")]
pub(crate) use check::MOST;

/// A commented file that equals the defaults; its services and servers are examples, commented out.
pub const EXAMPLE: &str = include_str!("example.toml");

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where packets of clients arrive.
    pub interfaces: Vec<String>,
    /// How XDP is attached.
    pub mode: Mode,
    /// A directory on a BPF file system, for programs and maps to outlive the process.
    pub pins: PathBuf,
    /// Where a running balancer is spoken to.
    pub socket: PathBuf,
    /// Connections that are remembered at the same time, at most.
    pub connections: u32,
    /// One connection of so many is measured, by its hash, at most; 1: all.
    pub measured_in: u32,
    /// Packets a second that are measured at most: when more come, fewer connections are; none: no
    /// limit.
    pub measured_packets: Option<u32>,
    /// How long an epoch of the measurement is.
    pub epoch: Duration,
    /// A longer gap between requests counts as a timeout, or silence.
    pub timeout: Duration,
    /// What is forwarded.
    pub services: Vec<Service>,
    /// Marks of sockets that make checks, but for the server's number in the low 14 bits, which are
    /// 0 here.
    pub mark: u32,
    /// To whom.
    pub servers: Vec<Server>,
}

/// Where XDP runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver if it can, else in the kernel's stack.
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's stack, slower.
    Generic,
}

/// What clients talk to.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// In records and commands.
    pub name: String,
    /// Its address, or a network of addresses.
    pub network: Network,
    /// `None`: all ports.
    pub port: Option<u16>,
    /// TCP or UDP.
    pub protocol: Transport,
    /// Its packets are QUIC: a connection id may name the server.
    pub is_quic: bool,
    /// Indexes into the servers of the configuration.
    pub servers: Vec<usize>,
    /// Entries of the ring, a prime.
    pub ring: u32,
    /// How weights follow from measurements.
    pub policy: Policy,
    /// How far and how fast.
    pub bounds: Bounds,
}

/// The transport protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// The name in configuration and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The number in IP headers.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// Who answers clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// In records and commands.
    pub name: String,
    /// Where it is reached; it is known by it over restarts.
    pub address: IpAddr,
    /// Its weight in relation to the others.
    pub weight: f64,
    /// How packets get there.
    pub encapsulation: Encapsulation,
    /// Its QUIC-LB server id, if it has one.
    pub quic_id: Option<QuicId>,
    /// How it is seen whether it is there.
    pub health: Health,
}

/// What stands for a server in connection ids of QUIC (draft-ietf-quic-load-balancers, in the
/// clear).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuicId {
    /// The configuration id: the top three bits of the connection id.
    pub config: u8,
    /// 1 to 8 bytes.
    pub bytes: Vec<u8>,
}

/// How packets get to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// As they are, with the server's MAC address: it is on the same segment, and has the service's
    /// address without ARP.
    Layer2,
    /// Behind an IP header.
    Ipip,
    /// Behind IP, UDP and GUE headers, to this port.
    Gue(u16),
}

impl Encapsulation {
    /// The port of GUE where none is configured.
    pub(crate) const GUE_PORT: u16 = 6080;

    /// The name in configuration and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Ipip => "ipip",
            Self::Gue(_) => "gue",
        }
    }
}

/// How it is seen whether a server is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// What is asked.
    pub check: Check,
    /// Which route it takes.
    pub route: CheckRoute,
    /// Of the server; `None`: the port of the service; at the server's own address, of the first
    /// that has the server.
    pub port: Option<u16>,
    /// Between the begin of two checks.
    pub interval: Duration,
    /// After so long without an answer a check has failed.
    pub timeout: Duration,
    /// Checks in a row that succeed until a server is healthy.
    pub rise: u32,
    /// Checks in a row that fail until it is not.
    pub fall: u32,
    /// How long the weight of a server grows that has come back.
    pub slow_start: Duration,
}

/// Which route checks take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckRoute {
    /// That of clients' packets where the service's address is routed from here, else to the
    /// server's own address.
    Auto,
    /// That of clients' packets: to the service's address, with the headers that the server asks
    /// for.
    Tunnel,
    /// To the server's own address.
    Address,
}

/// What is asked of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Nothing: it is taken to be there.
    None,
    /// A TCP connection.
    Tcp,
    /// An HTTP request.
    Http(Request),
    /// The same over TLS; its certificate is not verified, the server being known by its address.
    Https(Request),
}

/// A request over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// From the slash on.
    pub path: String,
    /// The host of the request; `None`: the server's address.
    pub host: Option<String>,
    /// The status that a healthy server answers.
    pub status: u16,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            host: None,
            status: 200,
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            check: Check::Tcp,
            route: CheckRoute::Auto,
            port: None,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 3,
            slow_start: Duration::from_secs(10),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            mode: Mode::Auto,
            pins: PathBuf::from("/sys/fs/bpf/fathom-balance"),
            socket: PathBuf::from("/run/fathom-balance.sock"),
            connections: 1 << 18,
            measured_in: 1,
            measured_packets: Some(100_000),
            epoch: Duration::from_millis(200),
            timeout: Duration::from_secs(2),
            services: Vec::new(),
            mark: 0xfa70_0000,
            servers: Vec::new(),
        }
    }
}

impl Server {
    /// The weight where none is configured.
    pub(crate) const WEIGHT: f64 = 1.0;
}

impl Service {
    /// The entries of a ring where none are configured.
    pub(crate) const RING: u32 = 65_537;

    /// Where it is checked: at its address, or the first of its network behind that which stands
    /// for the network; at its port, unless the server has another one for checks. `None`: no port
    /// is known.
    pub fn check_target(&self, health: &Health) -> Option<SocketAddr> {
        let port = health.port.or(self.port)?;
        let first = match (self.network.address(), self.network.prefix_length()) {
            (IpAddr::V4(address), ..31) => Ipv4Addr::from(u32::from(address) | 1).into(),
            (IpAddr::V6(address), ..127) => Ipv6Addr::from(u128::from(address) | 1).into(),
            (address, _) => address,
        };
        Some(SocketAddr::new(first, port))
    }
}

impl Config {
    /// Reads the text of a file. The table `balance` is left to others: it holds options of the
    /// command.
    ///
    /// # Errors
    /// A sentence with the line that is wrong, and what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }

    /// The port at which a server's own address is checked: as configured, else that of the first
    /// service that has the server, TCP first.
    pub fn check_port(&self, server: usize) -> Option<u16> {
        let configured = self.servers.get(server)?.health.port;
        let port_of = |protocol| {
            let mut services = self.services.iter();
            let service = services.find(|service| {
                service.protocol == protocol
                    && service.port.is_some()
                    && service.servers.contains(&server)
            });
            service.and_then(|service| service.port)
        };
        configured
            .or_else(|| port_of(Transport::Tcp))
            .or_else(|| port_of(Transport::Udp))
    }

    /// The address at which a service is checked, as far as it is known: see
    /// [`Service::check_target`].
    pub fn checked_address(&self, service: &Service) -> IpAddr {
        let first = service
            .servers
            .first()
            .and_then(|server| self.servers.get(*server));
        let target = first.and_then(|server| service.check_target(&server.health));
        target.map_or(service.network.address(), |target| target.ip())
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|server| server.name == name)
    }
}

#[cfg(test)]
mod tests;
