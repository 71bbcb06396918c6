//! From words to what an IP packet carries that is a tunnel: another packet or frame, and the
//! headers in front of it.

use std::net::SocketAddr;

use crate::frame::{IPV4, ethernet, network, tagged};
use crate::hosts::{Ends, Hosts};
use crate::transport;
use crate::words::{Problem, Words};

const BRIDGED: u16 = 0x6558;

/// A tunnel's own header and what is in it.
pub(crate) fn read(
    words: &mut Words<'_>,
    hosts: &Hosts,
    inner: Ends,
    outer: Ends,
) -> Result<(u8, Vec<u8>), Problem> {
    match words.expect("kind of tunnel")? {
        "ip" => {
            let (ether_type, packet) = network(words, hosts, inner)?;
            Ok((if ether_type == IPV4 { 4 } else { 41 }, packet))
        }
        "gre" => Ok((47, gre(words, hosts, inner)?)),
        "gre-in-udp" => Ok((17, in_udp(outer, 4754, &gre(words, hosts, inner)?))),
        "gtp" => Ok((17, in_udp(outer, 2152, &gtp(words, hosts, inner)?))),
        "vxlan" => {
            let identifier: u32 = words.value("VXLAN identifier")?;
            let header = [0x0800_0000, identifier << 8].map(u32::to_be_bytes);
            let (ether_type, packet) = tagged(words, hosts, inner)?;
            let frame = [&ethernet(ether_type)[..], &packet].concat();
            let port = if outer.destination.port() == 0 {
                4789
            } else {
                outer.destination.port()
            };
            Ok((
                17,
                in_udp(outer, port, &[header.as_flattened(), &frame].concat()),
            ))
        }
        "geneve" => {
            let identifier: u32 = words.value("Geneve identifier")?;
            let options: u8 = if words.take("options") {
                words.value("number of options")?
            } else {
                0
            };
            let is_bridged = !words.take("routed");
            let (ether_type, packet) = tagged(words, hosts, inner)?;
            let (own_type, frame) = if is_bridged {
                (BRIDGED, [&ethernet(ether_type)[..], &packet].concat())
            } else {
                (ether_type, packet)
            };
            let mut header = vec![options, 0];
            header.extend(own_type.to_be_bytes());
            header.extend((identifier << 8).to_be_bytes());
            header.resize(8 + usize::from(options) * 4, 0);
            Ok((17, in_udp(outer, 6081, &[header, frame].concat())))
        }
        word => Err(format!("\"{word}\" is no tunnel")),
    }
}

fn gre(words: &mut Words<'_>, hosts: &Hosts, inner: Ends) -> Result<Vec<u8>, Problem> {
    let (mut flags, mut fields) = (0_u16, Vec::new());
    if words.take("checksum") {
        flags |= 0x8000;
        fields.extend([0; 4]);
    }
    if words.take("key") {
        flags |= 0x2000;
        fields.extend(words.value::<u32>("GRE key")?.to_be_bytes());
    }
    if words.take("sequence") {
        flags |= 0x1000;
        fields.extend(words.value::<u32>("GRE sequence number")?.to_be_bytes());
    }
    if words.take("version") {
        flags |= words.value::<u16>("GRE version")?;
    }
    let mirrored = erspan(words)?;
    let is_bridged = mirrored.is_some() || words.take("bridged");
    let (ether_type, packet) = tagged(words, hosts, inner)?;
    let (own_type, frame) = if is_bridged {
        (BRIDGED, [&ethernet(ether_type)[..], &packet].concat())
    } else {
        (ether_type, packet)
    };
    let (own_type, header) = mirrored.unwrap_or((own_type, Vec::new()));
    let start = [flags, own_type].map(u16::to_be_bytes);
    Ok([start.as_flattened(), &fields, &header, &frame].concat())
}

/// `erspan1`, `erspan2 SESSION`, `erspan3 SESSION [platform]`: the `EtherType` and the header, if
/// it is one.
fn erspan(words: &mut Words<'_>) -> Result<Option<(u16, Vec<u8>)>, Problem> {
    let kind = words.peek().unwrap_or_default();
    if !matches!(kind, "erspan1" | "erspan2" | "erspan3") {
        return Ok(None);
    }
    words.next();
    if kind == "erspan1" {
        return Ok(Some((0x88be, Vec::new())));
    }
    // The class of service and the flags around the session are no part of it.
    let session = words.value::<u16>("ERSPAN session")? | 0xfc00;
    if kind == "erspan2" {
        let header = [0x1005, session, 0, 7].map(u16::to_be_bytes);
        return Ok(Some((0x88be, header.concat())));
    }
    let has_platform = words.take("platform");
    let flags = 0x0010 | u16::from(has_platform);
    let mut header = [0x2005, session, 1, 2, 3, flags]
        .map(u16::to_be_bytes)
        .concat();
    header.resize(if has_platform { 20 } else { 12 }, 0);
    Ok(Some((0x22eb, header)))
}

/// `gtp TUNNEL [message N] [sequence] [extension LENGTH]…`, the length in units of four bytes.
fn gtp(words: &mut Words<'_>, hosts: &Hosts, inner: Ends) -> Result<Vec<u8>, Problem> {
    let tunnel: u32 = words.value("GTP tunnel")?;
    let message: u8 = if words.take("message") {
        words.value("GTP message")?
    } else {
        255
    };
    let mut flags = 0x30 | u8::from(words.take("sequence")) << 1;
    let mut lengths: Vec<u8> = Vec::new();
    while words.take("extension") {
        flags |= 4;
        lengths.push(words.value("length of an extension header")?);
    }
    let mut options = if flags.trailing_zeros() >= 3 {
        Vec::new()
    } else {
        vec![0, 9, 0, 0]
    };
    for length in lengths {
        // The byte before says that one follows.
        *options.last_mut().ok_or("no options")? = 0x85;
        let end = options.len() + usize::from(length) * 4;
        options.push(length);
        options.resize(end.max(options.len()), 0);
    }
    let (_, packet) = network(words, hosts, inner)?;
    let length = (options.len() + packet.len()) as u16;
    let header = [
        &[flags, message][..],
        &length.to_be_bytes(),
        &tunnel.to_be_bytes(),
    ]
    .concat();
    Ok([header, options, packet].concat())
}

fn in_udp(outer: Ends, port: u16, payload: &[u8]) -> Vec<u8> {
    let source = SocketAddr::new(outer.source.ip(), 50_000);
    let destination = SocketAddr::new(outer.destination.ip(), port);
    transport::udp(
        Ends {
            source,
            destination,
        },
        payload,
    )
}
