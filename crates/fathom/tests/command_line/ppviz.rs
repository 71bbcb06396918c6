//! Lines for ppviz, against bytes that are counted by time.

use etherparse::{PacketBuilder, TcpHeader, TcpOptionElement};
use fathom_capture::{LinkType, Writer};
use serde_json::Value;

use crate::capture::Capture;
use crate::run::fathom;

const PORTS: [u16; 2] = [5000, 443];
/// From the capture point to either end and back; the packets of the client go to the server.
const ROUND_TRIP_US: [u64; 2] = [20_300, 3_100];
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// A segment as it passes the capture point.
#[derive(Clone, Copy)]
struct Segment {
    /// No two of a connection have the same.
    time_us: u64,
    /// 0: from the client.
    direction: usize,
    payload: u32,
    is_syn: bool,
    /// Of IP; 0 until it is written.
    bytes: u64,
}

/// A handshake, then data of all sizes in both directions, each answered by an acknowledgement.
fn connection(mut chance: u64) -> Vec<Segment> {
    let mut random = |below: u64| {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (chance >> 33) % below
    };
    let segment = |time_us, direction, payload, is_syn| Segment {
        time_us,
        direction,
        payload,
        is_syn,
        bytes: 0,
    };
    let mut segments = vec![
        segment(1, 0, 0, true),
        segment(ROUND_TRIP_US[0], 1, 0, true),
        segment(ROUND_TRIP_US[0] + ROUND_TRIP_US[1], 0, 0, false),
    ];
    let mut now_us = 30_000;
    for _ in 0..600 {
        now_us += 1 + random(4_000);
        let direction = usize::from(random(3) == 0);
        segments.push(segment(now_us, direction, 1 + random(1_400) as u32, false));
        let answer_us = now_us + ROUND_TRIP_US[direction];
        segments.push(segment(answer_us, direction ^ 1, 0, false));
    }
    segments.sort_by_key(|segment| segment.time_us);
    segments.dedup_by_key(|segment| segment.time_us);
    segments
}

/// Writes the connection with the numbers that its ends would give it.
fn put(segments: &mut [Segment], is_ipv6: bool, packets: &mut Vec<(u64, Vec<u8>)>) {
    for index in 0..segments.len() {
        let Segment {
            time_us,
            direction,
            payload,
            is_syn,
            ..
        } = segments[index];
        let span = |segment: &Segment| segment.payload + u32::from(segment.is_syn);
        let before = &segments[..index];
        let own = before.iter().filter(|other| other.direction == direction);
        let arrived = before.iter().filter(|other| {
            other.direction != direction
                && other.time_us + ROUND_TRIP_US[other.direction] <= time_us
        });
        let echo = arrived
            .clone()
            .next_back()
            .map_or(0, |last| last.time_us / 1000 + 1);
        let mut tcp = TcpHeader::new(PORTS[direction], PORTS[direction ^ 1], 0, 65_535);
        tcp.sequence_number = own.map(span).sum();
        tcp.acknowledgment_number = arrived.map(span).sum();
        tcp.ack = index != 0;
        tcp.syn = is_syn;
        let value = time_us / 1000 + 1;
        let timestamps = TcpOptionElement::Timestamp(value as u32, echo as u32);
        tcp.set_options(&[TcpOptionElement::Noop, TcpOptionElement::Noop, timestamps])
            .unwrap();
        let (low, high) = (1 + direction as u8, 2 - direction as u8);
        let ip = if is_ipv6 {
            let address = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            PacketBuilder::ipv6(address(low), address(high), 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, low], [10, 0, 0, high], 64)
        };
        let mut bytes = Vec::new();
        ip.tcp_header(tcp)
            .write(&mut bytes, &vec![0; payload as usize])
            .unwrap();
        segments[index].bytes = bytes.len() as u64;
        packets.push((BEGIN_NS + time_us * 1000, bytes));
    }
}

/// Bytes in this direction after one time and up to another.
fn between(segments: &[Segment], direction: usize, from_us: u64, to_us: u64) -> u64 {
    let counted = segments.iter().filter(|segment| {
        let time_us = segment.time_us;
        !segment.is_syn && segment.direction == direction && from_us < time_us && time_us <= to_us
    });
    counted.map(|segment| segment.bytes).sum()
}

/// The counts that each line should have, from the times of the samples before it alone: when the
/// answer came, and the round trip.
fn expected(segments: &[Segment], direction: usize, samples: &[(u64, u64)]) -> Vec<[u64; 3]> {
    let sent = |&(time_us, rtt_us): &(u64, u64)| between(segments, direction, 0, time_us - rtt_us);
    let each = samples.iter().enumerate();
    let counts = each.map(|(index, sample)| {
        let (time_us, rtt_us) = *sample;
        let before = &samples[..index];
        let known = before.iter().rfind(|before| before.0 < time_us - rtt_us);
        let last_us = before.last().map_or(0, |before| before.0);
        let returned = between(segments, direction ^ 1, last_us, time_us);
        [sent(sample), known.map_or(0, sent), returned]
    });
    counts.collect()
}

#[test]
fn ppviz_has_the_bytes_that_were_under_way() {
    let mut connections = [connection(1), connection(2)];
    let mut packets = Vec::new();
    for (is_ipv6, segments) in [false, true].into_iter().zip(&mut connections) {
        put(segments, is_ipv6, &mut packets);
    }
    packets.sort();
    let mut writer = Writer::new(Vec::new(), LinkType::RAW, 0).unwrap();
    for (time_ns, bytes) in &packets {
        writer.write(*time_ns, bytes.len() as u32, bytes).unwrap();
    }
    let capture = Capture::holding(&writer.finish().unwrap());
    let printed = |format| fathom(&["rtt", capture.path(), "--format", format]).stdout;
    let (json, lines) = (printed("json"), printed("ppviz"));
    let records: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["kind"] == "rtt")
        .collect();
    assert_eq!(records.len(), lines.lines().count());
    let mut samples: [[Vec<_>; 2]; 2] = Default::default();
    let mut found: [[Vec<[u64; 3]>; 2]; 2] = Default::default();
    for (record, line) in records.iter().zip(lines.lines()) {
        let cells: Vec<_> = line.split(' ').collect();
        if record["method"] == "handshake" {
            assert_eq!(cells.len(), 4, "{line}");
            continue;
        }
        let [time, rtt, _, sent, answered, returned, _] = cells[..] else {
            panic!("{line}")
        };
        let us = |seconds: &str| seconds.replace('.', "").parse::<u64>().unwrap();
        let is_ipv6 = usize::from(record["source"].as_str().unwrap().contains(':'));
        let direction = usize::from(record["source_port"] == PORTS[1]);
        samples[is_ipv6][direction].push((us(time) - BEGIN_NS / 1000, us(rtt)));
        found[is_ipv6][direction]
            .push([sent, answered, returned].map(|cell| cell.parse().unwrap()));
    }
    for (index, segments) in connections.iter().enumerate() {
        for direction in [0, 1] {
            let samples = &samples[index][direction];
            assert!(samples.len() > 50, "{}", samples.len());
            assert_eq!(
                found[index][direction],
                expected(segments, direction, samples)
            );
        }
    }
}
