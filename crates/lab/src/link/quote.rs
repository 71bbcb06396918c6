//! What an ICMP error says of the packet it is about.

/// The parts of a quoted packet within the 8 bytes after its IP header that RFC 792 promises, as
/// the sender of the error saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quote {
    /// IANA protocol number, in IPv6 of what follows the fixed header.
    pub protocol: u8,
    /// TTL or hop limit when it was quoted, usually 0 or 1.
    pub hop_limit: u8,
    /// Identification of IPv4; zero in IPv6.
    pub identification: u16,
    /// First 16 bits after the IP header, the source port of TCP and UDP.
    pub source_port: u16,
    /// The next 16 bits, the destination port of TCP and UDP.
    pub destination_port: u16,
    /// The next 32 bits: the sequence number of TCP, length and checksum of UDP, identifier and
    /// sequence number of an echo message.
    pub word: u32,
}

impl Quote {
    /// Reads a quote; `None` when it is cut off before the last field.
    pub(crate) fn parse(quote: &[u8]) -> Option<Self> {
        let (header_bytes, protocol, hop_limit, identification) = match quote.first()? >> 4 {
            4 => (
                usize::from(quote[0] & 15) * 4,
                *quote.get(9)?,
                quote[8],
                u16::from_be_bytes([quote[4], quote[5]]),
            ),
            6 => (40, *quote.get(6)?, *quote.get(7)?, 0),
            _ => return None,
        };
        let transport: [u8; 8] = *quote.get(header_bytes..)?.first_chunk()?;
        let [a, b, c, d, word @ ..] = transport;
        Some(Self {
            protocol,
            hop_limit,
            identification,
            source_port: u16::from_be_bytes([a, b]),
            destination_port: u16::from_be_bytes([c, d]),
            word: u32::from_be_bytes(word),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    #[test]
    fn eight_bytes_are_enough() {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 3);
        let segment = builder.tcp(4000, 443, 0x0102_0304, 100);
        segment.write(&mut bytes, b"hello").unwrap();
        let quote = Quote::parse(&bytes[..48]).unwrap();
        assert_eq!(quote.word, 0x0102_0304);
        assert_eq!((quote.source_port, quote.destination_port), (4000, 443));
        assert_eq!((quote.protocol, quote.hop_limit), (6, 3));
        assert_eq!(Quote::parse(&bytes[..47]), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..80), version in 0_u8..16) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 15;
            }
            let _ = Quote::parse(&bytes);
        }
    }
}
