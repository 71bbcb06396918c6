//! Interfaces of this network namespace, and addresses of this machine.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::links::Link;
use super::places::ProgramsOf;
use crate::Error;
use crate::replay::{Interfaces, interned};

/// Whether frames start with an Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Ethernet,
    Ip,
}

/// An interface to measure on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface {
    pub(crate) name: &'static str,
    pub(crate) index: u32,
    pub(crate) framing: Framing,
    /// Every packet passes it twice, out and in: one hook sees them all.
    pub(crate) is_loopback: bool,
}

impl Interface {
    pub(crate) fn find(name: &str) -> Result<Self, Error> {
        let index = index_of(name).ok_or_else(|| Error::NoInterface {
            name: name.to_owned(),
            known: interface_names().join(", "),
        })?;
        let hardware = hardware_type(name)
            .map_err(|source| Error::kernel(format!("ask for the type of {name}"), source))?;
        Self::new(name, index, hardware)
    }

    /// A link, by this name of it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when it carries neither Ethernet nor IP.
    pub(super) fn of(link: &Link, name: &str) -> Result<Self, Error> {
        Self::new(name, link.index, link.hardware)
    }

    fn new(name: &str, index: u32, hardware: u16) -> Result<Self, Error> {
        let framing = framing_of(hardware).ok_or_else(|| Error::Unsupported {
            needs: "an interface must carry Ethernet or IP".to_owned(),
            found: format!("{name} has the hardware type {hardware}"),
            remedy: "choose another interface".to_owned(),
        })?;
        Ok(Self {
            name: interned(name),
            index,
            framing,
            is_loopback: hardware == libc::ARPHRD_LOOPBACK,
        })
    }

    /// Is it measured by this name?
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == interned(name)
    }

    /// What may come, for which programs must be loaded.
    pub(super) fn of_each_framing() -> [Self; 2] {
        [Framing::Ethernet, Framing::Ip].map(|framing| Self {
            name: "",
            index: 0,
            framing,
            is_loopback: false,
        })
    }
}

/// How frames start on hardware of this type; `None` if there is neither Ethernet nor IP.
pub(super) fn framing_of(hardware: u16) -> Option<Framing> {
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(Framing::Ethernet),
        libc::ARPHRD_NONE
        | libc::ARPHRD_PPP
        | ARPHRD_RAWIP
        | libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT
        | libc::ARPHRD_IPGRE
        | ARPHRD_IP6GRE => Some(Framing::Ip),
        _ => None,
    }
}

/// From `linux/if_arp.h`; libc has no names for them.
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_IP6GRE: u16 = 823;

fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    #[expect(unsafe_code, reason = "std cannot look interfaces up")]
    // SAFETY: the name ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// By ioctl, since sysfs may show the interfaces of another namespace.
fn hardware_type(name: &str) -> std::io::Result<u16> {
    #[expect(unsafe_code, reason = "std cannot ask interfaces for their type")]
    // SAFETY: the request is zeroed, its name shorter than the field (index_of found it), the
    // socket is closed again.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request
            .ifr_name
            .iter_mut()
            .zip(name.bytes().take(libc::IFNAMSIZ - 1))
        {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        let answer = libc::ioctl(socket, libc::SIOCGIFHWADDR, &raw mut request);
        let error = std::io::Error::last_os_error();
        libc::close(socket);
        if answer < 0 {
            return Err(error);
        }
        Ok(request.ifr_ifru.ifru_hwaddr.sa_family)
    }
}

/// The names of all interfaces here.
pub fn interface_names() -> Vec<String> {
    let mut names = Vec::new();
    #[expect(unsafe_code, reason = "std cannot list interfaces")]
    // SAFETY: the list ends with an entry whose index is 0, its names with a zero, and it is freed
    // once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return names;
        }
        let mut entry = list;
        while (*entry).if_index != 0 {
            names.push(
                CStr::from_ptr((*entry).if_name)
                    .to_string_lossy()
                    .into_owned(),
            );
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    names
}

/// Says whether an interface can be measured, without touching it.
///
/// # Errors
/// [`Error::NoInterface`], and [`Error::Unsupported`] when it carries neither Ethernet nor IP.
pub fn examine(name: &str) -> Result<(), Error> {
    Interface::find(name).map(drop)
}

/// All addresses of this machine, in this network namespace.
pub(crate) fn local_addresses() -> impl Iterator<Item = IpAddr> {
    let mut addresses = Vec::new();
    #[expect(unsafe_code, reason = "std cannot list addresses")]
    // SAFETY: the list is walked by its links and freed once; an address is read as what its family
    // says.
    unsafe {
        let mut list = std::ptr::null_mut();
        if libc::getifaddrs(&raw mut list) != 0 {
            return addresses.into_iter();
        }
        let mut entry = list;
        while let Some(interface) = entry.as_ref() {
            addresses.extend(
                interface
                    .ifa_addr
                    .as_ref()
                    .and_then(|address| to_address(address)),
            );
            entry = interface.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    addresses.into_iter()
}

#[expect(unsafe_code, reason = "a socket address is a union in C")]
unsafe fn to_address(address: &libc::sockaddr) -> Option<IpAddr> {
    let pointer = std::ptr::from_ref(address);
    match i32::from(address.sa_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these.
            let address = unsafe { std::ptr::read_unaligned(pointer.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { std::ptr::read_unaligned(pointer.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The programs that see the packets of both ways, each once.
pub(crate) fn passing(has_xdp: bool) -> ProgramsOf {
    if has_xdp {
        |interface: &Interface| interface.programs(true)
    } else {
        |interface: &Interface| interface.programs(false)
    }
}

impl Interface {
    fn programs(&self, has_xdp: bool) -> Vec<&'static str> {
        let (ingress, egress) = match self.framing {
            Framing::Ethernet => ("ethernet_ingress", "ethernet_egress"),
            Framing::Ip => ("ip_ingress", "ip_egress"),
        };
        let arriving = if has_xdp { "xdp_ingress" } else { ingress };
        if self.is_loopback {
            vec![arriving]
        } else {
            vec![arriving, egress]
        }
    }
}

/// Interfaces that are measured, by their number.
#[derive(Default, Clone)]
pub(crate) struct InterfaceNames(HashMap<u32, &'static str>);

impl InterfaceNames {
    /// One more.
    pub(super) fn add(&mut self, interface: &Interface) {
        self.0.insert(interface.index, interface.name);
    }

    /// Forgets those that are not there any more, if there are many: flows that were seen there may
    /// end later.
    pub(super) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        const MANY: usize = 8192;
        if self.0.len() > MANY {
            self.0.retain(|index, _| is_there(*index));
        }
    }
}

impl Interfaces for InterfaceNames {
    fn name(&self, interface: u32) -> &'static str {
        self.0.get(&interface).copied().unwrap_or_default()
    }
}
