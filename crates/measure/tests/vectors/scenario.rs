//! The text of a vector: a sentence, settings, packets, and what they must give. The grammar is in
//! `src/rtt/vectors/README.md`.

use std::time::Duration;

use fathom_capture::LinkType;
use fathom_measure::Scope;
use fathom_measure::rtt::{Method, MethodSet, SampleBytes, Samples, Settings};
use fathom_record::{FlowKey, Protocol};

use crate::frame::{self, Frame};
use crate::hosts::{Ends, Hosts};
use crate::outcome::{Change, Outcome, Place, Sample, Traffic};
use crate::words::{Problem, Words};

/// By how much times may go back, as they do between two processors.
pub(crate) const BACK_NS: u64 = 100_000;

/// A vector, read.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) link: LinkType,
    pub(crate) settings: Settings,
    /// Those in `settings`, which doesn't tell.
    pub(crate) methods: Vec<Method>,
    /// Why the BPF program cannot run it.
    pub(crate) native_only: Option<String>,
    /// Times from the start, in nanoseconds.
    pub(crate) frames: Vec<(u64, Frame)>,
    pub(crate) expected: Vec<Outcome>,
    pub(crate) counts: Vec<(String, u64)>,
}

struct Reader {
    scenario: Scenario,
    hosts: Hosts,
    now_ns: u64,
}

