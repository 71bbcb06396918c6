//! Messages in, profiles out: each file of `vectors/` is run natively, and by the programs that are
//! attached, which the kernel runs over the same packets (`BPF_PROG_TEST_RUN`). Both must give what
//! it expects. `vectors/README.md` says how they are written.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use etherparse::PacketBuilder;
use libbpf_rs::{MapCore as _, MapHandle, Object, ObjectBuilder, ProgramInput, RingBufferBuilder};

use super::exchanges::Exchanges;
use super::wire::object;
use crate::bytes::{bytes_of, read_prefix};
use crate::flow::flow_address_of;
use crate::profile::names::Names;
use crate::profile::native::{self, dns_config, dns_event, dns_message};
use crate::profile::reorder::ProfileRecord;

const MICROSECOND: u64 = 1_000;
/// What a query is not answered within.
const TIMEOUT: Duration = Duration::from_secs(10);
const CLIENT_PORT: u16 = 4_000;
/// Longer than any message here.
const MOST_BYTES: usize = 512;

/// One packet of this host's socket, or time that passes.
struct Packet {
    time_ns: u64,
    /// Towards the resolver.
    is_out: bool,
    is_tcp: bool,
    is_ipv6: bool,
    /// What is in the UDP datagram or the TCP segment.
    payload: Vec<u8>,
    /// The messages in that.
    messages: Vec<Vec<u8>>,
}

struct Vector {
    packets: Vec<Packet>,
    expected: Vec<String>,
}

/// A name as on the wire.
fn wire_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// `ask ID TYPE NAME`, `answer ID CODE TYPE NAME`, `bare ID CODE`, or `bytes HEX`.
fn message(words: &[&str]) -> Vec<u8> {
    let number = |word: &str| word.parse::<u16>().unwrap().to_be_bytes();
    let question = |of_type: &str, name: &str| {
        [wire_name(name), number(of_type).to_vec(), vec![0, 1]].concat()
    };
    let header = |id: &str, flags: [u8; 2], questions: u8| {
        [&number(id)[..], &flags, &[0, questions, 0, 0, 0, 0, 0, 0]].concat()
    };
    let code = |word: &str| word.parse::<u8>().unwrap();
    match words {
        ["ask", id, of_type, name] => [header(id, [1, 0], 1), question(of_type, name)].concat(),
        ["answer", id, response, of_type, name] => [
            header(id, [0x81, code(response)], 1),
            question(of_type, name),
        ]
        .concat(),
        ["bare", id, response] => header(id, [0x81, code(response)], 0),
        ["bytes", hex] => (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
        _ => panic!("{words:?} is no message"),
    }
}

impl Vector {
    fn read(text: &str) -> Self {
        let (mut packets, mut expected) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(line) = line.strip_prefix("= ") {
                expected.push(line.to_owned());
            } else if !line.is_empty() && !line.starts_with('#') {
                packets.push(Packet::read(line));
            }
        }
        Self { packets, expected }
    }
}

impl Packet {
    /// `TIME-IN-US DIRECTION TRANSPORT MESSAGE [+ MESSAGE]...`, or `TIME-IN-US wait`.
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, direction, transport) = (words[0], words[1], words.get(2).copied());
        let transport = transport.unwrap_or_default();
        let is_tcp = transport.starts_with("tcp");
        let texts = words.get(3..).unwrap_or_default();
        let messages: Vec<Vec<u8>> = texts
            .split(|word| *word == "+")
            .filter(|words| !words.is_empty())
            .map(message)
            .collect();
        let payload = messages.iter().flat_map(|message| {
            let length = (message.len() as u16).to_be_bytes();
            let has_length = is_tcp && !transport.starts_with("tcp-rest");
            let before = if has_length { &length[..] } else { &[] };
            [before, &message[..]].concat()
        });
        Self {
            time_ns: time.parse::<u64>().unwrap() * MICROSECOND,
            is_out: direction == "out",
            is_tcp,
            is_ipv6: transport.ends_with('6'),
            payload: payload.collect(),
            messages,
        }
    }

    /// This host and the resolver.
    fn ends(&self) -> [IpAddr; 2] {
        if self.is_ipv6 {
            [1, 53].map(|host| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into())
        } else {
            [1, 53].map(|host| Ipv4Addr::new(10, 0, 0, host).into())
        }
    }

    /// With the Ethernet header that test runs take off.
    fn frame(&self) -> Vec<u8> {
        let [mut from, mut to] = self.ends();
        let mut ports = (CLIENT_PORT, 53);
        if !self.is_out {
            (from, to, ports) = (to, from, (ports.1, ports.0));
        }
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let network = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!("both are of one family"),
        };
        let mut frame = Vec::new();
        if self.is_tcp {
            let packet = network.tcp(ports.0, ports.1, 1, 1_000).ack(1);
            packet.write(&mut frame, &self.payload).unwrap();
        } else {
            let packet = network.udp(ports.0, ports.1);
            packet.write(&mut frame, &self.payload).unwrap();
        }
        frame
    }

    /// What the kernel should tell of it, without the name.
    fn event(&self, message: dns_message) -> dns_event {
        let [local, remote] = self.ends().map(flow_address_of);
        let kind = if self.is_out {
            native::DNS_QUERY
        } else {
            native::DNS_ANSWER
        };
        dns_event {
            time: self.time_ns,
            socket: 1,
            local,
            remote,
            local_port: CLIENT_PORT,
            remote_port: 53,
            message,
            kind: kind as u8,
            protocol: if self.is_tcp { 6 } else { 17 },
            ..dns_event::default()
        }
    }
}

