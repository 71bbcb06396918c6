//! What clients send in virtual time.

use etherparse::PacketBuilder;
use etherparse::TcpOptionElement::{Noop, Timestamp};

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    Segment,
    Fin,
}

/// A segment of a client, which has had so many bytes. `timestamps`: its own and the one that it
/// echoes.
pub(crate) fn segment(
    kind: Kind,
    port: u16,
    sequence: u32,
    received: u32,
    timestamps: Option<(u32, u32)>,
    payload: u32,
) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64)
        .tcp(port, 8080, sequence, 65_535);
    let builder = match kind {
        Kind::Syn => builder.syn(),
        Kind::Segment => builder.ack(77 + received),
        Kind::Fin => builder.fin().ack(77 + received),
    };
    let options = timestamps.map(|(own, echo)| [Noop, Noop, Timestamp(own, echo)]);
    let builder = builder.options(options.as_ref().map_or(&[], |it| &it[..]));
    let mut frame = Vec::new();
    builder
        .unwrap()
        .write(&mut frame, &vec![0x5a; payload as usize])
        .unwrap();
    frame
}
