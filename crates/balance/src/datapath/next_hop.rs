//! How a server is reached, as the kernel's own tables say: interface, addresses of the link layer,
//! source address, length of packets.

use std::io::Error as IoError;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use fathom_measure::kernel::rtnetlink::{Questions, add_attribute, attributes, u16_at, u32_at};

use super::obstacle::Obstacle;
use crate::config::Mode;

/// Bytes of `struct rtmsg`, of `struct ifinfomsg` and of `struct ndmsg`.
const ROUTE_HEADER: usize = 12;
const LINK_HEADER: usize = 16;
const NEIGHBOUR_HEADER: usize = 12;
/// Attributes of `linux/if_link.h`.
const IFLA_ADDRESS: u16 = 1;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
/// One of those in `RTA_METRICS`, of `linux/rtnetlink.h`.
const RTAX_MTU: u16 = 2;

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
pub(super) struct Resolver(Questions);

impl Resolver {
    /// Opens what is needed to ask.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub(super) fn open() -> Result<Self, IoError> {
        Questions::open().map(Self)
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
        let mut question = vec![0; ROUTE_HEADER];
        let octets = octets(address);
        question[0] = family(address);
        question[1] = 8 * octets.len() as u8;
        add_attribute(&mut question, libc::RTA_DST, &octets);
        if mark != 0 {
            add_attribute(&mut question, libc::RTA_MARK, &mark.to_ne_bytes());
        }
        let mut route = Err(Obstacle::NoRoute);
        let asked = self.0.ask(libc::RTM_GETROUTE, &question, |kind, answer| {
            if kind == libc::RTM_NEWROUTE {
                route = Route::read(answer, address);
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
        let mut is_veth = false;
        self.ask_for_link(interface, |answer| {
            let (_, behind) = answer.split_at_checked(LINK_HEADER)?;
            let (_, information) = attributes(behind).find(|(kind, _)| *kind == IFLA_LINKINFO)?;
            is_veth = attributes(information)
                .any(|(kind, name)| kind == IFLA_INFO_KIND && name.starts_with(b"veth\0"));
            Some(())
        })?;
        Ok(is_veth)
    }

    /// An interface, if it has Ethernet.
    fn link(&mut self, interface: u32) -> Result<Option<Link>, IoError> {
        let mut found = None;
        self.ask_for_link(interface, |answer| {
            found = Link::read(answer);
            Some(())
        })?;
        Ok(found)
    }

    /// Hands on what the kernel says of an interface; the closure ends early where that is cut off.
    fn ask_for_link(
        &mut self,
        interface: u32,
        mut take: impl FnMut(&[u8]) -> Option<()>,
    ) -> Result<(), IoError> {
        let mut question = [0; LINK_HEADER];
        question[4..8].copy_from_slice(&interface.to_ne_bytes());
        self.0.ask(libc::RTM_GETLINK, &question, |kind, answer| {
            if kind == libc::RTM_NEWLINK {
                take(answer);
            }
        })
    }

    fn neighbour(&mut self, interface: u32, address: IpAddr) -> Result<Option<[u8; 6]>, IoError> {
        let mut question = [0; NEIGHBOUR_HEADER];
        question[0] = family(address);
        let mut found = None;
        (self.0).ask_for_all(libc::RTM_GETNEIGH, &question, |kind, answer| {
            if kind == libc::RTM_NEWNEIGH
                && let Some(own) = link_address(answer, interface, address)
            {
                found = Some(own);
            }
        })?;
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
}

fn is_unreachable(error: &IoError) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL)
    )
}

