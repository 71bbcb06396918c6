//! The standard lab: a client, a router and a server, joined by two emulated links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::{Layer, Link, LinkConfig, LinkEnd, Namespace, Result};

/// Client, router and server with fixed addresses; any number can exist at a time, also in one
/// process.
///
/// ```text
///   client ──────── lan ──────── router ──────── wan ──────── server
///      eth0                 lan0        wan0                 eth0
///   10.77.1.1        10.77.1.254        10.77.2.254     10.77.2.1
///   fd77:1::1         fd77:1::fe        fd77:2::fe      fd77:2::1
/// ```
///
/// The router forwards both families. Forward is the way from the client to the server, on both
/// links.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use fathom_lab::{LinkConfig, Topology};
/// let lab = Topology::builder()
///     .lan(LinkConfig::symmetric(Duration::from_millis(2)))
///     .wan(LinkConfig::symmetric(Duration::from_millis(20)))
///     .build()?;
/// println!("{}", lab.client.run("ping -c 3 10.77.2.1")?);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Topology {
    /// The link between client and router.
    pub lan: Link,
    /// The link between router and server.
    pub wan: Link,
    /// Where clients run.
    pub client: Namespace,
    /// Where packets are measured.
    pub router: Namespace,
    /// Where servers run.
    pub server: Namespace,
}

impl Topology {
    /// The interface of the client and that of the server.
    pub const HOST_INTERFACE: &str = "eth0";
    /// The router's interface towards the client.
    pub const LAN_INTERFACE: &str = "lan0";
    /// The router's interface towards the server.
    pub const WAN_INTERFACE: &str = "wan0";
    /// The client's IPv4 address.
    pub const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 1));
    /// The client's IPv6 address.
    pub const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 1, 0, 0, 0, 0, 0, 1));
    /// The router's IPv4 address towards the client.
    pub const LAN_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 254));
    /// The router's IPv6 address towards the client.
    pub const LAN_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 1, 0, 0, 0, 0, 0, 0xfe));
    /// The router's IPv4 address towards the server.
    pub const WAN_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 2, 254));
    /// The router's IPv6 address towards the server.
    pub const WAN_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 0, 0, 0xfe));
    /// The server's IPv4 address.
    pub const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 2, 1));
    /// The server's IPv6 address.
    pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 0, 0, 1));

    /// Starts to describe a lab; without more its links pass packets on at once.
    pub fn builder() -> TopologyBuilder {
        TopologyBuilder::default()
    }
}

/// Describes a [`Topology`].
#[derive(Debug, Clone, Default)]
pub struct TopologyBuilder {
    lan: LinkConfig,
    wan: LinkConfig,
    layer: Layer,
    captures: Option<PathBuf>,
}

impl TopologyBuilder {
    /// Configures the link between client and router.
    #[must_use]
    pub fn lan(mut self, config: LinkConfig) -> Self {
        self.lan = config;
        self
    }

    /// Configures the link between router and server.
    #[must_use]
    pub fn wan(mut self, config: LinkConfig) -> Self {
        self.wan = config;
        self
    }

    /// What both links carry; with Ethernet the neighbours know each other from the start, so that
    /// no ARP passes.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Captures what passes each end of the links in `client.pcap`, `lan0.pcap`, `wan0.pcap` and
    /// `server.pcap` in `directory`.
    #[must_use]
    pub fn captures(mut self, directory: &Path) -> Self {
        self.captures = Some(directory.to_owned());
        self
    }

