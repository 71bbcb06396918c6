//! TCP segments and the bytes they are on Ethernet.

use std::net::{IpAddr, SocketAddr};

use crate::pcap::SNAP_LENGTH;

/// The TCP flag bits that the simulated hosts use.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// The receiver should hand the data over at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

/// The shift in the window scale option of every SYN.
const WINDOW_SCALE: u8 = 7;
/// The window field of every segment: 4 MiB after the SYN, which never limits a sender here.
const WINDOW: u16 = 32_768;
const ETHERNET_BYTES: usize = 14;

/// The two numbers of the TCP timestamps option (RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`: the sender's clock, in its own ticks.
    pub value: u32,
    /// `TSecr`: the value it echoes to the peer.
    pub echo: u32,
}

/// One TCP segment, without the addresses; its payload is zeros.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN).
    pub sequence: u32,
    /// Next byte expected from the peer; written only where the ACK flag is set.
    pub acknowledgement: u32,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Bytes of payload.
    pub payload_bytes: u16,
    /// The timestamps option, if the connection uses it.
    pub timestamps: Option<Timestamps>,
    /// Selectively acknowledged ranges, first byte to the one after the last (RFC 2018).
    pub sack_blocks: [Option<(u32, u32)>; 3],
}

impl Segment {
    /// Whether all the bits of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// How far the segment moves the sequence number on: payload, SYN and FIN.
    pub fn sequence_length(&self) -> u32 {
        u32::from(self.payload_bytes)
            + u32::from(self.has(flag::SYN))
            + u32::from(self.has(flag::FIN))
    }

    /// Bytes of the Ethernet frame around the segment, between hosts of the family of `address`.
    pub fn frame_bytes(&self, address: IpAddr) -> usize {
        ETHERNET_BYTES
            + ip_header_bytes(address)
            + 20
            + self.options_bytes()
            + usize::from(self.payload_bytes)
    }

    fn options_bytes(&self) -> usize {
        let blocks = self.sack_blocks.iter().flatten().count();
        let sack_bytes = if blocks == 0 { 0 } else { 4 + 8 * blocks };
        match (self.has(flag::SYN), self.timestamps.is_some()) {
            (true, true) => 20,
            (true, false) => 12,
            (false, true) => 12 + sack_bytes,
            (false, false) => sack_bytes,
        }
    }

    /// The acknowledgement number that says "all of this segment arrived".
    pub fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.sequence_length())
    }
}

/// The largest payload that fits into 1500 bytes of IP with the options every segment carries.
pub fn segment_payload_bytes(address: IpAddr, has_timestamps: bool) -> u16 {
    1500 - ip_header_bytes(address) as u16 - 20 - if has_timestamps { 12 } else { 0 }
}

fn ip_header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { 20 } else { 40 }
}

/// A frame cut to the snap length.
#[derive(Debug)]
pub struct Frame {
    bytes: [u8; SNAP_LENGTH],
    original_bytes: usize,
}

impl Frame {
    /// The frame that carries `segment`; `identification` is used for IPv4 only. All checksums are
    /// right for the whole packet.
    pub fn new(
        source: SocketAddr,
        destination: SocketAddr,
        identification: u16,
        segment: &Segment,
    ) -> Self {
        let ip_bytes = ip_header_bytes(source.ip());
        let mut bytes = [0; SNAP_LENGTH];
        let options_bytes = segment.options_bytes();
        let options_start = ETHERNET_BYTES + ip_bytes + 20;
        write_options(
            &mut bytes[options_start..options_start + options_bytes],
            source.ip(),
            segment,
        );
        let tcp_bytes = 20 + options_bytes + usize::from(segment.payload_bytes);
        let (ethernet, packet) = bytes.split_at_mut(ETHERNET_BYTES);
        let (ip, tcp) = packet.split_at_mut(ip_bytes);
        write_ethernet(ethernet, source.is_ipv4());
        write_ip(
            ip,
            source.ip(),
            destination.ip(),
            identification,
            tcp_bytes as u16,
        );
        write_tcp(
            &mut tcp[..20 + options_bytes],
            source,
            destination,
            segment,
            tcp_bytes,
        );
        Self {
            bytes,
            original_bytes: segment.frame_bytes(source.ip()),
        }
    }

    /// What a capture keeps of the frame.
    pub fn captured(&self) -> &[u8] {
        &self.bytes[..self.original_bytes.min(SNAP_LENGTH)]
    }

    /// Bytes on the wire, without the check sequence.
    pub fn original_bytes(&self) -> usize {
        self.original_bytes
    }
}

fn write_ethernet(header: &mut [u8], is_ipv4: bool) {
    header[0..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    header[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    header[12..14].copy_from_slice(if is_ipv4 {
        &[0x08, 0x00]
    } else {
        &[0x86, 0xdd]
    });
}

fn write_ip(
    header: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    identification: u16,
    tcp_bytes: u16,
) {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(20 + tcp_bytes).to_be_bytes());
            header[4..6].copy_from_slice(&identification.to_be_bytes());
            header[6] = 0x40; // don't fragment
            header[8..10].copy_from_slice(&[62, 6]);
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let checksum = !fold(sum_words(header));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            header[0] = 0x60;
            header[4..6].copy_from_slice(&tcp_bytes.to_be_bytes());
            header[6..8].copy_from_slice(&[6, 62]);
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&destination.octets());
        }
        _ => unreachable!("both ends of a flow are of one address family"),
    }
}

