//! Exports over UDP, TCP and TLS on loopback, to collectors that come and go.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fathom_ipfix::{
    Collector, CollectorCounts, Destination, Export, ExporterSettings, Frames, Limits,
    SenderSettings, Session,
};
use fathom_record::{Time, record};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

record! {
    /// A test.
    #[record = "tick"]
    pub struct Tick {
        /// When.
        #[field(ipfix = 325)]
        pub time: Time,
        /// Which.
        #[field(own_ipfix = 1)]
        pub number: u64,
    }
}

/// What is told of `Tick`: its own element and the three that tell kinds, which field each of its
/// two elements is, and the kind of its template.
const OPTIONS: u64 = 7;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn open(url: &str) -> Export {
    let destination: Destination = url.parse().unwrap();
    let settings = ExporterSettings::default();
    Export::open(&destination, settings, &SenderSettings::default()).unwrap()
}

fn send(export: &mut Export, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let time = Time::now();
        export.record(&Tick { time, number }, time);
    }
    export.tick(Time::now());
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::yield_now();
    }
}

/// Reads a stream to its end, or until `most` records came.
fn collect(stream: &mut impl Read, most: u64) -> CollectorCounts {
    let mut collector = Collector::new(Limits::default());
    let session = Session {
        exporter: "127.0.0.1:1".parse().unwrap(),
        connection: 1,
    };
    let (mut frames, mut buffer) = (Frames::default(), [0; 4096]);
    while collector.counts().records < most {
        let length = stream.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        frames.push(&buffer[..length]);
        while let Some(message) = frames.message().unwrap() {
            collector.messages(session, message, &mut |_| {}).unwrap();
        }
    }
    collector.counts()
}

fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_until("a connection", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The last messages of an exporter, and nothing comes after them.
#[test]
fn a_tail_that_is_lost_is_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut export = open(&format!("ipfix+udp://{}", socket.local_addr().unwrap()));
    send(&mut export, 0..1_000);
    let sent = export.close(PATIENCE);
    let (mut buffer, mut messages) = ([0; 2048], Vec::new());
    for _ in 0..sent.messages {
        let length = socket.recv(&mut buffer).unwrap();
        messages.push(buffer[..length].to_vec());
    }
    let session = Session {
        exporter: "127.0.0.1:1".parse().unwrap(),
        connection: 0,
    };
    let after_losing = |is_lost: &dyn Fn(usize) -> bool| {
        let mut collector = Collector::new(Limits::default());
        for (index, message) in messages.iter().enumerate() {
            if !is_lost(index) {
                collector.messages(session, message, &mut |_| {}).unwrap();
            }
        }
        let counts = collector.counts();
        (counts.records + counts.lost_records, counts.lost_records)
    };
    let end = messages.len();
    assert_eq!(after_losing(&|_| false), (1_000, 0));
    // Either of the two that end an export tells.
    for last in [end - 1, end - 2] {
        let (all, lost) = after_losing(&|index| index + 6 > end && index != last);
        assert!(all == 1_000 && lost > 10, "{all} {lost}");
    }
}

#[test]
fn datagrams_carry_every_record() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(socket) = UdpSocket::bind(address) else {
            println!("skipped: there is no {address}");
            continue;
        };
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut export = open(&format!("ipfix+udp://{}", socket.local_addr().unwrap()));
        send(&mut export, 0..200);
        let sent = export.close(PATIENCE);
        assert_eq!(
            (sent.records, sent.dropped_records, sent.failures),
            (200 + OPTIONS, 0, 0)
        );

        let mut collector = Collector::new(Limits::default());
        let mut buffer = [0; 2048];
        for _ in 0..sent.messages {
            let (length, exporter) = socket.recv_from(&mut buffer).unwrap();
            assert!(length <= 1232, "{length}");
            let session = Session {
                exporter,
                connection: 0,
            };
            let datagram = &buffer[..length];
            collector.messages(session, datagram, &mut |_| {}).unwrap();
        }
        let counts = collector.counts();
        assert_eq!(
            (counts.records, counts.options, counts.lost_records),
            (200, OPTIONS, 0)
        );
    }
}

#[test]
fn a_collector_of_datagrams_that_comes_late_gets_templates() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let mut export = open(&format!("ipfix+udp://{address}"));
    send(&mut export, 0..5_000);
    wait_until("a failure", || export.counters().failures > 0);

    let socket = UdpSocket::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut collector = Collector::new(Limits::default());
    let mut buffer = [0; 2048];
    wait_until("most of the records", || {
        while let Ok((length, exporter)) = socket.recv_from(&mut buffer) {
            let session = Session {
                exporter,
                connection: 0,
            };
            let datagram = &buffer[..length];
            collector.messages(session, datagram, &mut |_| {}).unwrap();
        }
        collector.counts().records > 4_000
    });
    let counts = collector.counts();
    assert_eq!((counts.options, counts.unknown_sets), (OPTIONS, 0));
    assert!(export.close(PATIENCE).reconnects > 0);
}

#[test]
fn a_collector_that_comes_late_gets_what_was_spooled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut export = open(&format!("ipfix+tcp://{address}"));
    send(&mut export, 0..5_000);
    wait_until("a failure", || export.counters().failures > 0);
    assert!(export.trouble().unwrap().contains("refused"));

    let listener = TcpListener::bind(address).unwrap();
    let counts = thread::scope(|scope| {
        let reader = scope.spawn(|| collect(&mut accept(&listener), u64::MAX));
        let sent = export.close(PATIENCE);
        assert_eq!((sent.records, sent.dropped_records), (5_000 + OPTIONS, 0));
        reader.join().unwrap()
    });
    assert_eq!((counts.records, counts.lost_records), (5_000, 0));
}