fn family(address: IpAddr) -> u8 {
    const IPV4: u8 = libc::AF_INET as u8;
    const IPV6: u8 = libc::AF_INET6 as u8;
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let of_four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    of_four
        .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

struct Link {
    address: [u8; 6],
    mtu: u16,
    asks_for_neighbours: bool,
}

impl Link {
    /// Reads `struct ifinfomsg` and its attributes.
    fn read(message: &[u8]) -> Option<Self> {
        let (header, behind) = message.split_at_checked(LINK_HEADER)?;
        let flags = u32_at(header, 8)?.cast_signed();
        let (mut address, mut mtu) = (None, None);
        for (kind, value) in attributes(behind) {
            match kind {
                IFLA_ADDRESS => address = <[u8; 6]>::try_from(value).ok(),
                IFLA_MTU => {
                    mtu = u32_at(value, 0).map(|bytes| u16::try_from(bytes).unwrap_or(u16::MAX));
                }
                _ => {}
            }
        }
        Some(Self {
            address: address?,
            mtu: mtu?,
            asks_for_neighbours: flags & (libc::IFF_NOARP | libc::IFF_LOOPBACK) == 0,
        })
    }
}

struct Route {
    interface: u32,
    neighbour: IpAddr,
    source: IpAddr,
    mtu: Option<u16>,
}

impl Route {
    /// Reads `struct rtmsg` and its attributes.
    fn read(message: &[u8], address: IpAddr) -> Result<Self, Obstacle> {
        let (header, behind) = message
            .split_at_checked(ROUTE_HEADER)
            .ok_or(Obstacle::NoRoute)?;
        match header[7] {
            libc::RTN_UNICAST => {}
            libc::RTN_LOCAL => return Err(Obstacle::Local),
            _ => return Err(Obstacle::NoRoute),
        }
        let (mut interface, mut neighbour, mut source, mut mtu) = (None, address, None, None);
        for (kind, value) in attributes(behind) {
            match kind {
                libc::RTA_OIF => interface = u32_at(value, 0),
                libc::RTA_GATEWAY => neighbour = ip(value).unwrap_or(neighbour),
                // `struct rtvia`: a family, which the length tells, too.
                libc::RTA_VIA => neighbour = value.get(2..).and_then(ip).unwrap_or(neighbour),
                libc::RTA_PREFSRC => source = ip(value),
                libc::RTA_METRICS => {
                    let limit = attributes(value).find(|(kind, _)| *kind == RTAX_MTU);
                    mtu = limit
                        .and_then(|(_, value)| u32_at(value, 0))
                        .and_then(|bytes| u16::try_from(bytes).ok());
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

/// The link-layer address in an entry (`struct ndmsg` and its attributes), if it is that of this
/// neighbour and is of use.
fn link_address(entry: &[u8], interface: u32, address: IpAddr) -> Option<[u8; 6]> {
    let (header, behind) = entry.split_at_checked(NEIGHBOUR_HEADER)?;
    let is_of_use = !matches!(
        u16_at(header, 8)?,
        libc::NUD_INCOMPLETE | libc::NUD_FAILED | libc::NUD_NOARP
    );
    if u32_at(header, 4)? != interface || !is_of_use {
        return None;
    }
    let (mut is_it, mut found) = (false, None);
    for (kind, value) in attributes(behind) {
        match kind {
            libc::NDA_DST => is_it = ip(value) == Some(address),
            libc::NDA_LLADDR => found = <[u8; 6]>::try_from(value).ok(),
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

    #[test]
    fn a_link_is_what_the_system_says() {
        let mut resolver = Resolver::open().unwrap();
        let loopback = resolver.link(1).unwrap().unwrap();
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        assert_eq!(loopback.address, [0; 6]);
        assert_eq!(
            usize::from(loopback.mtu),
            mtu.trim().parse::<usize>().unwrap().min(u16::MAX.into())
        );
        assert!(!loopback.asks_for_neighbours && !resolver.is_veth(1).unwrap());
        assert!(resolver.link(u32::MAX >> 1).is_err());
    }

    /// As Linux 6.18 answers `ip route get 192.0.2.7` with `via inet6 fe80::7 mtu 1400`.
    #[test]
    fn a_route_has_a_gateway_of_the_other_family_and_a_limit() {
        let mut answer = vec![2, 32, 0, 0, 254, 0, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
        let gateway: std::net::Ipv6Addr = "fe80::7".parse().unwrap();
        let via = [&libc::AF_INET6.to_ne_bytes()[..2], &gateway.octets()].concat();
        let mut metrics = Vec::new();
        add_attribute(&mut metrics, RTAX_MTU, &1400_u32.to_ne_bytes());
        add_attribute(&mut answer, libc::RTA_OIF, &3_u32.to_ne_bytes());
        add_attribute(&mut answer, libc::RTA_VIA, &via);
        add_attribute(&mut answer, libc::RTA_PREFSRC, &[192, 0, 2, 1]);
        add_attribute(&mut answer, libc::RTA_METRICS, &metrics);
        let address = IpAddr::from([192, 0, 2, 7]);
        let route = Route::read(&answer, address).unwrap();
        assert_eq!((route.interface, route.mtu), (3, Some(1400)));
        assert_eq!(route.neighbour, gateway);
        assert_eq!(route.source, IpAddr::from([192, 0, 2, 1]));
        for cut in 0..answer.len() {
            let _ = Route::read(&answer[..cut], address);
        }
    }

    #[test]
    fn an_entry_is_of_its_neighbour_while_that_answers() {
        let address = IpAddr::from([192, 0, 2, 7]);
        let entry = |state: u16| {
            let mut entry = vec![2, 0, 0, 0, 3, 0, 0, 0];
            entry.extend(state.to_ne_bytes());
            entry.extend([0, 0]);
            add_attribute(&mut entry, libc::NDA_DST, &[192, 0, 2, 7]);
            add_attribute(&mut entry, libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 7]);
            entry
        };
        let found = link_address(&entry(libc::NUD_STALE), 3, address);
        assert_eq!(found, Some([2, 0, 0, 0, 0, 7]));
        let other = IpAddr::from([192, 0, 2, 8]);
        assert_eq!(link_address(&entry(libc::NUD_STALE), 3, other), None);
        assert_eq!(link_address(&entry(libc::NUD_STALE), 4, address), None);
        assert_eq!(link_address(&entry(libc::NUD_FAILED), 3, address), None);
    }
}
