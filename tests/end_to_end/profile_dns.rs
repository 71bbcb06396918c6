//! `fathom profile --dns` and DNS exchanges whose ends are known: over UDP and TCP, IPv4 and IPv6,
//! answered, refused, repeated and never answered.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fathom_lab::{LinkConfig, Namespace, Stop, Topology, Worker, wait_until};
use fathom_tests::{Fathom, Group, Profile, Record};
use serde_json::Value;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Over both links and back.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Before a client asks again.
const PAUSE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(25);
const PORT: u16 = 53;
const A: u16 = 1;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;

/// What the server does is in the first label of the name: the code of its answer, or one of these.
const ANSWERS: [(&str, u8); 6] = [
    ("noerror", 0),
    ("formerr", 1),
    ("servfail", 2),
    ("nxdomain", 3),
    ("refused", 5),
    // Answers the second time it is asked only.
    ("second", 0),
];

fn query(id: u16, name: &str, query_type: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(query_type.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// The answer to a query, or `None`; `times` counts the queries by their numbers.
fn answer(query: &[u8], times: &mut HashMap<u16, u32>) -> Option<Vec<u8>> {
    let label = query.get(13..13 + usize::from(*query.get(12)?))?;
    let (label, code) = ANSWERS
        .into_iter()
        .find(|(name, _)| name.as_bytes() == label)?;
    let asked = times.entry(id_of(query)).or_default();
    *asked += 1;
    if label == "second" && *asked == 1 {
        return None;
    }
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer[3] = code;
    // Servers may answer in the letters that they know the name by, and need not repeat a question
    // that they could not read.
    answer[13..].make_ascii_uppercase();
    if label == "formerr" {
        answer[5] = 0;
        answer.truncate(12);
    }
    Some(answer)
}

fn id_of(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[0], message[1]])
}

fn with_length(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Answers at `address` until dropped.
fn serve(namespace: &Namespace, address: IpAddr) -> [Worker<()>; 2] {
    let bind = || {
        let socket = UdpSocket::bind((address, PORT)).unwrap();
        socket.set_read_timeout(Some(10 * MILLISECOND)).unwrap();
        let listener = TcpListener::bind((address, PORT)).unwrap();
        listener.set_nonblocking(true).unwrap();
        (socket, listener)
    };
    let (socket, listener) = namespace.enter(bind).unwrap();
    [
        Worker::start("names over udp", move |stop| serve_udp(&socket, stop)).unwrap(),
        Worker::start("names over tcp", move |stop| serve_tcp(&listener, stop)).unwrap(),
    ]
}

fn serve_udp(socket: &UdpSocket, stop: &Stop) {
    let mut times = HashMap::new();
    let mut buffer = [0; 512];
    while !stop.is_set() {
        if let Ok((length, client)) = socket.recv_from(&mut buffer)
            && let Some(answer) = answer(&buffer[..length], &mut times)
        {
            socket.send_to(&answer, client).unwrap();
        }
    }
}

fn serve_tcp(listener: &TcpListener, stop: &Stop) {
    let mut open = Vec::new();
    while !stop.is_set() {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(10 * MILLISECOND)).unwrap();
            open.push((stream, Vec::new()));
        }
        open.retain_mut(|(stream, bytes)| serve_stream(stream, bytes));
        stop.sleep_until(Instant::now() + MILLISECOND);
    }
}

/// Answers what has come whole; says whether more can come.
fn serve_stream(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 512];
    match stream.read(&mut buffer) {
        Ok(0) => return false,
        Ok(length) => bytes.extend(&buffer[..length]),
        Err(_) => {}
    }
    let mut answers = Vec::new();
    while let Some(prefix) = bytes.first_chunk::<2>()
        && let length = usize::from(u16::from_be_bytes(*prefix))
        && let Some(message) = bytes.get(2..2 + length)
    {
        answers.extend(answer(message, &mut HashMap::new()).map(|answer| with_length(&answer)));
        bytes.drain(..2 + length);
    }
    stream.write_all(&answers.concat()).is_ok()
}

