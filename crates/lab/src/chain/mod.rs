//! A chain of routers between a client and a server, with branches beside it.

mod builder;
mod plan;
mod routes;
mod wiring;

use std::net::IpAddr;

use self::plan::{Detour, Place};
use crate::{Error, Link, Namespace, Result, Worker};

pub use self::builder::ChainBuilder;
pub use self::plan::Family;

/// A client, one to eight routers and a server in a row, with fixed addresses; any number can exist
/// at a time, also in one process.
///
/// ```text
///           link 1                 link 2        …        link N+1
///   client ──────── router 1 ──────────── router 2 … N ──────────── server
///     eth0       link1     link2       link2               linkN+1  eth0
///    10.78.1.1  10.78.1.2  10.78.2.1  10.78.2.2          10.78.N+1.2
///     fd78:1::1  fd78:1::2  fd78:2::1  fd78:2::2           fd78:N+1::2
/// ```
///
/// Link k is 10.78.k.0/24 and `fd78:k::/64`; its near end, on the client's side, is number 1, its
/// far end number 2, and the interfaces of routers at both ends are called `linkk`. So router k is
/// hop k and **answers as 10.78.k.2 and `fd78:k::2`, wherever a packet came in**, and the server is
/// hop N+1. Forward is the way from the client to the server, on all links.
///
/// The routers forward both families, send as many ICMP errors as they are asked for unless
/// [`Chain::limit_icmp`] says otherwise, and know the way to two addresses of the client and to
/// everything else towards the server.
///
/// # Branches
/// Beside a router k that has routers on both sides there may be other ways from router k-1 to
/// router k+1:
///
/// ```text
///                         10.79.k.2   branch 1   10.79.k+1.1
///                      ┌──────────── its router ─────────────┐
///   … ──── router k-1 ─┴───────────── router k ──────────────┴─ router k+1 ──── …
/// ```
///
/// Branches are numbered from 1 in the order in which they were described, over the whole chain.
/// Link i of branch b is 10.(78+b).i.0/24 and `fd78:i:b::/64` on interfaces `linki-b`, where i
/// counts from k. A branch has one router, as drawn, or none (the way is shorter by one hop), or
/// two (longer). No packet takes it before [`Chain::reroute`] says so; then one branch can be the
/// way, or the flows are spread over several of them by a hash of addresses and ports that is the
/// same in both directions.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use fathom_lab::{Chain, Family, LinkConfig, traffic::tools};
/// let chain = Chain::builder(3)
///     .link(2, LinkConfig::symmetric(Duration::from_millis(5)))
///     .branch(2, [LinkConfig::symmetric(Duration::from_millis(9)), LinkConfig::default()])
///     .build()?;
/// let server = chain.server_address(Family::V4);
/// println!("{:?}", tools::ping(&chain.client, server, 3, Duration::from_millis(100))?);
/// chain.reroute(2, &[1])?;
/// println!("{:?}", tools::ping(&chain.client, server, 3, Duration::from_millis(100))?);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Chain {
    /// Where clients run.
    pub client: Namespace,
    /// The routers; router 1, next to the client, is the first.
    pub routers: Vec<Namespace>,
    /// Where servers run.
    pub server: Namespace,
    /// The branches; branch 1 is the first.
    pub branches: Vec<Branch>,
    /// Before the links, so that no thread is left with an interface that has gone.
    scripts: Vec<Script>,
    links: Vec<Option<Link>>,
}

/// A router whose kernel forwards nothing.
#[derive(Debug)]
struct Script {
    number: usize,
    translates: bool,
    /// Ends the thread on drop.
    _worker: Worker<()>,
}

/// A way past one router of a [`Chain`].
#[derive(Debug)]
pub struct Branch {
    /// Its routers, the one on the client's side first.
    pub routers: Vec<Namespace>,
    /// Its links, the one on the client's side first; one more than routers.
    pub links: Vec<Link>,
    detour: Detour,
}

impl Chain {
    /// The interface of the client and that of the server.
    pub const HOST_INTERFACE: &str = "eth0";

    /// Starts to describe a chain of one to eight `routers`; without more its links pass packets on
    /// at once.
    pub fn builder(routers: usize) -> ChainBuilder {
        ChainBuilder::new(routers)
    }

    /// Link `number`, from 1, which is the client's.
    ///
    /// # Panics
    /// When there is no such link, or it is a plain one.
    pub fn link(&self, number: usize) -> &Link {
        number
            .checked_sub(1)
            .and_then(|index| self.links.get(index)?.as_ref())
            .expect("the chain has an emulated link of this number")
    }

    /// The links that are emulated, in order.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    /// The name of the routers' interfaces at the ends of link `link` of the main way; the hosts'
    /// is [`Chain::HOST_INTERFACE`].
    pub fn interface(link: usize) -> String {
        Place::main(link).interface()
    }

    /// The address of the client.
    pub fn client_address(&self, family: Family) -> IpAddr {
        Place::main(1).near(family)
    }

    /// The address of the server.
    pub fn server_address(&self, family: Family) -> IpAddr {
        Place::main(self.routers.len() + 1).far(family)
    }

    /// Who answers at hop `hop`, from 1, on the main way; past the last router it is the server.
    pub fn responder(&self, hop: usize, family: Family) -> IpAddr {
        Place::main(hop.clamp(1, self.routers.len() + 1)).far(family)
    }

    /// Who answers at each hop when the traffic takes `branch` (0 is the main way), the server
    /// last.
    ///
    /// # Panics
    /// When there is no such branch.
    pub fn path(&self, branch: usize, family: Family) -> Vec<IpAddr> {
        let detour = match branch {
            plan::MAIN => Detour::main(1),
            number => self.branches[number - 1].detour,
        };
        detour.responders(self.routers.len(), family)
    }

    /// Lets router `number` send only as many ICMP errors as Linux does by default: one a second to
    /// each destination. On a scripted one it has no effect.
    ///
    /// # Errors
    /// [`Error::Arrangement`] without such a router, else as [`Namespace::limit_icmp`].
    pub fn limit_icmp(&self, number: usize) -> Result<()> {
        self.router(number)?.limit_icmp()
    }

    /// Router `number`, from 1.
    fn router(&self, number: usize) -> Result<&Namespace> {
        let index = number.checked_sub(1);
        index
            .and_then(|index| self.routers.get(index))
            .ok_or_else(|| Error::Arrangement {
                what: format!("there is no router {number}"),
            })
    }
}
