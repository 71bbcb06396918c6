//! The profiles of real connections: what collectors have of them is what was printed.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};

use fathom_lab::{Namespace, Process};
use fathom_tests::binary;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::collectors::{
    Nfacctd, Nfcapd, PORT, captured, decoded, end, is_equal, namespace, tshark, values,
    wait_for_port, wait_until_read,
};
use crate::traffic::{Measured, Printed, expected, milliseconds};

/// The values of a printed field, as text.
fn column(printed: &[Printed], name: &str) -> Vec<String> {
    let values = printed.iter().filter_map(|(_, profile)| profile.get(name));
    let mut values: Vec<_> = values
        .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
        .collect();
    values.sort_unstable();
    values
}

#[fathom_lab::test]
fn tshark_decodes_every_message() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for transport in ["udp", "tcp"] {
        let file = directory.path().join(transport);
        let mut printed = Vec::new();
        captured(&namespace, &file, || {
            let address = format!("127.0.0.1:{PORT}");
            let listen = || {
                (
                    UdpSocket::bind(&address).unwrap(),
                    TcpListener::bind(&address).unwrap(),
                )
            };
            let (socket, listener) = namespace.enter(listen).unwrap();
            let url = format!("ipfix+{transport}://{address}");
            let mut measured = Measured::start(&namespace, &["--export", &url]);
            let mut bytes = 0;
            std::thread::scope(|scope| {
                let reader = (transport == "tcp").then(|| {
                    scope.spawn(|| {
                        let mut stream = listener.accept().unwrap().0;
                        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
                    })
                });
                measured.talk();
                printed = measured.finish();
                if let Some(reader) = reader {
                    bytes = usize::try_from(reader.join().unwrap()).unwrap();
                }
            });
            // With the headers in front, and what the file says of each.
            let datagrams = received(&socket);
            bytes
                + datagrams
                    .iter()
                    .map(|datagram| datagram.len() + 58)
                    .sum::<usize>()
        });
        let complaints =
            "cflow && (_ws.malformed || _ws.expert || _ws.short || cflow.no_template_found)";
        let complaining = tshark(&file, complaints, &["frame.number", "_ws.expert.message"]);
        assert_eq!(complaining, Vec::<String>::new());
        let mut ports = values(&file, "cflow.srcport");
        ports.sort_unstable();
        assert_eq!(ports, column(&printed, "source_port"));
        let mut sources = values(&file, "cflow.srcaddr");
        sources.extend(values(&file, "cflow.srcaddrv6"));
        sources.sort_unstable();
        assert_eq!(sources, column(&printed, "source"));
    }
}

