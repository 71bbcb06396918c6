//! The same traffic by independent tools: ping's own times, the kernel's estimate, and tshark.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathom_lab::traffic::{tcp, tools};
use fathom_lab::{Direction, LinkConfig, Topology, TopologyBuilder, Transport, wait_until};
use fathom_tests::{EVERY_PACKET, Fathom, Flow, Method, Passing, Sample, passed_by_link, settle};

const MILLISECOND: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// A lab of 2 ms and 10 ms and the turn of its test.
fn lab(
    change: impl FnOnce(TopologyBuilder) -> TopologyBuilder,
) -> (Topology, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = Topology::builder()
        .lan(LinkConfig::symmetric(2 * MILLISECOND))
        .wan(LinkConfig::symmetric(10 * MILLISECOND));
    (change(builder).build().unwrap(), turn)
}

fn has_program(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {name} is not installed");
    }
    is_there
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[fathom_lab::test]
fn ping_prints_what_echo_samples_say() {
    let (lab, _turn) = lab(|builder| builder);
    for server in [Topology::SERVER_V4, Topology::SERVER_V6] {
        let fathom = Fathom::start(&lab.client, &["eth0"], &EVERY_PACKET).unwrap();
        let printed = tools::ping(&lab.client, server, 200, 10 * MILLISECOND).unwrap();
        let mut samples = fathom.finish().unwrap().samples();
        samples.retain(|sample| sample.method == Method::Echo);
        assert_eq!((printed.len(), samples.len()), (200, 200));
        // The lab keeps the order.
        let more: Vec<i64> = printed
            .iter()
            .zip(&samples)
            .map(|(printed, sample)| printed.as_nanos() as i64 - sample.rtt_ns.cast_signed())
            .collect();
        let (least, most) = (
            more.iter().min().unwrap() / 1_000,
            more.iter().max().unwrap() / 1_000,
        );
        let median_us = median(more) / 1_000;
        println!("ping {server}: prints {median_us} us more than fathom ({least} to {most} us)");
        // It reads the clock before the request enters the kernel, and prints whole us, or 10 us
        // above 10 ms.
        assert!((-20..=200).contains(&median_us), "{median_us}");
    }
}

/// A number behind `name:` in the output of ss, as in `rtt:24.1/0.3` or `minrtt:24.05`, in ms.
fn estimate_ms(text: &str, name: &str) -> f64 {
    let label = format!("{name}:");
    let rest = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix(&label));
    let number = rest.unwrap_or_else(|| panic!("no {name} in {text}"));
    number.split('/').next().unwrap().parse().unwrap()
}

/// What ss prints below the line of the connection from `port`.
fn info_of(sockets: &str, port: u16) -> &str {
    let ending = format!(":{port}");
    let mut lines = sockets.lines();
    lines.find(|line| line.split_whitespace().any(|word| word.ends_with(&ending)));
    lines.next().unwrap()
}