/// What the kernel tells of a packet, one run after the other.
type Events = Vec<Vec<u8>>;

/// As the pure C reads each message; the name by another reader.
fn natively(vector: &Vector) -> Vec<Events> {
    let of_message = |packet: &Packet, bytes: &[u8]| {
        let start = &bytes[..bytes.len().min(native::DNS_BYTES_MAX as usize)];
        let message = native::read_dns(start)?;
        // What leaves as an answer, or arrives as a query, is of a server on this host.
        if (message.is_answer != 0) == packet.is_out {
            return None;
        }
        let has_name = packet.is_out && message.has_question != 0;
        let mut event = packet.event(message);
        event.has_name = has_name.into();
        let mut told = bytes_of(&event).to_vec();
        if has_name {
            let mut name = [0; native::DNS_NAME_BYTES as usize];
            let behind_header = &bytes[12..];
            let mut length = 0;
            while behind_header[length] != 0 {
                length += 1 + usize::from(behind_header[length]);
            }
            name[..length].copy_from_slice(&behind_header[..length]);
            told.extend(name);
        }
        Some(told)
    };
    let of_packet = |packet: &Packet| {
        let messages = packet.messages.iter();
        messages
            .filter_map(|bytes| of_message(packet, bytes))
            .collect()
    };
    vector.packets.iter().map(of_packet).collect()
}

/// The programs that are attached, loaded for test runs.
struct Kernel {
    object: Object,
}

impl Kernel {
    fn load() -> Self {
        let mut object = ObjectBuilder::default().open_memory(&object()).unwrap();
        let configuration = dns_config {
            has_names: 1,
            ..dns_config::default()
        };
        for mut map in object.maps_mut() {
            if map.name() == OsStr::new(".rodata.dns_config") {
                let bytes = bytes_of(&configuration);
                map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
            }
        }
        let object = object.load().unwrap();
        Self { object }
    }

    fn run(&self, packet: &Packet) -> Events {
        let name = if packet.is_out {
            "dns_egress"
        } else {
            "dns_ingress"
        };
        let mut programs = self.object.progs_mut();
        let program = programs.find(|own| own.name() == OsStr::new(name)).unwrap();
        let frame = packet.frame();
        let input = ProgramInput {
            data_in: Some(&frame),
            ..ProgramInput::default()
        };
        let output = program.test_run(input).unwrap();
        assert_eq!(output.return_value, 1, "every packet passes");
        let mut events = Vec::new();
        let mut maps = self.object.maps();
        let ring =
            MapHandle::try_from(&maps.find(|map| map.name() == "dns_events").unwrap()).unwrap();
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&ring, |event| {
                events.push(event.to_vec());
                0
            })
            .unwrap();
        builder.build().unwrap().consume().unwrap();
        events
            .into_iter()
            .map(|told| as_of(packet, &told))
            .collect()
    }
}

/// An event with the time of the packet, and without what only a socket has.
fn as_of(packet: &Packet, told: &[u8]) -> Vec<u8> {
    let (event, behind) = read_prefix::<dns_event>(told).unwrap();
    let event = dns_event {
        time: packet.time_ns,
        socket: 1,
        cgroup: 0,
        process_id: 0,
        process: [0; native::DNS_PROCESS_BYTES as usize],
        ..event
    };
    [bytes_of(&event), behind].concat()
}

/// What comes of the events: a line for each profile.
fn profiles(vector: &Vector, events: &[Events]) -> Vec<String> {
    let mut exchanges = Exchanges::new(TIMEOUT, Names::default());
    let mut lines = Vec::new();
    let mut report = |told: ProfileRecord| {
        let ProfileRecord::Dns(profile) = told else {
            panic!("{told:?} is of no exchange");
        };
        let mut line = format!(
            "{} {}",
            profile.end_state.name(),
            profile.reason.replace(' ', "-")
        );
        let latency = profile
            .latency_ns
            .map_or("-".to_owned(), |ns| (ns.0 / MICROSECOND).to_string());
        // Writing to memory does not fail.
        let _ = write!(
            line,
            " {} {} {} {latency} us, {} again, at {}",
            profile.response_code.unwrap_or("-"),
            profile.query_type,
            profile.query_name.as_deref().unwrap_or("-"),
            profile.retries,
            profile.time.0 / MICROSECOND
        );
        lines.push(line);
    };
    for (packet, events) in vector.packets.iter().zip(events) {
        for event in events {
            exchanges.read(event, 0, &mut report);
        }
        exchanges.look_back(packet.time_ns, 0, &mut report);
    }
    lines
}

/// All vectors: names and texts.
fn vectors() -> Vec<(String, Vector)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/profile/dns/vectors");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("vector")))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        (path.display().to_string(), Vector::read(&text))
    };
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn the_native_reader_gives_what_vectors_expect() {
    for (name, vector) in vectors() {
        assert!(
            vector
                .packets
                .iter()
                .all(|packet| packet.payload.len() <= MOST_BYTES)
        );
        assert_eq!(
            profiles(&vector, &natively(&vector)),
            vector.expected,
            "{name}"
        );
    }
}

#[test]
fn the_kernels_programs_give_what_vectors_expect() {
    #[expect(unsafe_code, reason = "it takes nothing and changes nothing")]
    // SAFETY: it only asks.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("skipped: running BPF programs needs root");
        return;
    }
    let kernel = Kernel::load();
    for (name, vector) in vectors() {
        let events: Vec<Events> = vector
            .packets
            .iter()
            .map(|packet| kernel.run(packet))
            .collect();
        assert_eq!(events, natively(&vector), "{name}");
        assert_eq!(profiles(&vector, &events), vector.expected, "{name}");
    }
}