/// What it shows of MPTCP connections as a whole and of DNS has no volume: their packets are those
/// of subflows, and not looked at.
#[fathom_lab::test]
fn nfdump_shows_what_they_carried() {
    const NAMES: [&str; 10] = [
        "source",
        "destination",
        "source_port",
        "destination_port",
        "protocol",
        "next_hop",
        "bytes",
        "packets",
        "reverse_bytes",
        "reverse_packets",
    ];
    let Some(namespace) = namespace(&["nfcapd", "nfdump"]) else {
        return;
    };
    let nfcapd = Nfcapd::start(&namespace);
    let url = format!("ipfix+udp://127.0.0.1:{PORT}");
    let mut measured = Measured::start(&namespace, &["--export", &url]);
    measured.talk();
    let printed = measured.finish();
    wait_until_read(&namespace);
    let mut found = nfcapd.finish("fmt:%sa,%da,%sp,%dp,%pr,%nh,%byt,%pkt,%obyt,%opkt,%ts");
    assert!(found.iter().all(|cells| !cells[10].starts_with("1970")));
    for cells in &mut found {
        cells.truncate(NAMES.len());
    }
    found.sort_unstable();
    let mut expected: Vec<Vec<String>> = printed
        .iter()
        .map(|(_, profile)| {
            let cell = |name| match profile.get(name) {
                Some(Value::String(text)) if name == "protocol" => text.to_uppercase(),
                Some(Value::String(text)) => text.clone(),
                Some(number) => number.to_string(),
                None if name == "next_hop" => "0.0.0.0".to_owned(),
                None => "0".to_owned(),
            };
            NAMES.map(cell).to_vec()
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let carried = |name| printed.iter().filter_map(move |(_, one)| one.number(name));
    assert!(carried("bytes").sum::<u64>() > 4 * 10_000);
    assert!(carried("packets").sum::<u64>() > 4 * 10);
}

/// The own elements that nfacctd is told about: name, number, and what it calls the type.
const PRIMITIVES: [(&str, u16, u16, &str); 8] = [
    ("end_state", 101, 32, "str"),
    ("bytes_received", 112, 8, "u_int"),
    ("bytes_acknowledged", 114, 8, "u_int"),
    ("packets_retransmitted", 118, 8, "u_int"),
    ("srtt_ns", 121, 8, "u_int"),
    ("bytes_out_of_order", 135, 8, "u_int"),
    ("congestion_control", 150, 32, "str"),
    ("mss_bytes", 152, 8, "u_int"),
];

/// It cannot read own texts of variable length.
#[fathom_lab::test]
fn nfacctd_prints_what_was_printed() {
    let Some(namespace) = namespace(&["nfacctd"]) else {
        return;
    };
    let nfacctd = Nfacctd::start(&namespace, &PRIMITIVES);
    let url = format!("ipfix+udp://127.0.0.1:{PORT}");
    let mut measured = Measured::start(&namespace, &["--export", &url, "--text-bytes", "32"]);
    measured.talk();
    let printed = measured.finish();
    let lines = nfacctd.finish(&namespace);
    let is_there = |line: &Value, printed: &Printed| {
        let (_, profile) = printed;
        PRIMITIVES.iter().all(|(name, ..)| {
            let said = line[*name].as_str().unwrap_or_default();
            match profile.get(name) {
                Some(Value::String(text)) => said == text,
                Some(number) => said.parse().ok() == number.as_u64(),
                None => true,
            }
        }) && line["bytes"].as_u64() == profile.number("bytes")
            && line["packets"].as_u64() == profile.number("packets")
            && line["ip_src"] == profile.text("source")
            && line["port_src"].as_u64() == profile.number("source_port")
            && line["ip_dst"] == profile.text("destination")
            && line["port_dst"].as_u64() == profile.number("destination_port")
    };
    let missing: Vec<_> = printed
        .iter()
        .filter(|one| one.0 == "profile" && !lines.iter().any(|line| is_there(line, one)))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}\nin\n{lines:#?}");
}

/// The messages of a measurement over UDP, and what it printed.
pub(crate) fn messages(namespace: &Namespace, options: &[&str]) -> (Vec<Vec<u8>>, Vec<Printed>) {
    let address = format!("127.0.0.1:{PORT}");
    let socket = namespace
        .enter(|| UdpSocket::bind(&address).unwrap())
        .unwrap();
    let url = format!("ipfix+udp://{address}");
    let mut measured = Measured::start(namespace, &[&["--export", &url][..], options].concat());
    measured.talk();
    let printed = measured.finish();
    (received(&socket), printed)
}

/// What the kernel has for a socket.
fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let receive = || {
        let length = socket.recv(&mut buffer).ok()?;
        Some(buffer[..length].to_vec())
    };
    std::iter::from_fn(receive).collect()
}

#[fathom_lab::test]
fn netflow_parser_decodes_every_field() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    for options in [&[][..], &["--text-bytes", "64"]] {
        let (messages, printed) = messages(&namespace, options);
        let found = decoded(&messages);
        assert_eq!(found.len(), printed.len());
        for (mut found, printed) in found.into_iter().zip(&printed) {
            for (name, wanted) in expected(printed) {
                let value = found.remove(&name.to_lowercase());
                let is_same = value.as_ref().is_some_and(|value| is_equal(value, &wanted));
                assert!(is_same, "{name}: {value:?} is not {wanted}");
            }
            assert_eq!(found, BTreeMap::new());
        }
    }
}

#[fathom_lab::test]
fn fathom_dumps_what_was_printed() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    for options in [&[][..], &["--text-bytes", "64"]] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("dumped.json");
        let listen = format!("udp:127.0.0.1:{PORT}");
        let mut command = namespace.command(binary().unwrap().to_str().unwrap());
        command
            .args(["ipfix", "dump", "--format", "json", "--listen", &listen])
            // More than a pipe holds.
            .stdout(std::fs::File::create(&file).unwrap())
            .stderr(std::process::Stdio::piped());
        let dump = Process::start(&mut command).unwrap();
        wait_for_port(&namespace, "udp");
        let url = format!("ipfix+udp://127.0.0.1:{PORT}");
        let mut measured =
            Measured::start(&namespace, &[&["--export", &url][..], options].concat());
        measured.talk();
        let printed = measured.finish();
        wait_until_read(&namespace);
        let (_, errors) = end(dump, Signal::SIGINT);
        assert!(
            errors.contains(" 0 records lost, 0 sets without their template, 0 messages malformed"),
            "{errors}"
        );
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<BTreeMap<String, Value>> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), printed.len(), "{errors}");
        for (found, printed) in lines.iter().zip(&printed) {
            for (name, wanted) in expected(printed) {
                let found = &found[&name];
                let is_time = name.ends_with("Milliseconds");
                let is_equal = if is_time {
                    milliseconds(found) == wanted.as_u64()
                } else {
                    *found == wanted
                        || found
                            .as_f64()
                            .is_some_and(|found| wanted.as_f64() == Some(found))
                };
                assert!(is_equal, "{name}: {found} is not {wanted}");
            }
        }
    }
}
