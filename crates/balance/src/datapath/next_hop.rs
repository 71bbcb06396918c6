//! How a server is reached, as the kernel's own tables say: interface, addresses of the link layer,
//! source address, length of packets.

use std::io::{Error as IoError, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr as KernelAddress};

use super::obstacle::Obstacle;
use crate::config::Mode;

/// Room for a datagram of the kernel: it never sends longer ones.
const LONGEST: usize = 64 << 10;

/// The route to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextHop {
    /// Number of the interface.
    pub(super) interface: u32,
    /// Where frames go.
    pub(super) destination: [u8; 6],
    /// Where they come from.
    pub(super) own: [u8; 6],
    /// The source address of packets that go there.
    pub(super) source: IpAddr,
    /// Bytes of IP that the path takes.
    pub(super) mtu: u16,
}

/// Asks the kernel.
pub(super) struct Resolver {
    socket: Socket,
}

impl Resolver {
    /// Opens what is needed to ask.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub(super) fn open() -> Result<Self, IoError> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&KernelAddress::new(0, 0))?;
        Ok(Self { socket })
    }

    /// The route to this address, or why there is none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn resolve(
        &mut self,
        address: IpAddr,
    ) -> Result<Result<NextHop, Obstacle>, IoError> {
        let route = match self.route(address, 0)? {
            Ok(route) => route,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let Some(link) = self.link(route.interface)? else {
            return Ok(Err(Obstacle::NoEthernet));
        };
        let Some(destination) = self.neighbour(route.interface, route.neighbour)? else {
            Self::probe(address);
            return Ok(Err(Obstacle::Unresolved(route.neighbour)));
        };
        Ok(Ok(NextHop {
            interface: route.interface,
            destination,
            own: link.address,
            source: route.source,
            mtu: route.mtu.map_or(link.mtu, |limit| limit.min(link.mtu)),
        }))
    }

    /// The interface by which packets of this machine to this address leave it, or why they do not.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn leave(
        &mut self,
        address: IpAddr,
        mark: u32,
    ) -> Result<Result<u32, Obstacle>, IoError> {
        let route = match self.route(address, mark)? {
            Ok(route) => route,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let Some(link) = self.link(route.interface)? else {
            return Ok(Err(Obstacle::NoEthernet));
        };
        if link.asks_for_neighbours && self.neighbour(route.interface, route.neighbour)?.is_none() {
            Self::probe(address);
            return Ok(Err(Obstacle::Unresolved(route.neighbour)));
        }
        Ok(Ok(route.interface))
    }

    fn route(&mut self, address: IpAddr, mark: u32) -> Result<Result<Route, Obstacle>, IoError> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(address),
            destination_prefix_length: if address.is_ipv4() { 32 } else { 128 },
            ..RouteHeader::default()
        };
        message
            .attributes
            .push(RouteAttribute::Destination(address.into()));
        if mark != 0 {
            message.attributes.push(RouteAttribute::Mark(mark));
        }
        let mut route = Err(Obstacle::NoRoute);
        let asked = self.ask(RouteNetlinkMessage::GetRoute(message), 0, |answer| {
            if let RouteNetlinkMessage::NewRoute(answer) = answer {
                route = Route::read(&answer, address);
            }
        });
        match asked {
            Err(error) if is_unreachable(&error) => Ok(Err(Obstacle::NoRoute)),
            asked => asked.map(|()| route),
        }
    }

    /// Where XDP runs on an interface. On a veth pair not in the driver, if that is left open: what
    /// it sends back stays in its queue for seconds, unless the other end has an XDP program too
    /// (`veth_xdp_flush` of Linux 6.18 asks for one before it wakes the receiver), and what it
    /// redirects is dropped.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn mode(&mut self, interface: u32, configured: Mode) -> Result<Mode, IoError> {
        Ok(match configured {
            Mode::Auto if self.is_veth(interface)? => Mode::Generic,
            mode => mode,
        })
    }

    fn is_veth(&mut self, interface: u32) -> Result<bool, IoError> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        let mut is_veth = false;
        self.ask(RouteNetlinkMessage::GetLink(message), 0, |answer| {
            let RouteNetlinkMessage::NewLink(answer) = answer else {
                return;
            };
            let infos = answer
                .attributes
                .iter()
                .filter_map(|attribute| match attribute {
                    LinkAttribute::LinkInfo(infos) => Some(infos),
                    _ => None,
                });
            is_veth = infos
                .flatten()
                .any(|info| *info == LinkInfo::Kind(InfoKind::Veth));
        })?;
        Ok(is_veth)
    }

    /// An interface, if it has Ethernet.
    fn link(&mut self, interface: u32) -> Result<Option<Link>, IoError> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        let mut found = None;
        self.ask(RouteNetlinkMessage::GetLink(message), 0, |answer| {
            let RouteNetlinkMessage::NewLink(answer) = answer else {
                return;
            };
            let (mut address, mut mtu) = (None, None);
            for attribute in answer.attributes {
                match attribute {
                    LinkAttribute::Address(bytes) => address = <[u8; 6]>::try_from(bytes).ok(),
                    LinkAttribute::Mtu(bytes) => {
                        mtu = Some(u16::try_from(bytes).unwrap_or(u16::MAX));
                    }
                    _ => {}
                }
            }
            let asks_for_neighbours =
                !(answer.header.flags).intersects(LinkFlags::Noarp | LinkFlags::Loopback);
            found = address.zip(mtu).map(|(address, mtu)| Link {
                address,
                mtu,
                asks_for_neighbours,
            });
        })?;
        Ok(found)
    }

    fn neighbour(&mut self, interface: u32, address: IpAddr) -> Result<Option<[u8; 6]>, IoError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        let mut found = None;
        self.ask(
            RouteNetlinkMessage::GetNeighbour(message),
            NLM_F_DUMP,
            |answer| {
                if let RouteNetlinkMessage::NewNeighbour(answer) = answer
                    && answer.header.ifindex == interface
                    && let Some(own) = link_address(&answer, address)
                {
                    found = Some(own);
                }
            },
        )?;
        Ok(found)
    }

    /// Has the kernel ask for the neighbour that leads to this address. A failure shows in that
    /// there is no answer.
    fn probe(address: IpAddr) {
        const DISCARD: u16 = 9;
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        if let Ok(socket) = UdpSocket::bind(any) {
            let _ = socket.send_to(&[], SocketAddr::new(address, DISCARD));
        }
    }

    /// Sends a question and hands all of its answers on.
    fn ask(
        &mut self,
        question: RouteNetlinkMessage,
        flags: u16,
        mut take: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), IoError> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let mut room = Vec::with_capacity(LONGEST);
            self.socket.recv(&mut room, 0)?;
            let mut rest = room.as_slice();
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| IoError::new(ErrorKind::InvalidData, error.to_string()))?;
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => {
                        return error.code.map_or(Ok(()), |_| Err(error.to_io()));
                    }
                    NetlinkPayload::InnerMessage(inner) => take(inner),
                    _ => {}
                }
            }
            if flags & NLM_F_DUMP == 0 {
                return Ok(());
            }
        }
    }
}