#[fathom_lab::test]
fn kernel_estimates_what_timestamps_say() {
    let (lab, _turn) = lab(|builder| builder);
    let port = 5201;
    let _server = tools::iperf3_server(&lab.server, port).unwrap();
    for server in [Topology::SERVER_V4, Topology::SERVER_V6] {
        let fathom = Fathom::start(&lab.client, &["eth0"], &EVERY_PACKET).unwrap();
        let address = SocketAddr::from((server, port));
        let client = tools::iperf3_client(&lab.client, address, 60, &["--bitrate", "5M"]).unwrap();
        let of_data = |sample: &Sample| {
            sample.method == Method::Timestamp && sample.flow.destination == server
        };
        wait_until(PATIENCE, "samples", || {
            fathom
                .samples()
                .iter()
                .filter(|sample| of_data(sample))
                .count()
                > 400
        })
        .unwrap();
        let sockets = lab
            .client
            .run("ss --no-header --tcp --info --numeric state established")
            .unwrap();
        drop(client);
        let samples = fathom.finish().unwrap().samples();
        // Two connections: the one with the most samples carries the data.
        let mut by_port: HashMap<u16, Vec<u64>> = HashMap::new();
        for sample in samples.iter().filter(|sample| of_data(sample)) {
            by_port
                .entry(sample.flow.source_port)
                .or_default()
                .push(sample.rtt_ns);
        }
        let (data_port, mut times) = by_port
            .into_iter()
            .max_by_key(|(_, times)| times.len())
            .unwrap();
        let info = info_of(&sockets, data_port);
        times.sort_unstable();
        let (least_ms, median_ms) = (times[0] as f64 / 1e6, times[times.len() / 2] as f64 / 1e6);
        let (kernel_least_ms, kernel_ms) = (estimate_ms(info, "minrtt"), estimate_ms(info, "rtt"));
        println!(
            "ss {server}: minrtt {kernel_least_ms:.3} ms, rtt {kernel_ms:.3} ms; fathom: min {least_ms:.3} ms, median {median_ms:.3} ms"
        );
        // The kernel's clock of segments starts before the queue of the device, and its smoothed
        // time follows delayed acknowledgements.
        assert!(
            (kernel_least_ms - least_ms).abs() < 0.5,
            "{kernel_least_ms} {least_ms}"
        );
        // It is a mean of the last round trips, whose queue may have been longer than at the
        // median.
        let most_ms = times[times.len() - 1] as f64 / 1e6;
        assert!(
            kernel_ms > 0.7 * median_ms && kernel_ms < 1.3 * most_ms,
            "{kernel_ms} {median_ms} {most_ms}"
        );
    }
}

/// Time of the acknowledgement in ns, flow of the acknowledged data, round trip in ns.
type Acknowledged = (u64, Flow, u64);

/// What tshark computes as `tcp.analysis.ack_rtt`.
fn tshark(capture: &Path) -> Vec<Acknowledged> {
    let fields = [
        "frame.time_epoch",
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "ip.dst",
        "ipv6.dst",
        "tcp.dstport",
        "tcp.analysis.ack_rtt",
    ];
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "separator=;",
        "-Y",
        "tcp.analysis.ack_rtt",
        "-r",
    ]);
    command.arg(capture);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(acknowledged)
        .collect()
}

fn acknowledged(line: &str) -> Acknowledged {
    let fields: Vec<&str> = line.split(';').collect();
    let address = |v4: usize| -> IpAddr {
        let text = if fields[v4].is_empty() {
            fields[v4 + 1]
        } else {
            fields[v4]
        };
        text.parse().unwrap()
    };
    let flow = Flow {
        protocol: 6,
        source: address(4),
        source_port: fields[6].parse().unwrap(),
        destination: address(1),
        destination_port: fields[3].parse().unwrap(),
    };
    (nanoseconds(fields[0]), flow, nanoseconds(fields[7]))
}

/// Seconds with nine decimals.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, fraction) = text.split_once('.').unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap()
}

#[fathom_lab::test]
fn tshark_finds_the_same_acknowledgements() {
    if !has_program("tshark") {
        return;
    }
    let captures = tempfile::tempdir().unwrap();
    let lossy = LinkConfig {
        forward: Direction::delayed(10 * MILLISECOND).loss(0.005),
        backward: Direction::delayed(10 * MILLISECOND).loss(0.005),
        seed: 3,
    };
    let (lab, _turn) = lab(|builder| builder.wan(lossy).captures(captures.path()));
    for address in [Topology::SERVER_V4, Topology::SERVER_V6] {
        let _server = tcp::Server::start(&lab.server, (address, 8080).into()).unwrap();
        let client = tcp::Client {
            requests: 40,
            request_bytes: 20_000,
            response_bytes: 30_000,
            ..tcp::Client::new((address, 8080).into())
        };
        client.run(&lab.client).unwrap();
    }
    settle(&lab).unwrap();
    let trouble = trouble(&passed_by_link(&lab.wan.truth()));
    drop(lab);
    let capture = captures.path().join("wan0.pcap");
    let options = ["--method", "sequence,handshake"];
    let samples = Fathom::replay(&capture, &options).unwrap().samples();
    let ours = samples
        .iter()
        .map(|sample| (sample.time_ns, sample.flow, sample.rtt_ns));
    explain(
        &ours.collect(),
        &tshark(&capture).into_iter().collect(),
        &trouble,
    );
}

