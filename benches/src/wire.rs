//! TCP segments as Ethernet frames.

use std::net::{IpAddr, SocketAddr};

use etherparse::TcpOptionElement::{
    MaximumSegmentSize, Noop, SelectiveAcknowledgementPermitted, Timestamp, WindowScale,
};
use etherparse::{PacketBuilder, TcpHeader};
pub use fathom_lab::{TcpFlags, Timestamps};

/// Most bytes of a frame: enough for Ethernet, IPv6, the longest TCP header, and what is measured.
const FRAME_BYTES: usize = 128;

/// One TCP segment, without the addresses; its payload is zeros.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN).
    pub sequence: u32,
    /// Next byte expected from the peer; it counts where the ACK flag is set.
    pub acknowledgement: u32,
    /// Its flags.
    pub flags: TcpFlags,
    /// Bytes of payload.
    pub payload_bytes: u16,
    /// The timestamps option, if the connection uses it.
    pub timestamps: Option<Timestamps>,
}

impl Segment {
    /// The frame that carries it, cut to 128 bytes. All checksums are right for the whole packet,
    /// and the options are laid out as Linux does.
    ///
    /// # Panics
    /// When the addresses are not of one family.
    pub fn frame(&self, source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
        const HOPS: u8 = 62;
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                ethernet.ipv4(source.octets(), destination.octets(), HOPS)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                ethernet.ipv6(source.octets(), destination.octets(), HOPS)
            }
            _ => unreachable!("both ends of a flow are of one address family"),
        };
        let is_syn = self.flags.contains(TcpFlags::SYN);
        let mut header = TcpHeader {
            syn: is_syn,
            fin: self.flags.contains(TcpFlags::FIN),
            psh: self.flags.contains(TcpFlags::PSH),
            ack: self.flags.contains(TcpFlags::ACK),
            acknowledgment_number: self.acknowledgement,
            ..TcpHeader::new(source.port(), destination.port(), self.sequence, 32_768)
        };
        let timestamp = self.timestamps.map(|both| Timestamp(both.value, both.echo));
        let options = match (is_syn, timestamp) {
            (true, timestamp) => vec![
                MaximumSegmentSize(1460),
                SelectiveAcknowledgementPermitted,
                timestamp.unwrap_or(Noop),
                Noop,
                WindowScale(7),
            ],
            (false, Some(timestamp)) => vec![Noop, Noop, timestamp],
            (false, None) => Vec::new(),
        };
        let mut frame = Vec::new();
        header
            .set_options(&options)
            .map_err(std::io::Error::other)
            .and_then(|()| {
                let payload = vec![0; self.payload_bytes.into()];
                let packet = ip.tcp_header(header);
                packet
                    .write(&mut frame, &payload)
                    .map_err(std::io::Error::other)
            })
            .expect("a segment fits into a packet");
        frame.truncate(FRAME_BYTES);
        frame
    }
}
