//! What clients send besides requests where it is encrypted: handshakes, control frames,
//! acknowledgements in tunnels. Captures of one flow, whose client sends at given times, and what
//! becomes of its epochs. Whether the client may think is no matter here.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use etherparse::{IpNumber, PacketBuilder};
use fathom_capture::{LinkType, Writer};
use fathom_measure::Replay;
use fathom_measure::response::{Confidence, Engine, Estimator, Reason, ResponseEpoch, Settings};

const MS: u64 = 1_000_000;
const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SERVER: [u8; 4] = [10, 2, 0, 1];
/// Times are after this one.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// A packet at a time in ms, as its payload and whether the server has sent something since the one
/// before.
type Sent = (u64, Vec<u8>, bool);

/// So many bytes that begin so.
fn message(start: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = start.to_vec();
    bytes.resize(length, 0xaa);
    bytes
}

fn record(kind: u8, length: usize) -> Vec<u8> {
    message(&[kind, 3, 3, 0, 0], length)
}

/// The epochs of a capture of these packets, after a handshake of 1 ms.
fn tcp(sent: &[Sent]) -> Vec<ResponseEpoch> {
    tcp_to(443, sent)
}

fn tcp_to(port: u16, sent: &[Sent]) -> Vec<ResponseEpoch> {
    let (mut seq, mut ack) = (1_u32, 1_u32);
    let segment = |seq, ack| {
        PacketBuilder::ipv4(CLIENT, SERVER, 64)
            .tcp(40_000, port, seq, 65_000)
            .ack(ack)
    };
    let syn = PacketBuilder::ipv4(CLIENT, SERVER, 64).tcp(40_000, port, 0, 65_000);
    let mut packets = vec![
        (0, written(syn.syn(), &[])),
        (MS, written(segment(1, 1), &[])),
    ];
    for (ms, payload, is_answered) in sent {
        ack += 100 * u32::from(*is_answered);
        packets.push((ms * MS, written(segment(seq, ack), payload)));
        seq += payload.len() as u32;
    }
    epochs(&packets)
}

fn written(
    builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

/// The same for `WireGuard`, from the payloads' lengths.
fn wireguard(sent: &[(u64, usize)]) -> Vec<ResponseEpoch> {
    let packets = sent.iter().map(|&(ms, length)| {
        let builder = PacketBuilder::ipv4(CLIENT, SERVER, 64).udp(51_820, 51_820);
        let mut bytes = Vec::new();
        builder
            .write(&mut bytes, &message(&[4, 0, 0, 0], length))
            .unwrap();
        (ms * MS, bytes)
    });
    epochs(&packets.collect::<Vec<_>>())
}

/// The same for ESP.
fn esp(sent: &[(u64, usize)]) -> Vec<ResponseEpoch> {
    let packets = sent.iter().map(|&(ms, length)| {
        let builder = PacketBuilder::ipv4(CLIENT, SERVER, 64);
        let mut bytes = Vec::new();
        builder
            .write(&mut bytes, IpNumber(50), &message(&[0, 0, 1, 0], length))
            .unwrap();
        (ms * MS, bytes)
    });
    epochs(&packets.collect::<Vec<_>>())
}

fn epochs(packets: &[(u64, Vec<u8>)]) -> Vec<ResponseEpoch> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.pcap");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), LinkType::IPV4, 0).unwrap();
    for (time, bytes) in packets {
        writer
            .write(BEGIN_NS + time, bytes.len() as u32, bytes)
            .unwrap();
    }
    writer.finish().unwrap();
    let settings = Settings {
        estimator: Estimator::Acknowledged,
        ..Settings::files()
    };
    let mut engine = Engine::new(&settings, 1, false).unwrap();
    let mut replay = Replay::open(path.to_str().unwrap()).unwrap();
    let mut epochs = Vec::new();
    while replay
        .run(&mut engine, &mut |epoch| epochs.push(epoch))
        .is_none()
    {}
    engine.finish(replay.interfaces(), &mut |epoch| epochs.push(epoch));
    epochs
}

/// Of an epoch: the latency in ms, how sure it is, and why it is not surer.
fn told(epoch: &ResponseEpoch) -> (Option<u64>, Confidence, Option<Reason>) {
    let latency = epoch.latency_ns.map(|latency| (latency.0 + MS / 2) / MS);
    (latency, epoch.confidence, epoch.reason)
}

/// Every 10 ms, from 10 ms on.
fn turns(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|turn| turn * 10)
}

/// The handshake of TLS, as clients send it.
fn hello() -> Vec<Sent> {
    vec![(2, record(22, 500), false), (4, record(20, 80), true)]
}