/// Each difference must have its reason.
fn explain(ours: &HashSet<Acknowledged>, theirs: &HashSet<Acknowledged>, trouble: &Trouble) {
    let answered_by = |set: &HashSet<Acknowledged>, time_ns, flow| {
        set.iter().any(|one| (one.0, one.1) == (time_ns, flow))
    };
    // An acknowledgement of something beyond a hole: tshark does not look at SACK blocks.
    let (selective, strange): (Vec<&Acknowledged>, Vec<&Acknowledged>) =
        ours.difference(theirs).partition(|(time_ns, flow, _)| {
            trouble.has_duplicate(*flow, *time_ns, *time_ns) || answered_by(theirs, *time_ns, *flow)
        });
    assert!(
        strange.is_empty(),
        "only fathom, not explained: {strange:#?}"
    );
    // The range was touched by a segment sent again or overtaken, or acknowledged selectively
    // before: ambiguous (Karn), or measured already.
    let (ambiguous, missed): (Vec<&Acknowledged>, Vec<&Acknowledged>) = theirs
        .difference(ours)
        .partition(|(time_ns, flow, rtt_ns)| {
            let sent_ns = time_ns - rtt_ns;
            trouble.has_duplicate(*flow, sent_ns, *time_ns)
                || trouble.has_late(*flow, sent_ns, *time_ns)
                || answered_by(ours, *time_ns, *flow)
        });
    assert!(missed.is_empty(), "only tshark, not explained: {missed:#?}");
    let same = ours.intersection(theirs).count();
    println!(
        "fathom {}, tshark {}, the same {same} to the ns; only fathom: {} by SACK; only tshark: {} ambiguous",
        ours.len(),
        theirs.len(),
        selective.len(),
        ambiguous.len()
    );
    assert!(same * 10 >= theirs.len() * 9, "{same}");
}

/// When loss or reordering showed, by the flow of the data.
#[derive(Default)]
struct Trouble {
    /// Segments that start before what was seen already.
    late_ns: HashMap<Flow, Vec<u64>>,
    /// Acknowledgements that repeat the one before.
    duplicate_ns: HashMap<Flow, Vec<u64>>,
}

impl Trouble {
    fn has_late(&self, flow: Flow, from_ns: u64, to_ns: u64) -> bool {
        has_between(self.late_ns.get(&flow), from_ns, to_ns)
    }

    fn has_duplicate(&self, flow: Flow, from_ns: u64, to_ns: u64) -> bool {
        has_between(self.duplicate_ns.get(&flow), from_ns, to_ns)
    }
}

fn has_between(times: Option<&Vec<u64>>, from_ns: u64, to_ns: u64) -> bool {
    times.is_some_and(|times| times.iter().any(|time| (from_ns..=to_ns).contains(time)))
}

/// Finds it in the lab's record.
fn trouble(passings: &[Passing]) -> Trouble {
    let mut trouble = Trouble::default();
    let mut ends: HashMap<Flow, u32> = HashMap::new();
    let mut acknowledgements: HashMap<Flow, u32> = HashMap::new();
    for passing in passings {
        let Transport::Tcp {
            sequence,
            acknowledgement,
            ..
        } = passing.header.transport
        else {
            continue;
        };
        let (flow, time_ns) = (passing.flow(), passing.time_ns);
        if passing.header.payload_length == 0 {
            if acknowledgements.insert(flow, acknowledgement) == Some(acknowledgement) {
                trouble
                    .duplicate_ns
                    .entry(flow.reversed())
                    .or_default()
                    .push(time_ns);
            }
            continue;
        }
        acknowledgements.insert(flow, acknowledgement);
        let end = sequence.wrapping_add(passing.header.payload_length);
        let highest = ends.entry(flow).or_insert(sequence);
        if highest.wrapping_sub(sequence).cast_signed() > 0 {
            trouble.late_ns.entry(flow).or_default().push(time_ns);
        }
        if end.wrapping_sub(*highest).cast_signed() > 0 {
            *highest = end;
        }
    }
    trouble
}
