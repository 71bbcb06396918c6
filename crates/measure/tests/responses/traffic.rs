//! Packets that chance makes: connections of requests and answers with all that can happen to them.

use etherparse::TcpOptionElement::{Noop, Timestamp};
use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader, UdpHeader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// When the first packet comes, in ns.
const START_NS: u64 = 1_000_000_000_000;
const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SERVER: [u8; 4] = [10, 2, 0, 1];

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Syn,
    SynAck,
    Request(u16),
    /// That begins with these bytes.
    Message(&'static [u8], u16),
    Again,
    Acknowledge(u16),
    /// A request that ends on its way.
    Dying(u16),
    Answer(u16),
    Finish,
    Reset,
    Datagram(u16),
    DatagramBack(u16),
    QuicInitial,
    WireGuard(u8, u16),
    Esp(u32, usize),
}

/// What messages begin with: records of TLS (handshake, data) and frames of HTTP/2 (the preface,
/// `WINDOW_UPDATE`, an acknowledgement of SETTINGS, SETTINGS of a stream, which there are none of).
const MESSAGES: [(&[u8], u16); 9] = [
    (&[22, 3, 1, 2, 0], 517),
    (&[20, 3, 3, 0, 1, 1], 80),
    (&[23, 3, 3, 0, 0], 35),
    (&[23, 3, 3, 0, 0], 70),
    (&[23, 3, 3, 0, 0], 120),
    (b"PRI * HTTP/2.0\r\n", 60),
    (&[0, 0, 4, 8, 0, 0, 0, 0, 1], 26),
    (&[0, 0, 0, 4, 1, 0, 0, 0, 0], 9),
    (&[0, 0, 6, 4, 0, 0, 0, 0, 1], 15),
];

/// The sequence numbers of both ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Connection {
    sent: u32,
    received: u32,
    last: u16,
}

/// Frames with the times at which they come.
pub(crate) fn packets() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let size = select(vec![1_u16, 20, 40, 120, 500, 1199, 1200, 1400]);
    let step = prop_oneof![
        1 => Just(Step::Syn),
        1 => Just(Step::SynAck),
        12 => size.clone().prop_map(Step::Request),
        6 => select(MESSAGES.to_vec()).prop_map(|(start, length)| Step::Message(start, length)),
        2 => Just(Step::Again),
        8 => select(vec![0_u16, 1, 100, 1400, 60_000]).prop_map(Step::Acknowledge),
        2 => size.clone().prop_map(Step::Dying),
        8 => size.clone().prop_map(Step::Answer),
        1 => Just(Step::Finish),
        1 => Just(Step::Reset),
        4 => size.clone().prop_map(Step::Datagram),
        2 => size.prop_map(Step::DatagramBack),
        1 => Just(Step::QuicInitial),
        4 => (1..5_u8, select(vec![32_u16, 64, 92, 96, 148, 160])).prop_map(|(kind, length)| Step::WireGuard(kind, length)),
        4 => (0..3_u32, select(vec![4_usize, 60, 64, 100, 300])).prop_map(|(spi, length)| Step::Esp(spi, length)),
    ];
    let gap = prop_oneof![
        6 => 0..100_000_u64,
        6 => 100_000..5_000_000_u64,
        3 => 5_000_000..60_000_000_u64,
        1 => 60_000_000..700_000_000_u64,
        1 => select(vec![40_000_000_000_u64, 70_000_000_000]),
    ];
    // Times go back by as much as clocks of processors do, and now and then by far.
    let back = prop_oneof![
        8 => Just(0_u64),
        3 => 0..100_000_u64,
        1 => select(vec![999_999_000_u64, 1_100_000_000, 20_000_000_000]),
    ];
    vec((gap, back, 0..3_u16, step), 1..200).prop_map(|steps| {
        let fresh = Connection {
            sent: u32::MAX - 500,
            received: 77,
            last: 0,
        };
        let (mut now, mut connections) = (START_NS, [fresh; 3]);
        let frames = steps.into_iter().map(|(gap, back, number, step)| {
            now += gap;
            (
                now - back,
                frame(step, number, &mut connections[usize::from(number)], now),
            )
        });
        frames.collect()
    })
}

/// What a client echoes at this time, of a server whose clock ticks once a millisecond: it thinks
/// for a while that depends on what it sends.
fn echo(now: u64, length: u16) -> u32 {
    (now / 1_000_000) as u32 - u32::from(length % 7 * 3)
}

