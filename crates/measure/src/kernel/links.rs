//! The links of this network namespace, as rtnetlink tells of them: all at once, and when something
//! changes.

use std::io::{Error, ErrorKind};

use super::rtnetlink::{Listener, Questions, add_attribute, attributes, messages, u16_at, u32_at};

/// Datagrams that are taken at a time, at most: a storm of changes must not keep its reader from
/// the packets.
const BURST: usize = 256;
/// Bytes of `struct ifinfomsg`.
const HEADER: usize = 16;

/// Attributes of `linux/if_link.h`.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;

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
        let (header, behind) = message.split_at_checked(HEADER)?;
        let mut link = Self {
            hardware: u16_at(header, 2)?,
            index: u32_at(header, 4)?,
            ..Self::default()
        };
        let (mut below, mut is_elsewhere) = (0, false);
        for (kind, value) in attributes(behind) {
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
    const EXT_MASK: u16 = 29;
    let mut question = vec![0; HEADER];
    let without_statistics = libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
    add_attribute(&mut question, EXT_MASK, &without_statistics);
    let mut links = Vec::new();
    Questions::open()?.ask_for_all(libc::RTM_GETLINK, &question, |kind, message| {
        if kind == libc::RTM_NEWLINK {
            links.extend(Link::read(message));
        }
    })?;
    Ok(links)
}

/// The handles of the filters on both sides of the clsact qdisc of this link. What the kernel tells
/// of several together has handle 0.
///
/// # Errors
/// When the kernel does not tell, as where there is no such qdisc.
pub(super) fn filters(link: u32) -> Result<Vec<u32>, Error> {
    /// `TC_H_CLSACT` with `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`.
    const SIDES: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
    /// Offset of the handle in `struct tcmsg`: family, link, handle, parent, and what is not asked
    /// for.
    const HANDLE: usize = 8;
    let mut handles = Vec::new();
    let mut questions = Questions::open()?;
    for side in SIDES {
        let body = [0, link, 0, side, 0].map(u32::to_ne_bytes).concat();
        questions.ask_for_all(libc::RTM_GETTFILTER, &body, |kind, message| {
            if kind == libc::RTM_NEWTFILTER {
                handles.extend(u32_at(message, HANDLE));
            }
        })?;
    }
    Ok(handles)
}

/// Tells that links or addresses have changed.
pub(super) struct Watch(Listener);

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
        Listener::open(&[
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
        ])
        .map(Self)
    }

    /// Does not wait.
    ///
    /// # Errors
    /// When the system does not tell any more.
    pub(super) fn look(&self) -> Result<News, Error> {
        let mut news = News::default();
        for _ in 0..BURST {
            match self.0.next() {
                Ok(datagram) => news.take(&datagram),
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
            let is_link = message.first() == Some(&(libc::AF_UNSPEC as u8));
            if kind == libc::RTM_DELLINK && is_link {
                self.gone.extend(u32_at(message, 4));
            }
        }
    }
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
