//! Invented records, printed by `fathom ipfix dump`.

use std::path::Path;
use std::process::Stdio;

use fathom_ipfix::{TemplateSet, fields_without_element};
use fathom_lab::{Namespace, Process, wait_until};
use fathom_tests::binary;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::collectors::{PATIENCE, PORT, end, namespace, wait_for_port, wait_until_read};
use crate::invented::{Profile, RECORDS, export, profile};

#[fathom_lab::test]
fn fathom_prints_what_it_sent() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let address = format!("127.0.0.1:{PORT}");
    let listen = format!("udp:{address},tcp:{address}");
    let directory = tempfile::tempdir().unwrap();
    let printed = directory.path().join("printed.json");
    let mut command = namespace.command(binary().unwrap().to_str().unwrap());
    command
        .args(["ipfix", "dump", "--format", "json", "--listen", &listen])
        // More than a pipe holds.
        .stdout(std::fs::File::create(&printed).unwrap())
        .stderr(Stdio::piped());
    let dump = Process::start(&mut command).unwrap();
    for transport in ["udp", "tcp"] {
        wait_for_port(&namespace, transport);
        let url = format!("ipfix+{transport}://{address}");
        export(&namespace, &url, TemplateSet::Derived);
    }
    wait_until_read(&namespace);
    let is_over = |state: &str| {
        let connections = namespace.run(&format!("ss -Htn state {state}"));
        !connections.unwrap().contains(&format!(":{PORT}"))
    };
    wait_until(PATIENCE, "the end of the connection", || {
        is_over("established") && is_over("close-wait")
    })
    .unwrap();
    let (_, errors) = end(dump, Signal::SIGINT);
    let output = std::fs::read_to_string(&printed).unwrap();
    let records: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len() as u64, 2 * RECORDS, "{errors}");
    assert!(
        errors.contains("with 100 records and 80 about the exporters"),
        "{errors}"
    );
    assert!(
        errors.contains(" 0 records lost, 0 sets without their template, 0 messages malformed"),
        "{errors}"
    );
    assert_eq!(fields_without_element(Profile::SCHEMA), ["secret"]);
    for (index, record) in records.iter().enumerate() {
        let profile = profile(index as u64 % RECORDS);
        assert_eq!(record["connection"], profile.connection);
        assert_eq!(record["end_state"], "ESTABLISHED");
        assert_eq!(record["rtt_variance_us2"], profile.rtt_variance_us2);
        assert_eq!(record["is_existing"], profile.is_existing);
        let srtt_ns = profile.srtt_ns.map(|srtt| srtt.0);
        assert_eq!(record.get("srtt_ns").and_then(Value::as_u64), srtt_ns);
        let stalled_at = profile.stalled_at.map(|_| "2026-11-20T12:00:00.123456789Z");
        assert_eq!(record.get("stalled_at").and_then(Value::as_str), stalled_at);
        let router = match profile.router {
            std::net::IpAddr::V4(router) => router.to_ipv6_mapped(),
            std::net::IpAddr::V6(router) => router,
        };
        assert_eq!(record["router"], router.to_string());
    }
}

/// `fathom ipfix dump`, which prints into a file.
fn dump(namespace: &Namespace, listen: &str, printed: &Path) -> Process {
    let mut command = namespace.command(binary().unwrap().to_str().unwrap());
    command
        .args(["ipfix", "dump", "--format", "json", "--listen", listen])
        .stdout(std::fs::File::create(printed).unwrap())
        .stderr(Stdio::piped());
    Process::start(&mut command).unwrap()
}

#[fathom_lab::test]
fn fathom_listens_with_tls() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, printed) = (file("certificate"), file("key"), file("printed"));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let listen = format!("tls:127.0.0.1:{PORT}?cert={certificate}&key={key}");
    let dump = dump(&namespace, &listen, Path::new(&printed));
    wait_for_port(&namespace, "tcp");
    // Who speaks no TLS is sent away, and the others go on.
    let connect = || std::net::TcpStream::connect(("127.0.0.1", PORT));
    let mut stranger = namespace.enter(connect).unwrap().unwrap();
    std::io::Write::write_all(&mut stranger, &[0, 10, 0, 16]).unwrap();
    let url = format!("ipfix+tls://127.0.0.1:{PORT}?ca={certificate}");
    export(&namespace, &url, TemplateSet::Derived);
    let lines = || std::fs::read_to_string(&printed).unwrap();
    wait_until(PATIENCE, "the records", || {
        lines().lines().count() as u64 == RECORDS
    })
    .unwrap();
    let (_, errors) = end(dump, Signal::SIGINT);
    for (number, line) in lines().lines().enumerate() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["connection"], profile(number as u64).connection);
    }
    assert!(errors.contains("with 50 records"), "{errors}");
}

#[fathom_lab::test]
fn fathom_says_which_file_is_no_certificate() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let listen = format!("tls:127.0.0.1:{PORT}?cert=/dev/null&key=/dev/null");
    let dump = dump(&namespace, &listen, Path::new("/dev/null"));
    let output = dump.output(PATIENCE).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("/dev/null"), "{errors}");
}
