//! What is measured: which packet, of how many flows.

use fathom_lab::summary::Row;

use crate::Arguments;
use crate::balancer::Counts;
use crate::fixtures::{Expect, Step, all};
use crate::frame::Packet;
use crate::turns::{ALL_FLOWS, Turn, Turns};
use crate::world::{CLIENT, GUE4, IPIP4, MEASURED, PAIR, SERVICE, port_of};

/// Which way of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection is in the table.
    Hit,
    /// The table is not asked, but for one packet in 16.
    HashOnly,
    /// Each packet opens a connection.
    Syn,
    /// Of no service.
    Pass,
}

/// Which connections are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    /// None.
    No,
    /// As many as the rate of packets allows; what runs unless configured otherwise.
    AsLoadAllows,
    /// All.
    All,
}

/// A packet of so many flows.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) packet: Packet,
    flows: u32,
    /// Of the table.
    pub(crate) places: u32,
    pub(crate) measured: Measured,
    /// The target, if there is one.
    pub(crate) most_ns: Option<f64>,
}

/// Nanoseconds a packet over the empty program.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "their unit")]
pub(crate) struct Cost {
    pub(crate) median_ns: f64,
    pub(crate) least_ns: f64,
    /// Of the empty program.
    pub(crate) empty_ns: f64,
}

/// Flows that take turns, places of the table, and the target. As one would configure it: twice as
/// many places, at least.
const HITS: [(u32, u32, f64); 4] = [
    (1, 1 << 17, 80.0),
    (1_000, 1 << 17, 90.0),
    (65_536, 1 << 17, 200.0),
    (500_000, 1 << 20, 300.0),
];
/// What measuring may add.
const MEASURING_MOST: f64 = 0.3;

impl Measured {
    fn text(self) -> &'static str {
        match self {
            Self::No => "",
            Self::AsLoadAllows => ", measured as the load allows",
            Self::All => ", all measured",
        }
    }

    /// The service of such connections.
    fn port(self) -> u16 {
        if self == Self::No { PAIR } else { MEASURED }
    }
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        let kinds = [Measured::No, Measured::AsLoadAllows, Measured::All];
        let hits = kinds.into_iter().flat_map(|measured| {
            // Of one connection not a part is measured.
            let hits = HITS
                .into_iter()
                .filter(move |(flows, ..)| measured != Measured::AsLoadAllows || *flows > 1);
            hits.map(move |(flows, places, most)| Self {
                places,
                measured,
                most_ns: (measured == Measured::No).then_some(most),
                ..Self::of(
                    format!(
                        "segment, found among {flows} connections{}",
                        measured.text()
                    ),
                    Kind::Hit,
                    segment(0, measured.port()),
                    flows,
                )
            })
        });
        let syns = kinds.map(|measured| Self {
            places: 1 << 20,
            measured,
            most_ns: (measured != Measured::All).then_some(500.0),
            ..Self::of(
                format!("SYN, a new connection{}", measured.text()),
                Kind::Syn,
                Packet::syn(&client(0), &service(0, measured.port())),
                ALL_FLOWS,
            )
        });
        hits.chain(syns).chain(Self::others()).collect()
    }

    /// Without targets.
    fn others() -> Vec<Self> {
        let case = |name: &str, kind, packet, flows| Self::of(name.to_owned(), kind, packet, flows);
        vec![
            Self {
                places: 1 << 20,
                ..case(
                    "segment, found among 65536, in a table of 1048576 places",
                    Kind::Hit,
                    segment(0, PAIR),
                    65_536,
                )
            },
            case(
                "segment, by the hash alone, 1 connection",
                Kind::HashOnly,
                segment(0, PAIR),
                1,
            ),
            case(
                "segment, by the hash alone, 65536 connections",
                Kind::HashOnly,
                segment(0, PAIR),
                65_536,
            ),
            case(
                "segment, IPv6, found among 65536",
                Kind::Hit,
                segment(1, PAIR),
                65_536,
            ),
            case(
                "segment, to GUE, found among 65536",
                Kind::Hit,
                segment(0, port_of(GUE4)),
                65_536,
            ),
            case(
                "datagram, found among 65536",
                Kind::Hit,
                Packet::udp(&client(0), &service(0, port_of(IPIP4))),
                65_536,
            ),
            case("segment to no service", Kind::Pass, segment(0, 9), 65_536),
        ]
    }

    fn of(name: String, kind: Kind, packet: Packet, flows: u32) -> Self {
        Self {
            name,
            kind,
            packet,
            flows,
            places: 1 << 17,
            measured: Measured::No,
            most_ns: None,
        }
    }

    /// How its frames differ.
    pub(crate) fn turn(&self, frame: &[u8]) -> Turn {
        let is_ipv6 = frame[12] == 0x86;
        let is_tcp = frame[if is_ipv6 { 20 } else { 23 }] == 6;
        Turn {
            flows: self.flows,
            source: if is_ipv6 { 34 } else { 26 },
            sequence: match (self.kind, is_tcp) {
                (Kind::Hit | Kind::HashOnly, true) => 4 + if is_ipv6 { 54 } else { 34 },
                _ => 0,
            },
            ..Turn::default()
        }
    }

    /// Was it what is to be measured? A few connections may have had no place.
    pub(crate) fn holds(&self, counted: &Counts, packets: u32) -> bool {
        let of = |name| counted.get(name).copied().unwrap_or(0);
        let nearly_all = |count| count >= u64::from(packets) * 98 / 100;
        match self.kind {
            Kind::Hit => nearly_all(of("connections found")) && nearly_all(of("forwarded")),
            Kind::HashOnly => of("connections not looked up") >= u64::from(packets) * 9 / 10,
            Kind::Syn => nearly_all(of("connections opened")),
            Kind::Pass => nearly_all(of("passed on: to no service")),
        }
    }
}