fn is_unreachable(error: &IoError) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL)
    )
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

struct Link {
    address: [u8; 6],
    mtu: u16,
    asks_for_neighbours: bool,
}

struct Route {
    interface: u32,
    neighbour: IpAddr,
    source: IpAddr,
    mtu: Option<u16>,
}

impl Route {
    fn read(message: &RouteMessage, address: IpAddr) -> Result<Self, Obstacle> {
        match message.header.kind {
            RouteType::Unicast => {}
            RouteType::Local => return Err(Obstacle::Local),
            _ => return Err(Obstacle::NoRoute),
        }
        let (mut interface, mut neighbour, mut source, mut mtu) = (None, address, None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => interface = Some(*index),
                RouteAttribute::Gateway(gateway) => {
                    neighbour = ip(gateway).unwrap_or(neighbour);
                }
                RouteAttribute::Via(RouteVia::Inet6(gateway)) => neighbour = (*gateway).into(),
                RouteAttribute::Via(RouteVia::Inet(gateway)) => neighbour = (*gateway).into(),
                RouteAttribute::PrefSource(address) => source = ip(address),
                RouteAttribute::Metrics(metrics) => {
                    mtu = metrics.iter().find_map(|metric| match metric {
                        RouteMetric::Mtu(bytes) => u16::try_from(*bytes).ok(),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        Ok(Self {
            interface: interface.ok_or(Obstacle::NoRoute)?,
            neighbour,
            source: source.ok_or(Obstacle::NoRoute)?,
            mtu: mtu.filter(|mtu| *mtu > 0),
        })
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// The link-layer address in an entry, if it is that of this neighbour and is of use.
fn link_address(entry: &NeighbourMessage, address: IpAddr) -> Option<[u8; 6]> {
    if matches!(
        entry.header.state,
        NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::Noarp
    ) {
        return None;
    }
    let mut is_it = false;
    let mut found = None;
    for attribute in &entry.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(own)) => {
                is_it = address == IpAddr::from(*own);
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(own)) => {
                is_it = address == IpAddr::from(*own);
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                found = <[u8; 6]>::try_from(bytes.as_slice()).ok();
            }
            _ => {}
        }
    }
    found.filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_this_machine() {
        let mut resolver = Resolver::open().unwrap();
        let hop = resolver.resolve(IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!(hop, Err(Obstacle::Local));
    }
}
