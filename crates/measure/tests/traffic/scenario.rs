//! The text of a vector; the grammar is in `src/traffic/vectors/README.md`.

use fathom_capture::LinkType;
use fathom_measure::traffic::TrafficRecord;
use fathom_record::{FlowKey, Protocol};

use crate::frame::{self, Frame};
use crate::hosts::{Ends, Hosts};
use crate::words::{Problem, Words};

/// A vector, read.
#[derive(Default)]
pub(crate) struct Scenario {
    /// Times from the start, in nanoseconds.
    pub(crate) frames: Vec<(u64, Frame)>,
    pub(crate) expected: Vec<Expected>,
    pub(crate) counts: Vec<(String, u64)>,
}

/// What a flow came to in all: names, and figures of both directions.
pub(crate) struct Expected {
    pub(crate) flow: FlowKey,
    figures: Vec<(String, [u64; 2])>,
}

/// Reads a vector.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(text: &str) -> Result<Scenario, Problem> {
    let mut scenario = Scenario::default();
    let mut hosts = Hosts::default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = Words::new(line);
        match words.peek() {
            None => continue,
            Some("=") => {
                words.next();
                scenario.expected.push(expected(&mut words, &hosts)?);
            }
            Some("host") => {
                words.next();
                hosts.add(&mut words)?;
            }
            Some("count") => {
                words.next();
                let number = words.value("number")?;
                let name: Vec<_> = std::iter::from_fn(|| words.next()).collect();
                scenario.counts.push((name.join(" "), number));
            }
            Some(_) => {
                let now = words.duration_ns()?;
                let frame = frame::read(&mut words, &hosts, LinkType::ETHERNET)?;
                scenario.frames.push((now, frame));
            }
        }
        words.end()?;
    }
    Ok(scenario)
}

/// `A > B [PROTOCOL] NAME FORTH/BACK …`
fn expected(words: &mut Words<'_>, hosts: &Hosts) -> Result<Expected, Problem> {
    let Ends {
        source,
        destination,
    } = hosts.ends(words)?;
    let protocol = match words.peek() {
        Some("udp") => Protocol::UDP,
        Some(word) => word.parse().map_or(Protocol::TCP, Protocol),
        None => Protocol::TCP,
    };
    if protocol != Protocol::TCP {
        words.next();
    }
    let mut figures = Vec::new();
    while let Some(name) = words.next() {
        let pair = words.expect("pair of numbers")?;
        let numbers = pair.split_once('/');
        let numbers =
            numbers.and_then(|(forth, back)| Some([forth.parse().ok()?, back.parse().ok()?]));
        let numbers = numbers.ok_or(format!("\"{pair}\" is no pair of numbers"))?;
        figures.push((name.to_owned(), numbers));
    }
    Ok(Expected {
        flow: FlowKey {
            protocol,
            source: source.ip(),
            source_port: source.port(),
            destination: destination.ip(),
            destination_port: destination.port(),
        },
        figures,
    })
}

impl Expected {
    /// Does the record say so?
    pub(crate) fn check(&self, vector: &str, own: &TrafficRecord) {
        let is_tcp = self.flow.protocol == Protocol::TCP;
        let figures = [
            ("packets", [Some(own.packets), Some(own.reverse_packets)]),
            ("bytes", [Some(own.bytes), Some(own.reverse_bytes)]),
            (
                "retransmitted",
                [own.packets_retransmitted, own.reverse_packets_retransmitted],
            ),
            (
                "retransmitted-bytes",
                [own.bytes_retransmitted, own.reverse_bytes_retransmitted],
            ),
            (
                "out-of-order",
                [own.packets_out_of_order, own.reverse_packets_out_of_order],
            ),
            (
                "before",
                [own.packets_lost_before, own.reverse_packets_lost_before],
            ),
            (
                "after",
                [own.packets_lost_after, own.reverse_packets_lost_after],
            ),
        ];
        let mut named = 0;
        for (name, own) in figures {
            let expected = self.figures.iter().find(|(it, _)| it == name);
            named += usize::from(expected.is_some());
            let expected = match expected {
                Some((_, numbers)) => numbers.map(Some),
                None if name == "packets" || name == "bytes" => continue,
                None if is_tcp => [Some(0); 2],
                None => [None; 2],
            };
            assert_eq!(own, expected, "{vector}: {name} of {}", self.flow);
        }
        assert_eq!(named, self.figures.len(), "{vector}: an unknown name");
    }
}
