//! The links of this network namespace, as rtnetlink tells of them: all at once, and when something
//! changes.

use std::io::{Error, ErrorKind};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Room for a datagram of the kernel: it never sends longer ones.
const LONGEST: usize = 64 << 10;
/// Datagrams that are taken at a time, at most: a storm of changes must not keep its reader from
/// the packets.
const BURST: usize = 256;
/// Bytes of `struct nlmsghdr`, and of it with `struct ifinfomsg`.
const HEADER: usize = 16;
const LINK_HEADER: usize = HEADER + 16;

/// Attributes of `linux/if_link.h`.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;
/// Kinds of messages of `linux/netlink.h`.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// A link, as far as it matters whether and how it is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// Its other names.
    pub(super) others: Vec<String>,
    /// `ARPHRD_…`.
    pub(super) hardware: u16,
    /// `bridge`, `vlan`, `veth`, …; empty for what a driver makes.
    pub(super) kind: String,
    /// The index of the bridge or bond that it is a port of; 0: of none.
    pub(super) controller: u32,
    /// The index of the link of this namespace that it stands on; 0: on none.
    pub(super) below: u32,
}

impl Link {
    /// Is this one of its names?
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// All of its names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.others)
            .map(String::as_str)
    }

    /// Reads `struct ifinfomsg` and its attributes.
    fn read(message: &[u8]) -> Option<Self> {
        let header = message.first_chunk::<LINK_HEADER>()?;
        let mut link = Self {
            hardware: u16_at(header, HEADER + 2)?,
            index: u32_at(header, HEADER + 4)?,
            ..Self::default()
        };
        let (mut below, mut is_elsewhere) = (0, false);
        for (kind, value) in attributes(&message[LINK_HEADER..]) {
            match kind {
                IFLA_IFNAME => link.name = text(value),
                IFLA_MASTER => link.controller = u32_at(value, 0)?,
                IFLA_LINK => below = u32_at(value, 0)?,
                IFLA_LINK_NETNSID => is_elsewhere = true,
                IFLA_LINKINFO => {
                    let mut information = attributes(value);
                    let found = information.find(|(kind, _)| *kind == IFLA_INFO_KIND);
                    link.kind = found.map(|(_, value)| text(value)).unwrap_or_default();
                }
                IFLA_PROP_LIST => {
                    let names = attributes(value).filter(|(kind, _)| *kind == IFLA_ALT_IFNAME);
                    link.others = names.map(|(_, value)| text(value)).collect();
                }
                _ => {}
            }
        }
        if !is_elsewhere && below != link.index {
            link.below = below;
        }
        Some(link)
    }
}

/// All links there are.
///
/// # Errors
/// When the kernel does not tell.
pub(super) fn links() -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    dump(&question(), |kind, message| {
        if kind == libc::RTM_NEWLINK {
            links.extend(Link::read(message));
        }
    })?;
    Ok(links)
}

/// Whether any filter is on a side of the clsact qdisc of this link.
///
/// # Errors
/// When the kernel does not tell, as where there is no such qdisc.
pub(super) fn has_filters(link: u32) -> Result<bool, Error> {
    /// `TC_H_CLSACT` with `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`.
    const SIDES: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
    let mut found = false;
    for side in SIDES {
        // `struct tcmsg`: family, link, handle, parent, and what is not asked for.
        let body = [0, link, 0, side, 0].map(u32::to_ne_bytes).concat();
        dump(&request(libc::RTM_GETTFILTER, &body), |kind, _| {
            found |= kind == libc::RTM_NEWTFILTER;
        })?;
    }
    Ok(found)
}

/// Asks for all there is of a kind, and gives the kind of each message and its bytes.
fn dump(question: &[u8], mut each: impl FnMut(u16, &[u8])) -> Result<(), Error> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(question, 0)?;
    loop {
        let mut room = Vec::with_capacity(LONGEST);
        socket.recv(&mut room, 0)?;
        for (kind, message) in messages(&room) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = u32_at(message, HEADER).unwrap_or_default().cast_signed();
                    return Err(Error::from_raw_os_error(code.abs()));
                }
                _ => each(kind, message),
            }
        }
    }
}

/// `RTM_GETLINK` of all, without their statistics.
fn question() -> Vec<u8> {
    const EXT_MASK: u16 = 29;
    const SKIP_STATISTICS: u32 = 8;
    let mut body = vec![0; LINK_HEADER - HEADER];
    body.extend(8_u16.to_ne_bytes());
    body.extend(EXT_MASK.to_ne_bytes());
    body.extend(SKIP_STATISTICS.to_ne_bytes());
    request(libc::RTM_GETLINK, &body)
}

/// A message that asks for all of a kind.
fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    /// `NLM_F_REQUEST` and `NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    let length = (HEADER + body.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(FLAGS.to_ne_bytes());
    bytes.resize(HEADER, 0);
    bytes.extend(body);
    bytes
}

/// Tells that links or addresses have changed.
pub(super) struct Watch(Socket);

/// What has changed since the last look.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) has_changes: bool,
    /// Indices of links that went. One may be back already, by the same name and index.
    pub(super) gone: Vec<u32>,
}

impl Watch {
    /// Begins to listen; what changes from now on is told.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open() -> Result<Self, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
        ] {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// Does not wait.
    ///
    /// # Errors
    /// When the system does not tell any more.
    pub(super) fn look(&self) -> Result<News, Error> {
        let mut news = News::default();
        for _ in 0..BURST {
            let mut room = Vec::with_capacity(LONGEST);
            match self.0.recv(&mut room, 0) {
                Ok(_) => news.take(&room),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Some were lost: what they told is seen in the list of all.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    news.has_changes = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(news)
    }
}

impl News {
    fn take(&mut self, datagram: &[u8]) {
        for (kind, message) in messages(datagram) {
            self.has_changes = true;
            // A bridge tells so, too, that a port has left it.
            let is_link = message.get(HEADER) == Some(&(libc::AF_UNSPEC as u8));
            if kind == libc::RTM_DELLINK && is_link {
                self.gone.extend(u32_at(message, HEADER + 4));
            }
        }
    }
}

/// The messages of a datagram, with their headers, and what kind they are.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let message = rest.get(..length).filter(|_| length >= HEADER)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, message))
    })
}

fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Above are flags.
    const KIND: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes
        .get(offset..)?
        .first_chunk()
        .map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes
        .get(offset..)?
        .first_chunk()
        .map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Up to its zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let links = links().unwrap();
        let loopback = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!(loopback.hardware, libc::ARPHRD_LOOPBACK);
        assert_eq!((loopback.controller, loopback.below), (0, 0));
        assert!(loopback.is_called("lo") && !loopback.is_called("l"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let mut news = News::default();
            news.take(&bytes);
            for (_, message) in messages(&bytes) {
                Link::read(message);
            }
            Link::read(&bytes);
        }
    }
}