/// Reads a vector.
///
/// # Errors
/// The number of the line and what is wrong with it.
pub(crate) fn read(text: &str) -> Result<Scenario, Problem> {
    let settings = Settings {
        slots: 4,
        scope: Scope {
            flows: 4096,
            ..Scope::files()
        },
        ..Settings::files()
    };
    let scenario = Scenario {
        link: LinkType::ETHERNET,
        settings,
        methods: Method::ALL.to_vec(),
        native_only: None,
        frames: Vec::new(),
        expected: Vec::new(),
        counts: Vec::new(),
    };
    let mut reader = Reader {
        scenario,
        hosts: Hosts::default(),
        now_ns: 0,
    };
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        reader
            .line(line)
            .map_err(|problem| format!("line {}: {problem}", number + 1))?;
    }
    Ok(reader.scenario)
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        let mut words = Words::new(line);
        let Some(first) = words.peek() else {
            return Ok(());
        };
        if first.starts_with(|first: char| first.is_ascii_digit()) {
            self.now_ns = words.duration_ns()?;
            if self
                .scenario
                .frames
                .last()
                .is_some_and(|(before, _)| *before > self.now_ns + BACK_NS)
            {
                return Err("the time runs backwards".to_owned());
            }
            let frame = frame::read(&mut words, &self.hosts, self.scenario.link)?;
            self.scenario.frames.push((self.now_ns, frame));
            return Ok(());
        }
        words.next();
        match first {
            "=" => {
                let outcome = self.outcome(&mut words)?;
                self.scenario.expected.push(outcome);
            }
            "set" => self.setting(&mut words)?,
            "host" => self.hosts.add(&mut words)?,
            "link" => self.scenario.link = link(words.expect("link")?)?,
            "count" => {
                let number = words.value("number")?;
                self.scenario.counts.push((rest(&mut words), number));
            }
            "native-only" => self.scenario.native_only = Some(rest(&mut words)),
            _ => return Err(format!("\"{first}\" starts no line")),
        }
        words.end()
    }

    fn setting(&mut self, words: &mut Words<'_>) -> Result<(), Problem> {
        let settings = &mut self.scenario.settings;
        match words.expect("setting")? {
            "sample-interval" => {
                settings.sample_interval = Duration::from_nanos(words.duration_ns()?);
            }
            "per-rtt" => settings.per_rtt = words.value("number")?,
            "slots" => settings.slots = words.value("number")?,
            "flows" => settings.scope.flows = words.value("number")?,
            "methods" => {
                self.scenario.methods.clear();
                while let Some(name) = words.next() {
                    let method = name.parse().map_err(|error| format!("{error}"))?;
                    self.scenario.methods.push(method);
                }
                settings.methods = self.scenario.methods.iter().copied().collect::<MethodSet>();
            }
            "tunnels" => settings.scope.has_tunnels = words.take("on") || !words.take("off"),
            "events" => settings.has_events = words.take("on") || !words.take("off"),
            "bytes" => {
                settings.samples = if words.take("on") || !words.take("off") {
                    Samples::WithBytes
                } else {
                    Samples::Single
                }
            }
            "network" => settings
                .scope
                .selection
                .networks
                .push(words.value("network")?),
            "not-network" => settings
                .scope
                .selection
                .excluded
                .push(words.value("network")?),
            "port" => settings.scope.selection.ports.push(words.value("port")?),
            "protocol" => settings
                .scope
                .selection
                .protocols
                .push(words.value("protocol")?),
            word => return Err(format!("\"{word}\" is no setting")),
        }
        Ok(())
    }

    /// A line that starts with `=`.
    fn outcome(&mut self, words: &mut Words<'_>) -> Result<Outcome, Problem> {
        match words.expect("method or event")? {
            "open" => self.flow(words, true).map(Outcome::Flow),
            "close" => self.flow(words, false).map(Outcome::Flow),
            name => {
                let method = name.parse().map_err(|error| format!("{error}"))?;
                self.sample(words, method).map(Outcome::Sample)
            }
        }
    }

    fn key(&self, words: &mut Words<'_>, usual: Protocol) -> Result<FlowKey, Problem> {
        let protocol = match words.peek() {
            Some("tcp") => Protocol::TCP,
            Some("udp") => Protocol::UDP,
            _ => usual,
        };
        if matches!(words.peek(), Some("tcp" | "udp")) {
            words.next();
        }
        let Ends {
            source,
            destination,
        } = self.hosts.ends(words)?;
        let is_echo = protocol == Protocol::ICMP;
        let id = if is_echo && words.take("id") {
            Some(words.value("echo identifier")?)
        } else {
            None
        };
        Ok(FlowKey {
            protocol: if is_echo && source.is_ipv6() {
                Protocol::ICMPV6
            } else {
                protocol
            },
            source: source.ip(),
            source_port: id.unwrap_or(source.port()),
            destination: destination.ip(),
            destination_port: id.unwrap_or(destination.port()),
        })
    }

    fn sample(&self, words: &mut Words<'_>, method: Method) -> Result<Sample, Problem> {
        let usual = match method {
            Method::Timestamp | Method::Sequence | Method::Handshake => Protocol::TCP,
            Method::Spin | Method::Dns => Protocol::UDP,
            Method::Echo => Protocol::ICMP,
        };
        let mut sample = Sample {
            time_ns: self.now_ns,
            method,
            flow: self.key(words, usual)?,
            rtt_ns: words.duration_ns()?,
            minimum_ns: None,
            is_retransmitted: false,
            is_loop: false,
            place: Place::default(),
            bytes: None,
        };
        while let Some(word) = words.next() {
            match word {
                "min" => sample.minimum_ns = Some(words.duration_ns()?),
                "retransmitted" => sample.is_retransmitted = true,
                "loop" => sample.is_loop = true,
                "bytes" => sample.bytes = Some(bytes(words)?),
                _ => place(word, words, &mut sample.place)?,
            }
        }
        Ok(sample)
    }

    fn flow(&self, words: &mut Words<'_>, is_open: bool) -> Result<Change, Problem> {
        let flow = self.key(words, Protocol::TCP)?;
        let reason = reason(words)?;
        let mut own = Change {
            time_ns: self.now_ns,
            flow,
            is_open,
            reason,
            traffic: None,
            place: Place::default(),
        };
        while let Some(word) = words.next() {
            let [mine, theirs] = own.traffic.get_or_insert_default();
            match word {
                "packets" => (mine.packets, theirs.packets) = pair(words)?,
                "bytes" => (mine.bytes, theirs.bytes) = pair(words)?,
                "retransmitted" => (mine.retransmitted, theirs.retransmitted) = pair(words)?,
                "out-of-order" => (mine.out_of_order, theirs.out_of_order) = pair(words)?,
                "ce" => (mine.congestion_experienced, theirs.congestion_experienced) = pair(words)?,
                _ => place(word, words, &mut own.place)?,
            }
        }
        if own.traffic == Some([Traffic::default(); 2]) {
            own.traffic = None; // only its place was told
        }
        Ok(own.settled())
    }
}

