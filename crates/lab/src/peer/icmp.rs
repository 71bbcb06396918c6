//! The ICMP and ICMPv6 messages that a script sends.

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{Icmpv4Type, Icmpv6Type};

use super::segment::{Segment, ip_builder, unbuildable};
use crate::Result;

/// Most bytes of a refused packet that an ICMP error carries, so that it has at most 576 (RFC 1812
/// §4.3.2.3).
const REFUSED_BYTES_MAXIMUM: usize = 576 - 20 - 8;

/// The answer of the destination of `refused` that it cannot be reached.
pub(super) fn unreachable(refused: &Segment) -> Result<Vec<u8>> {
    let original = refused.packet()?;
    let original = &original[..original.len().min(REFUSED_BYTES_MAXIMUM)];
    let (source, destination) = (refused.destination.ip(), refused.source.ip());
    let builder = ip_builder(source, destination)?;
    let mut packet = Vec::new();
    let written = if source.is_ipv4() {
        let reason = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Host);
        builder.icmpv4(reason).write(&mut packet, original)
    } else {
        let reason = Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Address);
        builder.icmpv6(reason).write(&mut packet, original)
    };
    written.map_err(|why| unbuildable(source, destination, &why))?;
    Ok(packet)
}