    /// Creates namespaces, links, addresses and routes.
    ///
    /// # Errors
    /// As [`Namespace::new`] and [`LinkBuilder::start`](crate::LinkBuilder::start).
    pub fn build(self) -> Result<Topology> {
        let client = Namespace::new("client")?;
        let router = Namespace::new("router")?;
        let server = Namespace::new("server")?;
        router.enable_forwarding()?;
        let end = |namespace, interface, file| LinkEnd {
            capture: self.captures.as_ref().map(|path| path.join(file)),
            ..LinkEnd::new(namespace, interface)
        };
        let client_end = end(&client, Topology::HOST_INTERFACE, "client.pcap");
        let lan_end = end(&router, Topology::LAN_INTERFACE, "lan0.pcap");
        let wan_end = end(&router, Topology::WAN_INTERFACE, "wan0.pcap");
        let server_end = end(&server, Topology::HOST_INTERFACE, "server.pcap");
        let lan = Link::builder(client_end.clone(), lan_end.clone(), self.lan)
            .layer(self.layer)
            .start()?;
        let wan = Link::builder(wan_end.clone(), server_end.clone(), self.wan)
            .layer(self.layer)
            .start()?;
        let (client_addresses, lan_addresses, wan_addresses, server_addresses) = (
            [Topology::CLIENT_V4, Topology::CLIENT_V6],
            [Topology::LAN_V4, Topology::LAN_V6],
            [Topology::WAN_V4, Topology::WAN_V6],
            [Topology::SERVER_V4, Topology::SERVER_V6],
        );
        join(
            (&client_end, client_addresses),
            (&lan_end, lan_addresses),
            self.layer,
        )?;
        join(
            (&wan_end, wan_addresses),
            (&server_end, server_addresses),
            self.layer,
        )?;
        for (host, gateways) in [(&client, lan_addresses), (&server, wan_addresses)] {
            for gateway in gateways {
                host.add_route("default", &gateway.to_string())?;
            }
        }
        Ok(Topology {
            lan,
            wan,
            client,
            router,
            server,
        })
    }
}

/// Gives the two ends of a link their addresses, and on Ethernet their neighbours.
fn join(
    first: (&LinkEnd, [IpAddr; 2]),
    second: (&LinkEnd, [IpAddr; 2]),
    layer: Layer,
) -> Result<()> {
    for (end, addresses) in [first, second] {
        give_addresses(end, addresses)?;
        if layer == Layer::Ethernet {
            give_hardware_address(end, addresses)?;
        }
    }
    if layer == Layer::Ethernet {
        introduce(first.0, second.1)?;
        introduce(second.0, first.1)?;
    }
    Ok(())
}

/// Gives one end of a link its addresses.
pub(crate) fn give_addresses(end: &LinkEnd, addresses: [IpAddr; 2]) -> Result<()> {
    for address in addresses {
        let prefix = if address.is_ipv4() { 24 } else { 64 };
        end.namespace
            .add_address(&end.interface, &format!("{address}/{prefix}"))?;
    }
    Ok(())
}

/// Gives the end of an Ethernet link with `addresses` its hardware address.
pub(crate) fn give_hardware_address(end: &LinkEnd, addresses: [IpAddr; 2]) -> Result<()> {
    let (interface, address) = (&end.interface, hardware_name(addresses));
    end.namespace
        .run(&format!("ip link set {interface} address {address}"))?;
    Ok(())
}

/// Tells one end of an Ethernet link for good who is at the other.
pub(crate) fn introduce(end: &LinkEnd, neighbours: [IpAddr; 2]) -> Result<()> {
    let address = hardware_name(neighbours);
    for neighbour in neighbours {
        end.namespace.run(&format!(
            "ip neighbour replace {neighbour} lladdr {address} dev {} nud permanent",
            end.interface
        ))?;
    }
    Ok(())
}

/// A locally administered hardware address that holds the IPv4 address of its interface.
pub(crate) fn hardware_address(addresses: [IpAddr; 2]) -> [u8; 6] {
    let [first, second, third, fourth] = match addresses[0] {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    [2, 0, first, second, third, fourth]
}

/// The same as `ip` takes it.
fn hardware_name(addresses: [IpAddr; 2]) -> String {
    hardware_address(addresses)
        .map(|octet| format!("{octet:02x}"))
        .join(":")
}
