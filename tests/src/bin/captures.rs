//! Writes the captures of the benchmarks, each with its truth: what real kernels sent through the
//! lab.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use fathom_capture::{LinkType, Writer};
use fathom_lab::traffic::{farm, tools};
use fathom_lab::{Direction, LinkConfig, Passed, Tap, Topology};
use fathom_tests::{Pair, Passing, pairs};

/// Bytes of a packet that are kept: enough for Ethernet, IPv6 and the longest TCP header.
const SNAPSHOT_BYTES: usize = 128;
/// Put before each packet, since not every tool reads bare IP: two stations, and the type.
const STATIONS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
const TYPES: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];
/// Servers of the short connections for each family: a client has 28,000 ports towards each.
const SERVERS: u64 = 4;

/// Write captures of TCP traffic in the lab (NAME.pcap) and the round-trip times that are true for
/// them (NAME.truth.csv); needs root.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which captures to write [default: all].
    captures: Vec<Capture>,
    /// The folder to write into; it is made if need be.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// How long `bulk` lasts: some 37,000 packets a second.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=300))]
    seconds: u32,
    /// About how many connections `connections` has, of nine packets each.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(8..=200_000))]
    connections: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Capture {
    /// 18 bulk transfers through one bottleneck.
    Bulk,
    /// Many short connections, 3 ms from the client and 20 ms from the servers.
    Connections,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let captures = match arguments.captures.as_slice() {
        [] => Capture::value_variants(),
        some => some,
    };
    for capture in captures {
        let (name, packets) = match capture {
            Capture::Bulk => ("bulk", bulk(arguments.seconds)?),
            Capture::Connections => ("connections", connections(arguments.connections)?),
        };
        let path = arguments.out.join(name).with_extension("pcap");
        write_capture(&path, &packets)?;
        let passings: Vec<Passing> = packets.iter().map(|(passed, _)| (*passed).into()).collect();
        let truth =
            [pairs::handshake, pairs::sequence, pairs::timestamp].map(|find| find(&passings));
        write_truth(&path.with_extension("truth.csv"), &truth.concat())?;
        println!(
            "{}: {} packets; samples: {} handshake, {} sequence, {} timestamp",
            path.display(),
            packets.len(),
            truth[0].len(),
            truth[1].len(),
            truth[2].len()
        );
    }
    Ok(())
}

/// What a tap has of a packet.
type Packet = (Passed, Vec<u8>);

/// Transfers from client to server, half of them over IPv6, through a queue that is too short for
/// them; the capture point is before it.
fn bulk(seconds: u32) -> Result<Vec<Packet>> {
    const PORT: u16 = 5_201;
    let millisecond = Duration::from_millis(1);
    let lab = Topology::builder()
        .lan(LinkConfig::symmetric(2 * millisecond))
        .wan(LinkConfig {
            forward: Direction::delayed(8 * millisecond).rate(300_000_000, 2_000_000),
            ..LinkConfig::symmetric(8 * millisecond)
        })
        .build()?;
    let _server = tools::iperf3_server(&lab.server, PORT)?;
    let _server_v6 = tools::iperf3_server(&lab.server, PORT + 1)?;
    record(&lab, || {
        let transfers = [(Topology::SERVER_V4, PORT), (Topology::SERVER_V6, PORT + 1)].map(|to| {
            tools::iperf3_client(
                &lab.client,
                SocketAddr::from(to),
                seconds,
                &["--parallel", "9"],
            )
        });
        for transfer in transfers {
            let output = transfer?.output(Duration::from_secs(u64::from(seconds) + 30))?;
            ensure!(output.status.success(), "iperf3 has failed: {output:?}");
        }
        Ok(())
    })
}