/// Asks over UDP, `tries` times or until there is an answer; how long that took.
fn ask(lab: &Topology, server: IpAddr, message: &[u8], tries: u32) -> Option<Duration> {
    let any: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = lab.client.enter(|| UdpSocket::bind((any, 0)).unwrap());
    let socket = socket.unwrap();
    socket.connect((server, PORT)).unwrap();
    socket.set_read_timeout(Some(PAUSE)).unwrap();
    let start = Instant::now();
    for _ in 0..tries {
        socket.send(message).unwrap();
        let mut buffer = [0; 512];
        if let Ok(length) = socket.recv(&mut buffer) {
            assert_eq!(id_of(&buffer[..length]), id_of(message));
            return Some(start.elapsed());
        }
    }
    None
}

/// Asks over TCP in the pieces given, and waits for `answers`.
fn ask_tcp(lab: &Topology, server: IpAddr, pieces: &[&[u8]], answers: usize) {
    let address = SocketAddr::new(server, PORT);
    let mut stream = lab
        .client
        .enter(|| TcpStream::connect(address))
        .unwrap()
        .unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for piece in pieces {
        stream.write_all(piece).unwrap();
    }
    for _ in 0..answers {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
    }
}

/// How the profile of an exchange should end.
struct Expected {
    protocol: &'static str,
    name: &'static str,
    query_type: &'static str,
    end: (&'static str, &'static str),
    code: Option<&'static str>,
    retries: u64,
    /// Bounds of the latency; `None`: there is none.
    latency: Option<(Duration, Duration)>,
}

impl Expected {
    fn check(&self, profile: &Profile) {
        assert_eq!(profile.text("protocol"), self.protocol, "{profile:?}");
        assert_eq!(profile.text("query_name"), self.name, "{profile:?}");
        assert_eq!(profile.text("query_type"), self.query_type, "{profile:?}");
        let end = (profile.text("end_state"), profile.text("reason"));
        // The application is woken first, and may be faster in taking the error off its socket.
        let is_taken = self.end == REFUSED && end == ("UNREACHABLE", "network error");
        assert!(end == self.end || is_taken, "{profile:?}");
        let code = profile.get("response_code").and_then(Value::as_str);
        assert_eq!(code, self.code, "{profile:?}");
        assert_eq!(profile.number("retries"), Some(self.retries), "{profile:?}");
        match (self.latency, profile.span("latency_ns")) {
            (None, None) => {}
            (Some((least, most)), Some(latency)) => {
                assert!(least <= latency && latency <= most, "{profile:?}");
            }
            _ => panic!("{profile:?}"),
        }
        assert_eq!(profile.text("start_state"), "NEW", "{profile:?}");
        assert_eq!(profile.number("pid"), Some(std::process::id().into()));
        assert_eq!(profile.text("process"), own_name(), "{profile:?}");
        assert_eq!(profile.text("cgroup"), Group::own_path(), "{profile:?}");
    }
}

fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    name.trim_end().to_owned()
}

/// Exchanges by server and transaction number, and what should be told of each.
type Script = HashMap<(IpAddr, u16), Expected>;

const ANSWER: (&str, &str) = ("FINISHED", "answer");
const REFUSED: (&str, &str) = ("BROKEN", "refused");
const FAILURE: (&str, &str) = ("BROKEN", "failure of the resolver");

fn exchange_over_udp(lab: &Topology, server: IpAddr, script: &mut Script) {
    let cases = [
        (101, "noerror.test", A, "A", ANSWER, Some("NOERROR")),
        (102, "nxdomain.test", AAAA, "AAAA", ANSWER, Some("NXDOMAIN")),
        (
            103,
            "servfail.test",
            HTTPS,
            "HTTPS",
            FAILURE,
            Some("SERVFAIL"),
        ),
        (
            104,
            "refused.test",
            65_280,
            "TYPE65280",
            FAILURE,
            Some("REFUSED"),
        ),
        (105, "formerr.test", A, "A", FAILURE, Some("FORMERR")),
        (106, "second.test", A, "A", ANSWER, Some("NOERROR")),
        (107, "never.test", A, "A", ("UNREACHABLE", "timeout"), None),
    ];
    for (id, name, number, query_type, end, code) in cases {
        let elapsed = ask(lab, server, &query(id, name, number), 2);
        let retries = u64::from(name.starts_with("second") || name.starts_with("never"));
        // The client waits a little longer than the kernel's timer says, never less; and it sees
        // the answer after its socket.
        let least = ROUND_TRIP + PAUSE * u32::try_from(retries).unwrap();
        let expected = Expected {
            protocol: "udp",
            name,
            query_type,
            end,
            code,
            retries,
            latency: elapsed.map(|elapsed| (least, elapsed)),
        };
        assert_eq!(elapsed.is_some(), code.is_some(), "{name}");
        script.insert((server, id), expected);
    }
}