#[test]
fn requests_after_a_handshake_of_tls_are_sure() {
    let requests = turns(40).map(|ms| (ms, record(23, 200), ms > 10));
    let epochs = tcp(&hello().into_iter().chain(requests).collect::<Vec<_>>());
    assert_eq!(told(&epochs[0]), (Some(10), Confidence::High, None));
    assert_eq!(
        epochs[0].causal_gaps, 39,
        "neither the handshake nor what followed it"
    );
}

#[test]
fn who_sent_the_syn_is_the_client_whatever_the_ports() {
    let requests: Vec<Sent> = turns(8).map(|ms| (ms, vec![b'a'; 50], true)).collect();
    let [low, high] = [443, 50_000].map(|port| tcp_to(port, &requests));
    assert_eq!(high[0].flow.destination_port, 50_000);
    assert_eq!(told(&high[0]), told(&low[0]));
    assert_eq!(high[0].causal_gaps, 7);
}

#[test]
fn control_frames_between_requests_do_not_count() {
    let control = |ms| (ms + 5, record(23, 35), true);
    let sealed = turns(40).flat_map(|ms| [(ms, record(23, 60), true), control(ms)]);
    let epochs = tcp(&hello().into_iter().chain(sealed).collect::<Vec<_>>());
    let by_length = (Some(10), Confidence::Medium, Some(Reason::Sizes));
    assert_eq!(told(&epochs[0]), by_length);

    let window_update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let preface = (2, message(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 60), false);
    let clear = turns(40).flat_map(|ms| {
        let request = (ms, message(&[0, 0, 20, 1, 5, 0, 0, 0, 1], 29), true);
        [request, (ms + 5, window_update.to_vec(), true)]
    });
    let epochs = tcp(&[preface].into_iter().chain(clear).collect::<Vec<_>>());
    assert_eq!(told(&epochs[0]), (Some(10), Confidence::High, None));
}

#[test]
fn requests_as_short_as_control_frames_count_where_there_are_no_others() {
    let short = |ms| (ms, record(23, 35), true);
    let epochs = tcp(&hello()
        .into_iter()
        .chain(turns(40).map(short))
        .collect::<Vec<_>>());
    let by_length = (Some(10), Confidence::Medium, Some(Reason::Sizes));
    assert_eq!(told(&epochs[0]), by_length);

    // Longer ones at first, and then none any more: learnt within an epoch.
    let login = (10, record(23, 300), false);
    let later = turns(160).skip(1).map(short);
    let epochs = tcp(&hello()
        .into_iter()
        .chain([login])
        .chain(later)
        .collect::<Vec<_>>());
    assert_eq!(told(&epochs[0]).0, None);
    assert_eq!(told(&epochs[2]), by_length);
}

#[test]
fn acknowledgements_in_a_tunnel_are_told_by_their_length_once_that_is_learnt() {
    let sent =
        (0..100).flat_map(|turn| [(turn * 20, 160), (turn * 20 + 7, 96), (turn * 20 + 14, 96)]);
    let sent = sent.collect::<Vec<_>>();
    for epochs in [wireguard(&sent), esp(&sent)] {
        assert_eq!(
            told(&epochs[0]),
            (None, Confidence::Low, Some(Reason::Sealed))
        );
        for epoch in &epochs[1..3] {
            assert_eq!(
                told(epoch),
                (Some(20), Confidence::Low, Some(Reason::Sizes))
            );
        }
    }
}

#[test]
fn what_lengths_do_not_tell_is_not_estimated() {
    let lengths = [96, 112, 128, 144];
    let mixed = (0..400).map(|turn| (turn * 5, lengths[turn as usize % 4]));
    let epochs = wireguard(&mixed.collect::<Vec<_>>());
    for epoch in &epochs {
        assert_eq!(told(epoch), (None, Confidence::Low, Some(Reason::Sealed)));
    }
    let alike = (0..200).map(|turn| (turn * 10, 128));
    let epochs = wireguard(&alike.collect::<Vec<_>>());
    for epoch in &epochs[..3] {
        assert_eq!(
            told(epoch),
            (Some(10), Confidence::Medium, Some(Reason::NoBursts))
        );
    }
}

#[test]
fn what_keeps_a_tunnel_up_is_no_request() {
    let keep_alive = |turn: u64| [(turn * 20, 128), (turn * 20 + 10, 32)];
    let epochs = wireguard(&(0..100).flat_map(keep_alive).collect::<Vec<_>>());
    assert_eq!(told(&epochs[0]).0, Some(20));
}