/// Connections of one request each, half of them over IPv6.
fn connections(count: u64) -> Result<Vec<Packet>> {
    let lab = Topology::builder()
        .lan(LinkConfig::symmetric(Duration::from_micros(1_500)))
        .wan(LinkConfig::symmetric(Duration::from_millis(10)))
        .build()?;
    let per_second = 100.0;
    let addresses = [Topology::SERVER_V4, Topology::SERVER_V6];
    let at = (0..2 * SERVERS).map(|number| {
        (
            number,
            addresses[number as usize % 2],
            20_000 + number as u16,
        )
    });
    let servers: Vec<_> = at
        .map(|(seed, address, port)| (seed, SocketAddr::from((address, port))))
        .collect();
    let at_once = |seed| farm::Pace::steady(1_000, Duration::ZERO, seed);
    let _servers = servers
        .iter()
        .map(|&(seed, address)| farm::Server::start(&lab.server, address, at_once(seed)))
        .collect::<fathom_lab::Result<Vec<_>>>()?;
    record(&lab, || {
        std::thread::scope(|scope| {
            let clients: Vec<_> = servers
                .iter()
                .map(|&(seed, address)| {
                    let arrivals = farm::Arrivals {
                        per_second,
                        requests: 1,
                        pause: Duration::ZERO,
                        think: Duration::ZERO,
                        pieces: 1,
                        pace: Duration::ZERO,
                        duration: Duration::from_secs_f64(
                            count as f64 / per_second / servers.len() as f64,
                        ),
                        patience: Duration::from_secs(10),
                        seed,
                    };
                    let client = &lab.client;
                    scope.spawn(move || arrivals.run(client, address))
                })
                .collect();
            for client in clients {
                let outcome = client.join().expect("a client does not panic")?;
                let failures = outcome.failures;
                ensure!(
                    failures.len() * 100 <= outcome.requests.len(),
                    "{} connections have failed, the first because of {:?}",
                    failures.len(),
                    failures.first()
                );
            }
            Ok(())
        })
    })
}

/// What passes the router towards the servers during `traffic`.
fn record(lab: &Topology, traffic: impl FnOnce() -> Result<()>) -> Result<Vec<Packet>> {
    let kept_bytes = SNAPSHOT_BYTES - STATIONS.len() - 2;
    let tap = Tap::keeping(kept_bytes, &lab.router, Topology::WAN_INTERFACE)?;
    traffic()?;
    fathom_tests::settle(lab)?;
    Ok(tap.finish_with_bytes()?)
}

fn write_capture(path: &Path, packets: &[Packet]) -> Result<()> {
    let file = File::create(path).with_context(|| format!("write {}", path.display()))?;
    let mut writer = Writer::new(file, LinkType::ETHERNET, SNAPSHOT_BYTES as u32)?;
    for (passed, bytes) in packets {
        let is_v6 = usize::from(bytes[0] >> 4 == 6);
        let [length, rest] = [[2, 0], [4, 40]][is_v6];
        let ip_bytes =
            u32::from(u16::from_be_bytes([bytes[length], bytes[length + 1]])) + rest as u32;
        let frame = [&STATIONS[..], &TYPES[is_v6], bytes].concat();
        writer.write(passed.time_ns, 14 + ip_bytes, &frame)?;
    }
    writer.finish()?;
    Ok(())
}

fn write_truth(path: &Path, truth: &[Pair]) -> Result<()> {
    let file = File::create(path).with_context(|| format!("write {}", path.display()))?;
    let mut file = BufWriter::new(file);
    writeln!(
        file,
        "time,source,source_port,destination,destination_port,method,rtt_ns"
    )?;
    for pair in truth {
        let (seconds, ns) = (
            pair.answer_ns / 1_000_000_000,
            pair.answer_ns % 1_000_000_000,
        );
        let flow = pair.flow;
        writeln!(
            file,
            "{seconds}.{ns:09},{},{},{},{},{},{}",
            flow.source,
            flow.source_port,
            flow.destination,
            flow.destination_port,
            pair.method.name(),
            pair.rtt_ns()
        )?;
    }
    file.flush()?;
    Ok(())
}