fn exchange_over_tcp(lab: &Topology, server: IpAddr, script: &mut Script) {
    let message = |id, query_type| query(id, "noerror.test", query_type);
    let framed = |id, query_type| with_length(&message(id, query_type));
    let start = Instant::now();
    ask_tcp(lab, server, &[&framed(201, A)], 1);
    // Both families in one segment, as resolver libraries ask; then length and message in segments
    // of their own.
    let both = [framed(202, A), framed(203, AAAA)].concat();
    ask_tcp(lab, server, &[&both], 2);
    let (length, rest) = (&framed(204, A)[..2], &message(204, A));
    ask_tcp(lab, server, &[length, rest], 1);
    let elapsed = start.elapsed();
    for (id, query_type) in [(201, "A"), (202, "A"), (203, "AAAA"), (204, "A")] {
        let expected = Expected {
            protocol: "tcp",
            name: "noerror.test",
            query_type,
            end: ANSWER,
            code: Some("NOERROR"),
            retries: 0,
            latency: Some((ROUND_TRIP, elapsed)),
        };
        script.insert((server, id), expected);
    }
}

/// Nothing listens there.
fn exchange_with_nobody(lab: &Topology, host: IpAddr, script: &mut Script) {
    assert_eq!(ask(lab, host, &query(301, "noerror.test", A), 1), None);
    let expected = Expected {
        protocol: "udp",
        name: "noerror.test",
        query_type: "A",
        end: REFUSED,
        code: None,
        retries: 0,
        latency: None,
    };
    script.insert((host, 301), expected);
}

/// A resolver on the host itself, as many have: the exchange is that of the one who asks, once.
fn exchange_on_loopback(lab: &Topology, loopback: IpAddr, script: &mut Script) {
    let elapsed = ask(lab, loopback, &query(401, "noerror.test", A), 1).unwrap();
    let expected = Expected {
        protocol: "udp",
        name: "noerror.test",
        query_type: "A",
        end: ANSWER,
        code: Some("NOERROR"),
        retries: 0,
        latency: Some((Duration::ZERO, elapsed)),
    };
    script.insert((loopback, 401), expected);
}

/// The exchanges of this process.
fn exchanges(records: Vec<Record>) -> Vec<Profile> {
    let own = u64::from(std::process::id());
    let profiles = records.into_iter().filter_map(|record| match record {
        Record::DnsProfile(profile) if profile.number("pid") == Some(own) => Some(profile),
        _ => None,
    });
    profiles.collect()
}

#[fathom_lab::test]
fn every_exchange_is_told_once_with_its_end() {
    let lab = Topology::builder()
        .wan(LinkConfig::symmetric(ROUND_TRIP / 2))
        .build()
        .unwrap();
    let loopbacks: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let servers = [Topology::SERVER_V4, Topology::SERVER_V6];
    let _servers = [
        servers.map(|address| serve(&lab.server, address)),
        loopbacks.map(|address| serve(&lab.client, address)),
    ];
    let fathom = Fathom::profile(
        &lab.router,
        &["--dns", "--dns-timeout", "2s", "--port", "53"],
    )
    .unwrap();
    let mut script = Script::new();
    for server in servers {
        exchange_over_udp(&lab, server, &mut script);
        exchange_over_tcp(&lab, server, &mut script);
    }
    for host in [Topology::WAN_V4, Topology::WAN_V6] {
        exchange_with_nobody(&lab, host, &mut script);
    }
    for loopback in loopbacks {
        exchange_on_loopback(&lab, loopback, &mut script);
    }
    let waited = wait_until(PATIENCE, "all exchanges", || {
        exchanges(fathom.records_after(0)).len() >= script.len()
    });
    let finished = fathom.finish().unwrap();
    let profiles = exchanges(finished.records);
    assert!(waited.is_ok(), "{profiles:#?}");
    assert_eq!(profiles.len(), script.len(), "{profiles:#?}");
    for profile in &profiles {
        let resolver = profile.remote().unwrap().ip();
        let id = u16::try_from(profile.number("transaction_id").unwrap()).unwrap();
        let expected = script.remove(&(resolver, id));
        let expected = expected.unwrap_or_else(|| panic!("unexpected: {profile:#?}"));
        expected.check(profile);
    }
    println!("{} exchanges", profiles.len());
}