/// Writes the header around the options that are already in place; `tcp_bytes` counts the payload
/// too.
fn write_tcp(
    header: &mut [u8],
    source: SocketAddr,
    destination: SocketAddr,
    segment: &Segment,
    tcp_bytes: usize,
) {
    header[0..2].copy_from_slice(&source.port().to_be_bytes());
    header[2..4].copy_from_slice(&destination.port().to_be_bytes());
    header[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    if segment.has(flag::ACK) {
        header[8..12].copy_from_slice(&segment.acknowledgement.to_be_bytes());
    }
    header[12] = (header.len() as u8 / 4) << 4;
    header[13] = segment.flags;
    header[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    // The payload is zeros: it adds nothing to the sum but its length, which the pseudo header
    // holds.
    let pseudo_header =
        sum_address(source.ip()) + sum_address(destination.ip()) + 6 + tcp_bytes as u32;
    let checksum = !fold(pseudo_header + sum_words(header));
    header[16..18].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes the options in the order Linux does; they fill `options`.
fn write_options(options: &mut [u8], address: IpAddr, segment: &Segment) {
    const NOP: u8 = 1;
    let mut used = 0;
    let mut push = |bytes: &[u8]| {
        options[used..used + bytes.len()].copy_from_slice(bytes);
        used += bytes.len();
    };
    let is_syn = segment.has(flag::SYN);
    if is_syn {
        let [high, low] = segment_payload_bytes(address, false).to_be_bytes();
        push(&[2, 4, high, low]);
        push(if segment.timestamps.is_some() {
            &[4, 2]
        } else {
            &[NOP, NOP, 4, 2]
        });
    } else if segment.timestamps.is_some() {
        push(&[NOP, NOP]);
    }
    if let Some(Timestamps { value, echo }) = segment.timestamps {
        push(&[8, 10]);
        push(&value.to_be_bytes());
        push(&echo.to_be_bytes());
    }
    if is_syn {
        push(&[NOP, 3, 3, WINDOW_SCALE]);
    }
    let blocks = segment.sack_blocks.iter().flatten();
    let block_count = blocks.clone().count() as u8;
    if block_count > 0 {
        push(&[NOP, NOP, 5, 2 + 8 * block_count]);
        for (first, after_last) in blocks {
            push(&first.to_be_bytes());
            push(&after_last.to_be_bytes());
        }
    }
    debug_assert_eq!(
        used,
        options.len(),
        "the options have the length their segment says"
    );
}

fn sum_address(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => sum_words(&address.octets()),
        IpAddr::V6(address) => sum_words(&address.octets()),
    }
}

/// The sum of big-endian 16-bit words; every header here has an even length.
fn sum_words(bytes: &[u8]) -> u32 {
    bytes
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The one's complement sum over a whole TCP segment and its pseudo header: 0xffff where the
    /// checksum is right (RFC 9293, 3.1).
    fn tcp_sum(frame: &Frame, source: SocketAddr, destination: SocketAddr) -> u16 {
        let tcp = &frame.captured()[ETHERNET_BYTES + ip_header_bytes(source.ip())..];
        let tcp_bytes = frame.original_bytes() - ETHERNET_BYTES - ip_header_bytes(source.ip());
        let header_bytes = usize::from(tcp[12] >> 4) * 4;
        fold(
            sum_address(source.ip())
                + sum_address(destination.ip())
                + 6
                + tcp_bytes as u32
                + sum_words(&tcp[..header_bytes]),
        )
    }

    proptest! {
        #[test]
        fn checksums_and_lengths_are_right(
            is_ipv4: bool, sequence: u32, acknowledgement: u32, flags in 0_u8..32, payload_bytes in 0_u16..1388,
            timestamps in proptest::option::of((any::<u32>(), any::<u32>())), block_count in 0_usize..4, identification: u16,
        ) {
            let (source, destination): (SocketAddr, SocketAddr) = if is_ipv4 {
                ("10.1.2.3:4000".parse().unwrap(), "192.0.2.255:5201".parse().unwrap())
            } else {
                ("[2001:db8::1]:4000".parse().unwrap(), "[2001:db8:ffff::fffe]:5201".parse().unwrap())
            };
            let mut segment = Segment { sequence, acknowledgement, flags, payload_bytes, ..Segment::default() };
            segment.timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            if !segment.has(flag::SYN) {
                segment.sack_blocks[..block_count].fill(Some((sequence, acknowledgement)));
            }
            let frame = Frame::new(source, destination, identification, &segment);
            prop_assert!(frame.captured().len() <= SNAP_LENGTH);
            prop_assert!(frame.original_bytes() <= 1514);
            prop_assert_eq!(tcp_sum(&frame, source, destination), 0xffff);
            if is_ipv4 {
                prop_assert_eq!(fold(sum_words(&frame.captured()[14..34])), 0xffff);
            }
        }
    }

    #[test]
    fn a_full_segment_fills_1500_bytes() {
        for address in ["10.0.0.1:1", "[2001:db8::1]:1"] {
            let address: SocketAddr = address.parse().unwrap();
            let payload_bytes = segment_payload_bytes(address.ip(), true);
            let timestamps = Some(Timestamps { value: 1, echo: 2 });
            let segment = Segment {
                flags: flag::ACK,
                payload_bytes,
                timestamps,
                ..Segment::default()
            };
            assert_eq!(
                Frame::new(address, address, 0, &segment).original_bytes(),
                1514
            );
        }
    }
}