fn length(frame: &[u8]) -> i32 {
    i32::try_from(frame.len()).expect("a frame is short")
}

/// What measuring adds to a packet that is found, of what it costs without.
pub(crate) fn measuring(costs: &[(Case, Cost)]) -> Vec<Row> {
    let hits = costs
        .iter()
        .filter(|(case, _)| case.measured == Measured::AsLoadAllows);
    let rows = hits.filter_map(|(case, measured)| {
        let plain = costs.iter().find(|(other, _)| {
            let packet = (other.flows, other.places, other.kind);
            other.measured == Measured::No && packet == (case.flows, case.places, case.kind)
        });
        let (_, plain) = plain?;
        let more = measured.median_ns / plain.median_ns - 1.0;
        Some(Row {
            what: format!("kernel, balancer, {}", case.name),
            target: "at most 30 % more than without".to_owned(),
            measured: format!(
                "{:.0} % ({:.0} ns and {:.0} ns)",
                more * 100.0,
                measured.median_ns,
                plain.median_ns
            ),
            is_reached: Some(more <= MEASURING_MOST),
        })
    });
    rows.collect()
}

fn client(family: usize) -> String {
    std::net::SocketAddr::new(CLIENT[family].parse().expect("an address"), 40_000).to_string()
}

fn service(family: usize, port: u16) -> String {
    std::net::SocketAddr::new(SERVICE[family].parse().expect("an address"), port).to_string()
}

/// 24 bytes of data: as far as the sequence number moves on.
fn segment(family: usize, port: u16) -> Packet {
    Packet::tcp(&client(family), &service(family, port)).sized(24)
}

/// The first packet of each fixture, again and again.
pub(crate) fn fixtures(arguments: &Arguments) -> anyhow::Result<()> {
    let turns = Turns::load(1 << 12, Measured::All);
    println!("\nfirst packets of the fixtures, each again and again; ns over an empty program");
    for fixture in all() {
        let Some(Step::Frame(frame, expected, _)) = fixture.steps.first() else {
            continue;
        };
        turns.balancer.restore();
        let mut turn = Turn {
            flows: 1,
            ..Turn::default()
        };
        turns.set(frame, &turn);
        let once = turns.balancer.run("production", frame, 1).frame;
        if matches!(expected, Expect::Back(_)) && once.len() != frame.len() {
            turn.head = if frame[12] == 0x08 { 28 } else { 48 };
            turn.tail = length(&once) - turn.head - length(frame);
            turns.set(frame, &turn);
        }
        let empty = turns.run("empty", frame, arguments.packets)?;
        let production = turns.run("production", frame, arguments.packets)?;
        println!("{:>6.0}  {}", production - empty, fixture.what);
    }
    Ok(())
}
