//! Throughput and loss of real TCP on a router, against the record of a link that loses, overtakes
//! and duplicates; live, over a capture of the same packets, and by Wireshark.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_lab::traffic::tools;
use fathom_lab::{
    Direction, Fate, LinkConfig, PacketFate, TcpFlags, Topology, Transport, Way, wait_until,
};
use fathom_tests::Fathom;
use serde_json::Value;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TCP: u8 = 6;

/// What one direction of all connections came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Figures {
    packets: u64,
    bytes: u64,
    retransmitted: u64,
    out_of_order: u64,
    lost_before: u64,
    lost_after: u64,
}

/// The sums over all records of TCP, forth and back.
fn sums(lines: &str) -> [Figures; 2] {
    let mut sums = [Figures::default(); 2];
    for line in lines.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["kind"] != "traffic" || record["protocol"] != "tcp" {
            continue;
        }
        for (sum, prefix) in sums.iter_mut().zip(["", "reverse_"]) {
            let number = |name| record[format!("{prefix}{name}")].as_u64().unwrap();
            sum.packets += number("packets");
            sum.bytes += number("bytes");
            sum.retransmitted += number("packets_retransmitted");
            sum.out_of_order += number("packets_out_of_order");
            sum.lost_before += number("packets_lost_before");
            sum.lost_after += number("packets_lost_after");
        }
    }
    sums
}

/// A direction of a connection, byte by byte.
#[derive(Default)]
struct Stream {
    /// Number of the packet that first had the byte, from 1; by sequence number from the SYN's.
    first: Vec<u32>,
    /// Which have passed.
    passed: Vec<bool>,
    highest: usize,
}

/// What passed `wan0`, by the record of the link behind it.
#[derive(Debug, Default)]
struct Truth {
    packets: u64,
    bytes: u64,
    /// Packets all of whose data had passed before; the copies of the link are none.
    repeated: u64,
    /// Packets with data that had been sent before, but had not passed.
    lost_before: u64,
    /// Packets with data that later one passed before.
    overtaken: u64,
    /// Packets with data, SYN or FIN that the link lost behind `wan0`.
    lost_after: u64,
    /// Copies that the link made of packets with data, SYN or FIN.
    copies: u64,
    /// Of them, those of packets that were not the newest: nobody can tell
    /// these from packets that were sent again.
    late_copies: u64,
}

fn truth_of(fates: &[PacketFate], way: Way) -> Truth {
    let mut own: Vec<_> = fates.iter().filter(|fate| fate.way == way).collect();
    own.sort_by_key(|fate| fate.index);
    let mut truth = Truth::default();
    let mut streams: HashMap<(u16, u16), (u32, Stream)> = HashMap::new();
    let mut passing = Vec::new();
    for (number, fate) in (1..).zip(own) {
        let Some(header) = fate.header.filter(|header| header.protocol == TCP) else {
            continue;
        };
        let Transport::Tcp {
            sequence, flags, ..
        } = header.transport
        else {
            continue;
        };
        let ports = (header.source_port, header.destination_port);
        let ends = [TcpFlags::SYN, TcpFlags::FIN];
        let span = header.payload_length as usize
            + ends.iter().filter(|flag| flags.contains(**flag)).count();
        let (begin, stream) = streams
            .entry(ports)
            .or_insert_with(|| (sequence, Stream::default()));
        let from = sequence.wrapping_sub(*begin) as usize;
        let to = from + span;
        if stream.first.len() < to {
            stream.first.resize(to, 0);
            stream.passed.resize(to, false);
        }
        for first in &mut stream.first[from..to] {
            *first = if *first == 0 { number } else { *first };
        }
        let copies = 1 + u32::from(fate.is_duplicated && way == Way::Backward);
        let time = match way {
            Way::Forward => Some(fate.read_ns),
            Way::Backward => fate.written_ns,
        };
        truth.lost_after += u64::from(fate.fate == Fate::Lost && span > 0 && way == Way::Forward);
        if let Some(time) = time {
            passing.push((time, number, ports, from..to, copies, fate.length_bytes));
        }
    }
    passing.sort_by_key(|(time, number, ..)| (*time, *number));
    for (_, number, ports, range, copies, length) in passing {
        let (_, stream) = streams.get_mut(&ports).unwrap();
        truth.packets += u64::from(copies);
        truth.bytes += u64::from(copies * length);
        if range.is_empty() {
            // It says up to where its sender has sent.
            stream.highest = stream.highest.max(range.start);
            continue;
        }
        let known = range.start..range.end.min(stream.highest);
        let missing = known.clone().filter(|&byte| !stream.passed[byte]);
        let missing: Vec<_> = missing.collect();
        if missing.iter().any(|&byte| stream.first[byte] != number) {
            truth.lost_before += 1;
        } else if !missing.is_empty() {
            truth.overtaken += 1;
        } else if !known.is_empty() {
            truth.repeated += 1;
        }
        truth.copies += u64::from(copies > 1);
        truth.late_copies += u64::from(copies > 1 && range.end < stream.highest);
        stream.passed[range.clone()].fill(true);
        stream.highest = stream.highest.max(range.end);
    }
    truth
}

