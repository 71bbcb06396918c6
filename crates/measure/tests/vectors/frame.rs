//! From the words of a packet line to the bytes of a frame: link, tags, IP. What an IP packet
//! carries is in `tunnel.rs` and `transport.rs`.

use std::net::IpAddr;

use etherparse::{
    EtherType, Ethernet2Header, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options, Ipv6FlowLabel,
    Ipv6Header,
};
use fathom_capture::LinkType;

use crate::hosts::{Ends, Hosts};
use crate::transport;
use crate::tunnel;
use crate::words::{Problem, Words};

pub(crate) const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;

/// A captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes on the wire.
    pub(crate) length: u32,
    /// What was captured of them.
    pub(crate) data: Vec<u8>,
}

/// Reads a whole packet line behind its time.
pub(crate) fn read(words: &mut Words<'_>, hosts: &Hosts, link: LinkType) -> Result<Frame, Problem> {
    let mut data = if words.take("raw") {
        words.bytes()?
    } else {
        let ends = hosts.ends(words)?;
        let is_compressed = words.take("compressed");
        let (ether_type, packet) = tagged(words, hosts, ends)?;
        on_link(link, is_compressed, ether_type, &packet)
    };
    let mut length = data.len() as u32;
    loop {
        match words.next() {
            Some("pad") => {
                let wanted = words.value("length")?;
                data.resize(data.len().max(wanted), 0);
                length = data.len() as u32;
            }
            Some("snap") => data.truncate(words.value("length")?),
            Some("flip") => {
                let at: usize = words.value("offset")?;
                let bits: u8 = words.value("number below 256")?;
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Some(word) => return Err(format!("\"{word}\" is not understood here")),
            None => break,
        }
    }
    length = length.max(data.len() as u32);
    Ok(Frame { length, data })
}

fn on_link(link: LinkType, is_compressed: bool, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = match link {
        LinkType::ETHERNET => ethernet(ether_type),
        LinkType::LINUX_SLL => [&[0; 14][..], &ether_type.to_be_bytes()].concat(),
        LinkType::LINUX_SLL2 => [&ether_type.to_be_bytes()[..], &[0; 18]].concat(),
        LinkType::NULL => vec![if ether_type == IPV4 { 2 } else { 30 }, 0, 0, 0],
        LinkType::PPP_HDLC => [vec![0xff, 0x03], ppp(ether_type, is_compressed)].concat(),
        LinkType::PPP_WITH_DIRECTION => {
            [vec![1, 0xff, 0x03], ppp(ether_type, is_compressed)].concat()
        }
        LinkType::PPP => ppp(ether_type, is_compressed),
        LinkType::C_HDLC => [&[0x0f, 0][..], &ether_type.to_be_bytes()].concat(),
        _ => Vec::new(),
    };
    frame.extend(packet);
    frame
}

pub(crate) fn ethernet(ether_type: u16) -> Vec<u8> {
    Ethernet2Header {
        source: [2, 0, 0, 0, 0, 1],
        destination: [2, 0, 0, 0, 0, 2],
        ether_type: EtherType(ether_type),
    }
    .to_bytes()
    .to_vec()
}

/// The protocol field of PPP, which may be compressed.
fn ppp(ether_type: u16, is_compressed: bool) -> Vec<u8> {
    let protocol: u16 = match ether_type {
        IPV4 => 0x0021,
        IPV6 => 0x0057,
        MPLS => 0x0281,
        control => control,
    };
    if is_compressed && protocol < 256 {
        vec![protocol as u8]
    } else {
        protocol.to_be_bytes().to_vec()
    }
}

/// Tags and labels, then an IP packet: its `EtherType` and bytes.
pub(crate) fn tagged(
    words: &mut Words<'_>,
    hosts: &Hosts,
    ends: Ends,
) -> Result<(u16, Vec<u8>), Problem> {
    match words.peek() {
        Some(tag @ ("vlan" | "qinq" | "vlan9100")) => {
            words.next();
            let control: u16 = words.value("VLAN tag")?;
            let (inner_type, inner) = tagged(words, hosts, ends)?;
            let own_type = match tag {
                "vlan" => 0x8100,
                "qinq" => 0x88a8,
                _ => 0x9100,
            };
            Ok((
                own_type,
                [
                    &control.to_be_bytes()[..],
                    &inner_type.to_be_bytes(),
                    &inner,
                ]
                .concat(),
            ))
        }
        Some("pppoe") => {
            words.next();
            let session: u16 = words.value("PPPoE session")?;
            let is_compressed = words.take("compressed");
            let (inner_type, inner) = tagged(words, hosts, ends)?;
            let inner = [ppp(inner_type, is_compressed), inner].concat();
            let header = [0x1100, session, inner.len() as u16].map(u16::to_be_bytes);
            Ok((0x8864, [header.as_flattened(), &inner].concat()))
        }
        Some("mpls") => {
            words.next();
            let label: u32 = words.value("MPLS label")?;
            let (inner_type, inner) = tagged(words, hosts, ends)?;
            let is_bottom = u32::from(inner_type != MPLS);
            let entry = label << 12 | is_bottom << 8 | 64;
            Ok((MPLS, [&entry.to_be_bytes()[..], &inner].concat()))
        }
        Some("snap") => {
            words.next();
            let (inner_type, inner) = tagged(words, hosts, ends)?;
            let header = [&[0xaa, 0xaa, 3, 0, 0, 0][..], &inner_type.to_be_bytes()].concat();
            let length = (header.len() + inner.len()) as u16;
            Ok((length, [header, inner].concat()))
        }
        Some("type") => {
            words.next();
            let ether_type = words.bytes()?;
            let [high, low] = ether_type[..] else {
                return Err("an EtherType has two bytes".to_owned());
            };
            Ok((u16::from_be_bytes([high, low]), words.bytes()?))
        }
        _ => network(words, hosts, ends),
    }
}

/// What an IP header says besides its addresses.
#[derive(Default)]
struct Modifiers {
    ecn: u8,
    ttl: Option<u8>,
    options: Vec<u8>,
    /// In units of 8 bytes, and whether more follow.
    fragment: Option<(u16, bool)>,
    /// IPv6 extension headers: kind and bytes in units of 8, less the first.
    extensions: Vec<(u8, u8)>,
    total: Option<u16>,
}

fn modifiers(words: &mut Words<'_>) -> Result<Modifiers, Problem> {
    let mut modifiers = Modifiers::default();
    loop {
        match words.peek() {
            Some("ecn") => {
                words.next();
                modifiers.ecn = words.value("number below 4")?;
            }
            Some("ttl") => {
                words.next();
                modifiers.ttl = Some(words.value("TTL")?);
            }
            Some("options") => {
                words.next();
                modifiers.options = words.bytes()?;
            }
            Some("fragment") => {
                words.next();
                modifiers.fragment = Some((words.value("fragment offset")?, words.take("more")));
            }
            Some("extension") => {
                words.next();
                modifiers
                    .extensions
                    .push((words.value("extension header")?, words.value("length")?));
            }
            Some("total") => {
                words.next();
                modifiers.total = Some(words.value("length")?);
            }
            _ => return Ok(modifiers),
        }
    }
}

/// An IP packet, or several in one another, with the `EtherType`.
pub(crate) fn network(
    words: &mut Words<'_>,
    hosts: &Hosts,
    inner: Ends,
) -> Result<(u16, Vec<u8>), Problem> {
    let is_carrier = words.take("in");
    let ends = if is_carrier {
        hosts.ends(words)?
    } else {
        inner
    };
    let modifiers = modifiers(words)?;
    let (protocol, payload) = if is_carrier {
        tunnel::read(words, hosts, inner, ends)?
    } else {
        transport::read(words, ends)?
    };
    match (ends.source.ip(), ends.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = Ipv4Header::new(
                0,
                modifiers.ttl.unwrap_or(64),
                IpNumber(protocol),
                source.octets(),
                destination.octets(),
            )
            .map_err(|error| error.to_string())?;
            header.options =
                Ipv4Options::try_from(&modifiers.options[..]).map_err(|error| error.to_string())?;
            header.total_len = (header.header_len() + payload.len()) as u16;
            header.total_len = modifiers.total.unwrap_or(header.total_len);
            header.ecn = modifiers
                .ecn
                .try_into()
                .map_err(|_| "an ECN field is below 4")?;
            if let Some((offset, has_more)) = modifiers.fragment {
                header.fragment_offset =
                    IpFragOffset::try_new(offset).map_err(|error| error.to_string())?;
                header.more_fragments = has_more;
            }
            header.header_checksum = header.calc_header_checksum();
            Ok((IPV4, [&header.to_bytes()[..], &payload].concat()))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (next, payload) = extended(&modifiers, protocol, payload);
            let header = Ipv6Header {
                traffic_class: modifiers.ecn,
                flow_label: Ipv6FlowLabel::default(),
                payload_length: modifiers.total.unwrap_or(payload.len() as u16),
                next_header: IpNumber(next),
                hop_limit: modifiers.ttl.unwrap_or(64),
                source: source.octets(),
                destination: destination.octets(),
            };
            Ok((IPV6, [&header.to_bytes()[..], &payload].concat()))
        }
        _ => Err("the two ends speak different versions of IP".to_owned()),
    }
}

/// Puts IPv6 extension headers in front; returns the first of them, and all bytes.
fn extended(modifiers: &Modifiers, protocol: u8, payload: Vec<u8>) -> (u8, Vec<u8>) {
    let mut headers: Vec<(u8, Vec<u8>)> = modifiers
        .extensions
        .iter()
        .map(|&(kind, length)| {
            let size = if kind == 51 {
                (usize::from(length) + 2) * 4
            } else {
                (usize::from(length) + 1) * 8
            };
            let mut header = vec![0; size];
            header[1] = length;
            (kind, header)
        })
        .collect();
    if let Some((offset, has_more)) = modifiers.fragment {
        let mut header = vec![0; 8];
        header[2..4].copy_from_slice(&(offset << 3 | u16::from(has_more)).to_be_bytes());
        headers.push((44, header));
    }
    headers
        .into_iter()
        .rev()
        .fold((protocol, payload), |(next, rest), (kind, mut header)| {
            header[0] = next;
            header.extend(rest);
            (kind, header)
        })
}
