//! Who may not send, and what nobody may send.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use fathom_lab::wait_until;
use fathom_tests::certificates;
use nix::sys::signal::Signal;

use crate::capture::echoes;
use crate::collector::{PATIENCE, Place, collect, fathom, free_port};

#[test]
fn who_shows_no_certificate_of_the_authority_is_refused() {
    let (place, port) = (Place::new(), free_port());
    let folder = place.path("");
    certificates(&folder, "ca.pem", &["collector", "agent"]).unwrap();
    certificates(&folder, "other-ca.pem", &["stranger"]).unwrap();
    std::fs::write(place.path("echoes.pcap"), echoes(0..10)).unwrap();
    let file = |name: &str| place.text(name);
    let listen = format!(
        "https://127.0.0.1:{port}?cert={}&key={}&client-ca={}",
        file("collector.pem"),
        file("collector.key"),
        file("ca.pem")
    );
    let collector = collect(&place, &[&listen]);
    let send = |options: &str| {
        let url = format!("https://127.0.0.1:{port}?{options}");
        let output = fathom(&["rtt", &file("echoes.pcap"), "--export", &url]);
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), errors)
    };
    let trusted = format!("ca={}", file("ca.pem"));
    let with = |name: &str| {
        let (certificate, key) = (file(&format!("{name}.pem")), file(&format!("{name}.key")));
        format!("{trusted}&cert={certificate}&key={key}")
    };
    let (is_success, errors) = send(&with("agent"));
    assert!(is_success, "{errors}");
    for (options, reason) in [
        (
            trusted.clone(),
            "name a certificate with &cert=FILE&key=FILE",
        ),
        (
            with("stranger"),
            "does not trust the certificate of &cert=FILE",
        ),
        (
            format!("ca={}", file("other-ca.pem")),
            "not signed by one in ?ca=FILE",
        ),
    ] {
        let (is_success, errors) = send(&options);
        assert!(
            !is_success && errors.contains(reason),
            "{options}: {errors}"
        );
    }
    assert_eq!(place.samples(), (10, 10));
    let said = place.said("collector.err");
    assert!(said.contains("127.0.0.1: no TLS"), "{said}");
    collector.signal(Signal::SIGTERM);
    assert!(collector.end());
}

#[test]
fn what_is_malformed_is_counted_and_its_peer_named() {
    let (place, port) = (Place::new(), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let collector = collect(&place, &[&url]);
    let request = |head: &str, length: usize, body: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let lines = format!("host: x\r\nconnection: close\r\ncontent-length: {length}");
        let head = format!("{head} HTTP/1.1\r\n{lines}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let send = |body: &[u8]| request("POST /records", body.len(), body);
    let status = |answer: String| answer.get(9..12).unwrap_or_default().to_owned();
    let answer = send(b"these are no records");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("byte 0 begins no whole batch"), "{answer}");
    assert_eq!(status(send(&[0; 100])), "400");
    assert_eq!(status(request("GET /records", 0, b"")), "405");
    assert_eq!(status(request("POST /other", 0, b"")), "404");
    assert_eq!(status(request("POST /records", 1 << 30, b"")), "413");
    wait_until(PATIENCE, "the peer's name", || {
        let said = place.said("collector.err");
        said.contains("127.0.0.1: byte 0 begins no whole batch")
    })
    .unwrap();
    // It takes what is good all the same.
    std::fs::write(place.path("echoes.pcap"), echoes(0..10)).unwrap();
    let output = fathom(&["rtt", &place.text("echoes.pcap"), "--export", &url]);
    assert!(output.status.success());
    collector.signal(Signal::SIGTERM);
    assert!(collector.end());
    let row = "SELECT exporter, transport, malformed_messages FROM exporters ORDER BY time";
    assert_eq!(place.ask(row).last().unwrap(), "127.0.0.1,http,5");
}

#[test]
fn a_peer_has_a_limit_of_connections() {
    const MOST: usize = 64;
    let (place, port) = (Place::new(), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let collector = collect(&place, &[&url]);
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let held: Vec<_> = (0..MOST).map(|_| connect()).collect();
    let is_closed = |mut stream: &TcpStream| matches!(stream.read(&mut [0]), Ok(0) | Err(_));
    assert!(is_closed(&connect()));
    wait_until(PATIENCE, "the peer's name", || {
        let said = place.said("collector.err");
        said.contains("127.0.0.1: too many connections: one more was closed")
    })
    .unwrap();
    // Those that it has stay open.
    for stream in &held {
        stream.set_nonblocking(true).unwrap();
        let error = (&*stream).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    drop(held);
    std::fs::write(place.path("echoes.pcap"), echoes(0..10)).unwrap();
    let output = fathom(&["rtt", &place.text("echoes.pcap"), "--export", &url]);
    assert!(output.status.success());
    collector.signal(Signal::SIGTERM);
    assert!(collector.end());
    let row = "SELECT malformed_messages FROM exporters ORDER BY time";
    assert_ne!(place.ask(row).last().unwrap(), "0");
}