/// Is it as the truth says, but for so many?
fn check(own: &Figures, truth: &Truth) {
    println!("{own:?}\n  {truth:?}");
    assert_eq!((own.packets, own.bytes), (truth.packets, truth.bytes));
    let slack = truth.late_copies;
    let repeated = own.retransmitted - own.lost_before;
    assert!(
        (truth.repeated..=truth.repeated + slack).contains(&repeated),
        "{repeated} repeated"
    );
    // A retransmission that was overtaken itself looks like an original, and the other way round
    // where the sender's clock stood still in between.
    let close = |own: u64, truth: u64| own.abs_diff(truth) <= 1 + truth / 50;
    assert!(close(own.lost_before, truth.lost_before));
    assert!(close(own.out_of_order, truth.overtaken));
    assert_eq!(
        own.lost_before + own.out_of_order,
        truth.lost_before + truth.overtaken
    );
}

/// Packets of TCP that Wireshark takes for late, of whatever kind.
fn late_by_wireshark(capture: &Path) -> Option<u64> {
    const LATE: &str = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order";
    let capture = capture.to_str().unwrap();
    let output = Command::new("tshark")
        .args(["-n", "-r", capture, "-Y", LATE, "-T", "fields"])
        .args(["-e", "frame.number"])
        .output()
        .ok()?;
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().count() as u64)
}

#[fathom_lab::test]
fn what_a_link_loses_overtakes_and_duplicates_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let impaired = || {
        Direction::delayed(10 * MILLISECOND)
            .loss(0.01)
            .reordering(0.01, 2 * MILLISECOND)
            .duplication(0.01)
    };
    let wan = LinkConfig {
        forward: impaired(),
        backward: impaired(),
        seed: 11,
    };
    let lab = Topology::builder()
        .lan(LinkConfig::symmetric(2 * MILLISECOND))
        .wan(wan)
        .captures(directory.path())
        .build()
        .unwrap();
    let records = directory.path().join("records.json");
    let options = ["--output", records.to_str().unwrap(), "--protocol", "tcp"];
    let interfaces = [Topology::WAN_INTERFACE];
    let live = Fathom::start_command("traffic", &lab.router, &interfaces, &options).unwrap();
    let _server = tools::iperf3_server(&lab.server, 5201).unwrap();
    let server = SocketAddr::from((Topology::SERVER_V4, 5201));
    let options = ["--bidir", "--bitrate", "6M", "--parallel", "2"];
    let mut client = tools::iperf3_client(&lab.client, server, 6, &options).unwrap();
    client.wait_with_deadline(60 * SECOND).unwrap();
    // Connections go on to be closed for a while.
    let (mut passed, mut since) = (0, Instant::now());
    wait_until(30 * SECOND, "the link to be quiet", || {
        let count = lab.wan.truth().len();
        if count != passed {
            (passed, since) = (count, Instant::now());
        }
        since.elapsed() > SECOND
    })
    .unwrap();
    live.finish().unwrap();
    let fates = lab.wan.truth();
    // Writes the rest of the capture.
    drop(lab);
    let truths = [Way::Forward, Way::Backward].map(|way| truth_of(&fates, way));
    let live = sums(&std::fs::read_to_string(&records).unwrap());
    for (own, truth) in live.iter().zip(&truths) {
        check(own, truth);
    }
    // The link is clean in front of the router, and loses behind it.
    assert_eq!((live[0].lost_before, live[0].out_of_order), (0, 0));
    let lost = truths[0].lost_after;
    assert!(lost > 30, "{lost}");
    assert!(live[0].lost_after.abs_diff(lost) <= 2 + lost / 10, "{lost}");
    assert!(truths[1].lost_before > 30 && truths[1].overtaken > 10);

    let capture = directory.path().join("wan0.pcap");
    let file = directory.path().join("replayed.json");
    let options = ["--output", file.to_str().unwrap(), "--protocol", "tcp"];
    Fathom::replay_command("traffic", &capture, &options).unwrap();
    let replayed = sums(&std::fs::read_to_string(&file).unwrap());
    // The copies of the link are left out there.
    assert_eq!(replayed[0], live[0]);
    assert_eq!(
        (replayed[1].lost_before, replayed[1].out_of_order),
        (live[1].lost_before, live[1].out_of_order)
    );
    // Live, a copy with an older timestamp than the newest is known for one, too.
    let told = live[1].retransmitted - replayed[1].retransmitted;
    assert!(told <= truths[1].late_copies, "{told}");
    // Wireshark takes the copies for retransmissions.
    let late = replayed.iter().map(|it| it.retransmitted + it.out_of_order);
    let late = late.sum::<u64>() + truths[1].copies;
    match late_by_wireshark(&capture) {
        None => println!("skipped: comparing with Wireshark needs tshark"),
        Some(wireshark) => {
            println!("late: {late} here, {wireshark} by Wireshark");
            assert!(wireshark.abs_diff(late) <= 2);
        }
    }
}