#[test]
fn each_connection_stands_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut export = open(&format!("ipfix+tcp://{address}?mtu=1500"));
    send(&mut export, 0..1_000);
    // Ends in the middle.
    let first = collect(&mut accept(&listener), 300);
    assert!(first.records >= 300 && first.unknown_sets == 0);
    send(&mut export, 1_000..3_000);
    let second = thread::scope(|scope| {
        let reader = scope.spawn(|| collect(&mut accept(&listener), u64::MAX));
        let sent = export.close(PATIENCE);
        assert_eq!((sent.reconnects, sent.dropped_records), (1, 0));
        reader.join().unwrap()
    });
    // Templates and names came again, and the numbers began at zero.
    assert!(second.records > 0);
    assert_eq!(
        (second.options, second.unknown_sets, second.lost_records),
        (OPTIONS, 0, 0)
    );
    assert!(first.records + second.records <= 3_000);
}

/// Loopback takes packets of 64 KB, but not every collector does.
#[test]
fn datagrams_are_as_long_as_the_path_takes() {
    let collector = UdpSocket::bind("[::1]:0").unwrap();
    collector.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut export = open(&format!("ipfix+udp://{}", collector.local_addr().unwrap()));
    send(&mut export, 0..1_000);
    wait_until("the first messages to leave", || {
        export.counters().records >= 900
    });
    export.tick(Time::now());
    send(&mut export, 1_000..2_000);
    export.close(PATIENCE);
    let mut datagram = [0; 2_000];
    let mut lengths = Vec::new();
    while collector_has_one(&collector) {
        lengths.push(collector.recv(&mut datagram).unwrap());
    }
    let most = |lengths: &[usize]| lengths.iter().copied().max().unwrap();
    assert!(
        (1_200..=1_280 - 48).contains(&most(&lengths[..10])),
        "{lengths:?}"
    );
    assert!(
        (1_400..=1_500 - 48).contains(&most(&lengths)),
        "{lengths:?}"
    );
}

/// What was sent over loopback before is there now.
fn collector_has_one(collector: &UdpSocket) -> bool {
    collector.set_nonblocking(true).unwrap();
    let is_there = collector.peek(&mut [0]).is_ok();
    collector.set_nonblocking(false).unwrap();
    is_there
}

#[test]
fn a_collector_that_stays_away_costs_a_bounded_spool() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ipfix+tcp://{}?mtu=1500", listener.local_addr().unwrap());
    drop(listener);
    let destination = url.parse().unwrap();
    let settings = SenderSettings {
        spool_bytes: 10_000,
        ..SenderSettings::default()
    };
    let mut export = Export::open(&destination, ExporterSettings::default(), &settings).unwrap();
    send(&mut export, 0..10_000);
    let counters = export.close(Duration::ZERO);
    assert_eq!((counters.records, counters.dropped_records), (0, 10_000));
}

/// A server's certificate for `name`, signed by a new authority, whose certificate goes into a
/// file.
fn certificates(name: &str) -> (Arc<ServerConfig>, std::path::PathBuf) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let file = std::env::temp_dir().join(format!("fathom-ipfix-{}-{name}.pem", std::process::id()));
    std::fs::write(&file, authority_certificate.pem()).unwrap();

    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (Arc::new(config), file)
}

fn tls_url(address: SocketAddr, authority: &std::path::Path) -> String {
    format!("ipfix+tls://{address}?ca={}", authority.display())
}

#[test]
fn tls_carries_every_record() {
    let (config, authority) = certificates("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut export = open(&tls_url(listener.local_addr().unwrap(), &authority));
    std::fs::remove_file(authority).unwrap();
    send(&mut export, 0..3_000);
    let counts = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let session = ServerConnection::new(config).unwrap();
            // The export says goodbye: a stream cut short would be an error here.
            collect(&mut StreamOwned::new(session, accept(&listener)), u64::MAX)
        });
        let sent = export.close(PATIENCE);
        assert_eq!(
            (sent.records, sent.dropped_records, sent.failures),
            (3_000 + OPTIONS, 0, 0)
        );
        reader.join().unwrap()
    });
    assert_eq!((counts.records, counts.lost_records), (3_000, 0));
}

#[test]
fn a_collector_of_another_name_gets_nothing() {
    let (config, authority) = certificates("collector.example");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut export = open(&tls_url(listener.local_addr().unwrap(), &authority));
    std::fs::remove_file(authority).unwrap();
    send(&mut export, 0..10);
    export.tick(Time(u64::MAX));
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), accept(&listener));
    assert!(stream.read(&mut [0; 16]).is_err());
    wait_until("the reason", || export.trouble().is_some());
    let trouble = export.trouble().unwrap();
    assert!(trouble.contains("not valid for name"), "{trouble}");
    assert_eq!(export.close(Duration::ZERO).records, 0);
}

#[test]
fn certificates_that_are_none_are_said_at_once() {
    let open = |file: &std::path::Path| {
        let destination = tls_url("127.0.0.1:1".parse().unwrap(), file)
            .parse()
            .unwrap();
        let settings = ExporterSettings::default();
        let error = Export::open(&destination, settings, &SenderSettings::default());
        error.unwrap_err().to_string()
    };
    let missing = open(std::path::Path::new("/nonexistent/ca.pem"));
    assert!(missing.contains("/nonexistent/ca.pem"), "{missing}");
    let empty = open(std::path::Path::new("/dev/null"));
    assert!(empty.contains("no certificate"), "{empty}");
}
