//! A flow of fathom's own, where no application talks to a destination: a connection that is kept
//! open, or echo requests if no address takes one.

mod connection;
mod echo;
mod route;
mod target;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fathom_measure::{Error, Selection};
use fathom_record::{Network, Protocol};

use connection::{Attempt, Connection};
use echo::Echo;
pub(crate) use target::{AddressFamily, Target};

/// A connection that does not last so long is of no use.
const SHORT: Duration = Duration::from_secs(5);
/// Before it is connected again.
const PAUSE: Duration = Duration::from_millis(200);

/// Where the flow is to go, and what has been found out on that.
pub(super) struct Plan {
    /// The address that is tried first.
    to: SocketAddr,
    /// The others that there is a route to, in the order in which they are tried.
    others: Vec<SocketAddr>,
    /// The interfaces that the flow may leave by.
    pub(super) interfaces: Vec<String>,
    /// The port of this side, or the identifier of echo requests.
    port: u16,
    connection: Connection,
}

/// The flow.
pub(super) struct OwnFlow {
    /// Addresses that are still to be tried.
    others: std::vec::IntoIter<SocketAddr>,
    to: SocketAddr,
    port: u16,
    state: State,
    /// The first address that did not take a connection, and why: of those, one that refused it.
    missed: Option<(SocketAddr, Attempt)>,
    told: Vec<String>,
}

enum State {
    Connecting(Connection),
    Connected(Connection, Instant),
    /// It is connected again then.
    Pausing(Instant),
    Pinging(Echo),
}

impl Plan {
    /// Finds addresses, routes and a free port.
    ///
    /// # Errors
    /// When the name has no address, or there is no route to any.
    pub(super) fn make(target: &Target, family: Option<AddressFamily>) -> anyhow::Result<Self> {
        let mut addresses = Vec::new();
        let mut interfaces = Vec::new();
        let mut failed = Ok(());
        for address in target.resolve(family)? {
            let host = address.ip();
            let interface = route::interface_to(host);
            match interface.with_context(|| format!("there is no route to {host}")) {
                Ok(interface) => {
                    addresses.push(address);
                    if !interfaces.contains(&interface) {
                        interfaces.push(interface);
                    }
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        let mut others = addresses.into_iter();
        let Some(to) = others.next() else {
            failed?;
            bail!("there is no address");
        };
        let connection = Connection::bind(to, 0).context("cannot open a socket")?;
        Ok(Self {
            port: connection.port().context("cannot open a socket")?,
            to,
            others: others.collect(),
            interfaces,
            connection,
        })
    }

    /// Nothing but this flow.
    pub(super) fn selection(&self) -> Selection {
        let addresses = std::iter::once(&self.to).chain(&self.others);
        let hosts = addresses.filter_map(|address| host(address.ip()));
        Selection {
            networks: hosts.collect(),
            excluded: Vec::new(),
            ports: vec![self.port],
            protocols: vec![Protocol::TCP, Protocol::ICMP, Protocol::ICMPV6],
        }
    }

    /// Begins, now that the programs see it.
    ///
    /// # Errors
    /// As [`OwnFlow::poll`].
    pub(super) fn begin(self) -> Result<OwnFlow, Error> {
        let mut flow = OwnFlow {
            others: self.others.into_iter(),
            to: self.to,
            port: self.port,
            state: State::Pausing(Instant::now()),
            missed: None,
            told: Vec::new(),
        };
        flow.connect(self.connection)?;
        Ok(flow)
    }
}

impl OwnFlow {
    /// Does what is to be done by now.
    ///
    /// # Errors
    /// When neither a connection nor echo requests are possible.
    pub(super) fn poll(&mut self, now: Instant) -> Result<(), Error> {
        let state = std::mem::replace(&mut self.state, State::Pausing(now));
        match state {
            State::Connecting(connection) => {
                let attempt = connection.attempt(now);
                return self.go_on(connection, attempt);
            }
            State::Connected(connection, since) if connection.is_closed() => {
                if now.saturating_duration_since(since) < SHORT {
                    return self.ping("closes connections at once");
                }
                self.state = State::Pausing(now + PAUSE);
            }
            State::Pausing(until) if now >= until => {
                // The same ports, so that packets take the same path.
                return match Connection::bind(self.to, self.port) {
                    Ok(connection) => self.connect(connection),
                    Err(_) => self.ping("has closed the connection"),
                };
            }
            State::Pinging(mut echo) => {
                echo.poll(now);
                self.state = State::Pinging(echo);
            }
            waiting => self.state = waiting,
        }
        Ok(())
    }

    /// What has happened that the user should know.
    pub(super) fn take_told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    fn connect(&mut self, mut connection: Connection) -> Result<(), Error> {
        let attempt = connection.connect(self.to);
        self.go_on(connection, attempt)
    }

    /// Goes on after an attempt to connect.
    fn go_on(&mut self, connection: Connection, attempt: Attempt) -> Result<(), Error> {
        match attempt {
            Attempt::Pending => self.state = State::Connecting(connection),
            Attempt::Connected => {
                self.told.push(format!("connected to {}", self.to));
                self.state = State::Connected(connection, Instant::now());
            }
            Attempt::Refused | Attempt::Failed => {
                drop(connection);
                let was_refused = matches!(self.missed, Some((_, Attempt::Refused)));
                let is_better = attempt == Attempt::Refused && !was_refused;
                if self.missed.is_none() || is_better {
                    self.missed = Some((self.to, attempt));
                }
                return self.try_next();
            }
        }
        Ok(())
    }

    /// Tries the next address; behind the last one, one is pinged that refused the connection, or
    /// else the first.
    fn try_next(&mut self) -> Result<(), Error> {
        while let Some(to) = self.others.next() {
            self.to = to;
            if let Ok(connection) = Connection::bind(to, self.port) {
                return self.connect(connection);
            }
        }
        let (to, attempt) = self.missed.unwrap_or((self.to, Attempt::Failed));
        self.to = to;
        self.ping(match attempt {
            Attempt::Refused => "refuses connections",
            _ => "does not take connections",
        })
    }

    fn ping(&mut self, why: &str) -> Result<(), Error> {
        let to = self.to;
        self.told
            .push(format!("{to} {why}: {} is pinged instead", to.ip()));
        let echo = Echo::open(to, self.port).map_err(|error| Error::Unsupported {
            needs: format!("{to} {why}, and pinging it needs a socket"),
            found: error.to_string(),
            remedy: "run with CAP_NET_RAW, set net.ipv4.ping_group_range, or name an open port"
                .to_owned(),
        })?;
        self.state = State::Pinging(echo);
        Ok(())
    }
}

/// The network of one address.
fn host(address: IpAddr) -> Option<Network> {
    let bits = match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    };
    Network::new(address, bits as u8).ok()
}