fn frame(step: Step, number: u16, connection: &mut Connection, now: u64) -> Vec<u8> {
    let client_port = 40_000 + number;
    // Which port is the server's is told by its SYN where both are high.
    let server_port = if number == 1 { 50_000 } else { 443 };
    let forward = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(CLIENT, SERVER, 64);
    let back = PacketBuilder::ethernet2([4; 6], [2; 6]).ipv4(SERVER, CLIENT, 64);
    let (sent, received) = (connection.sent, connection.received);
    let (builder, length) = match step {
        Step::Syn => {
            *connection = Connection {
                sent: sent.wrapping_add(100_000),
                ..*connection
            };
            let syn = forward.tcp(
                client_port,
                server_port,
                connection.sent.wrapping_sub(1),
                65_535,
            );
            return written(syn.syn(), 0);
        }
        Step::SynAck => (
            back.tcp(server_port, client_port, received.wrapping_sub(1), 65_535)
                .syn()
                .ack(sent),
            0,
        ),
        Step::Request(length) => {
            connection.sent = sent.wrapping_add(length.into());
            connection.last = length;
            let segment = forward
                .tcp(client_port, server_port, sent, 65_535)
                .ack(received);
            // Of one connection, so that what it sends else is foreign to it.
            if number == 2 {
                let timestamps = [Noop, Noop, Timestamp(1, 1)];
                return written(segment.options(&timestamps).unwrap(), length);
            }
            (segment, length)
        }
        Step::Message(start, length) => {
            connection.sent = sent.wrapping_add(length.into());
            connection.last = length;
            let mut payload = start.to_vec();
            payload.resize(length.into(), 0);
            let segment = forward
                .tcp(client_port, server_port, sent, 65_535)
                .ack(received);
            return with_payload(with_echo(segment, number, now, length), &payload);
        }
        Step::Again => {
            let before = sent.wrapping_sub(connection.last.into());
            (
                forward
                    .tcp(client_port, server_port, before, 65_535)
                    .ack(received),
                connection.last,
            )
        }
        Step::Acknowledge(more) => {
            connection.received = received.wrapping_add(more.into());
            (
                forward
                    .tcp(client_port, server_port, sent, 65_535)
                    .ack(connection.received),
                0,
            )
        }
        Step::Dying(length) => {
            let dying = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(CLIENT, SERVER, 24);
            let segment = dying
                .tcp(client_port, server_port, sent, 65_535)
                .ack(received);
            (segment, length)
        }
        Step::Answer(length) => {
            connection.received = received.wrapping_add(length.into());
            (
                back.tcp(server_port, client_port, received, 65_535)
                    .ack(sent),
                length,
            )
        }
        Step::Finish => (
            forward
                .tcp(client_port, server_port, sent, 65_535)
                .ack(received)
                .fin(),
            0,
        ),
        Step::Reset => (forward.tcp(client_port, server_port, sent, 65_535).rst(), 0),
        _ => return without_connection(step, client_port),
    };
    written(with_echo(builder, number, now, length), length)
}

/// What is no TCP.
fn without_connection(step: Step, client_port: u16) -> Vec<u8> {
    let forward = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(CLIENT, SERVER, 64);
    let back = PacketBuilder::ethernet2([4; 6], [2; 6]).ipv4(SERVER, CLIENT, 64);
    match step {
        Step::Datagram(length) => datagram(forward.udp(client_port, 4433), &[0x41], length),
        Step::DatagramBack(length) => datagram(back.udp(4433, client_port), &[0x41], length),
        Step::QuicInitial => datagram(forward.udp(client_port, 4433), &[0xc3, 0, 0, 0, 1], 1200),
        Step::WireGuard(kind, length) => {
            datagram(forward.udp(client_port, 51_820), &[kind, 0, 0, 0], length)
        }
        Step::Esp(spi, length) => {
            let mut bytes = Vec::new();
            let payload = [&spi.to_be_bytes()[..], &vec![0; length]].concat();
            forward
                .write(&mut bytes, etherparse::IpNumber(50), &payload)
                .unwrap();
            bytes
        }
        _ => unreachable!("{step:?} is TCP"),
    }
}

/// What the client of one connection echoes.
fn with_echo(
    segment: PacketBuilderStep<TcpHeader>,
    number: u16,
    now: u64,
    length: u16,
) -> PacketBuilderStep<TcpHeader> {
    let timestamps = [Noop, Noop, Timestamp(1, echo(now, length))];
    let options = &timestamps[..if number == 1 { 3 } else { 0 }];
    segment.options(options).unwrap()
}

fn written(segment: PacketBuilderStep<TcpHeader>, length: u16) -> Vec<u8> {
    with_payload(segment, &vec![0x5a; length.into()])
}

fn with_payload(segment: PacketBuilderStep<TcpHeader>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    segment.write(&mut bytes, payload).unwrap();
    bytes
}

fn datagram(builder: PacketBuilderStep<UdpHeader>, start: &[u8], length: u16) -> Vec<u8> {
    let mut payload = start.to_vec();
    payload.resize(usize::from(length).max(start.len()), 0);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &payload).unwrap();
    bytes
}