fn rest(words: &mut Words<'_>) -> String {
    std::iter::from_fn(|| words.next())
        .collect::<Vec<_>>()
        .join(" ")
}

fn link(name: &str) -> Result<LinkType, Problem> {
    Ok(match name {
        "ethernet" => LinkType::ETHERNET,
        "ip" => LinkType::RAW,
        "cooked" => LinkType::LINUX_SLL,
        "cooked2" => LinkType::LINUX_SLL2,
        "null" => LinkType::NULL,
        "ppp" => LinkType::PPP,
        "ppp-hdlc" => LinkType::PPP_HDLC,
        "ppp-directed" => LinkType::PPP_WITH_DIRECTION,
        "pppoe" => LinkType::PPP_ETHERNET,
        "cisco-hdlc" => LinkType::C_HDLC,
        "unknown" => LinkType(147),
        _ => return Err(format!("\"{name}\" is no link")),
    })
}

fn reason(words: &mut Words<'_>) -> Result<&'static str, Problem> {
    let known = [
        "handshake",
        "first packet",
        "FIN",
        "RST",
        "new handshake",
        "timeout",
        "evicted",
        "end of measurement",
    ];
    if !words.take("by") {
        return Err("\"by\" is missing in front of the reason".to_owned());
    }
    let mut read = String::new();
    while !known.contains(&read.as_str()) {
        if !read.is_empty() {
            read.push(' ');
        }
        read.push_str(words.expect("reason")?);
    }
    known.into_iter().find(|known| *known == read).ok_or(read)
}

/// `SENT/ANSWERED/RETURNED`.
fn bytes(words: &mut Words<'_>) -> Result<SampleBytes, Problem> {
    let word = words.expect("bytes")?;
    let numbers: Vec<_> = word
        .split('/')
        .filter_map(|part| part.parse().ok())
        .collect();
    let [sent, answered, returned] = numbers[..] else {
        return Err(format!("\"{word}\" is not three numbers"));
    };
    Ok(SampleBytes {
        sent,
        answered,
        returned,
    })
}

/// `A/B`: of the direction of the flow, and of the other.
fn pair<T: std::str::FromStr>(words: &mut Words<'_>) -> Result<(T, T), Problem> {
    let word = words.expect("pair of numbers")?;
    let read = |text: &str| {
        text.parse()
            .map_err(|_| format!("\"{word}\" is no pair of numbers"))
    };
    let (own, reverse) = word
        .split_once('/')
        .ok_or(format!("\"{word}\" is no pair of numbers"))?;
    Ok((read(own)?, read(reverse)?))
}

/// `vlan ONLY`, `vlan OUTER/INNER`, `tunnel ID`.
fn place(word: &str, words: &mut Words<'_>, place: &mut Place) -> Result<(), Problem> {
    match word {
        "vlan" if words.peek().is_some_and(|tags| tags.contains('/')) => {
            let (outer, inner) = pair(words)?;
            (place.vlan, place.inner_vlan) = (Some(outer), Some(inner));
        }
        "vlan" => place.vlan = Some(words.value("VLAN tag")?),
        "tunnel" => place.tunnel = Some(words.value("tunnel")?),
        _ => return Err(format!("\"{word}\" is not understood here")),
    }
    Ok(())
}
