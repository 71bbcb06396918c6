//! Captures of echoes, each answered: a round trip each.

use etherparse::{Icmpv4Header, PacketBuilder, PacketBuilderStep};
use fathom_capture::{LinkType, Writer};

/// A pcap file of the echoes with these numbers, 10 ms apart; those that follow can be appended to
/// it without its first [`HEADER_BYTES`].
pub(crate) fn echoes(numbers: std::ops::Range<u32>) -> Vec<u8> {
    const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
    let (client, server) = ([10, 0, 0, 1], [10, 0, 1, 1]);
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    for number in numbers {
        let time_ns = BEGIN_NS + u64::from(number) * 10_000_000;
        let request = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(client, server, 64);
        let request = request.icmpv4_echo_request(7, number as u16);
        let reply = PacketBuilder::ethernet2([4; 6], [2; 6])
            .ipv4(server, client, 64)
            .icmpv4_echo_reply(7, number as u16);
        let mut write = |time_ns, packet: PacketBuilderStep<Icmpv4Header>| {
            let mut bytes = Vec::new();
            packet.write(&mut bytes, &[0; 8]).unwrap();
            writer.write(time_ns, bytes.len() as u32, &bytes).unwrap();
        };
        write(time_ns, request);
        write(time_ns + 2_000_000, reply);
    }
    writer.finish().unwrap()
}

/// What a pcap file begins with.
pub(crate) const HEADER_BYTES: usize = 24;
