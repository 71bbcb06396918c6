//! Exporters that send IPFIX: fathom's own, and others.

use std::net::UdpSocket;
use std::process::Command;

use fathom_ipfix::wire::{FieldSpecifier, MessageWriter, Template};
use fathom_lab::wait_until;
use nix::sys::signal::Signal;

use crate::capture::echoes;
use crate::collector::{PATIENCE, Place, collect, fathom, free_port};

#[test]
fn records_of_our_exporter_are_in_the_tables_of_their_kinds() {
    let place = Place::new();
    std::fs::write(place.path("echoes.pcap"), echoes(0..500)).unwrap();
    let capture = place.text("echoes.pcap");
    let columns = "host, time, protocol, source, rtt_ns, method, interface";
    let ask = || place.ask(&format!("SELECT {columns} FROM rtt ORDER BY time"));
    let measure = |more: [&str; 2]| {
        let all = ["rtt", &capture, "--sample-interval", "0", "--per-rtt", "0"];
        let output = fathom(&[&all[..], &["--host", "gate"], &more].concat());
        assert!(output.status.success(), "{output:?}");
    };
    let store = place.text("store");
    measure(["--store", &store]);
    let expected = ask();
    assert_eq!(expected.len(), 500);
    for transport in ["udp", "tcp"] {
        std::fs::remove_dir_all(place.path("store")).unwrap();
        let url = format!("ipfix+{transport}://127.0.0.1:{}", free_port());
        let collector = collect(&place, &[&url]);
        measure(["--export", &url]);
        wait_until(PATIENCE, "all records", || place.samples().0 >= 500).unwrap();
        collector.signal(Signal::SIGTERM);
        assert!(collector.end());
        assert_eq!(ask(), expected, "{transport}");
        let said = place.said("collector.err");
        assert!(said.contains(" 0 lost on the way"), "{said}");
    }
}

fn field(enterprise: Option<u32>, element: u16, length: u16) -> FieldSpecifier {
    FieldSpecifier {
        enterprise,
        element,
        length,
    }
}

#[test]
fn records_of_other_exporters_are_kept_with_unknown_elements_by_number() {
    let (place, port) = (Place::new(), free_port());
    let collector = collect(&place, &[&format!("ipfix+udp://127.0.0.1:{port}")]);
    let mut writer = MessageWriter::new(5, 1232);
    writer.template(&Template {
        id: 300,
        scope_fields: 0,
        fields: vec![
            field(None, 8, 4),
            field(Some(32_473), 7, 2),
            field(None, 4, 1),
        ],
    });
    writer.record(300, &[10, 0, 0, 1, 1, 255, 6]);
    let mut message = writer.finish().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // 7 records did not arrive in between.
    for sequence in [0, 8] {
        message.stamp(1_764_000_000, sequence);
        let sent = socket.send_to(&message.bytes, ("127.0.0.1", port));
        sent.unwrap();
    }
    socket.send_to(b"no message", ("127.0.0.1", port)).unwrap();
    wait_until(PATIENCE, "the end of what was sent", || {
        place
            .said("collector.err")
            .contains("read an IPFIX message")
    })
    .unwrap();
    collector.signal(Signal::SIGTERM);
    assert!(collector.end());
    let said = place.said("collector.err");
    assert!(said.contains("7 records did not arrive"), "{said}");
    let rows = place.ask(
        "SELECT exporter, observation_domain, template, fields[1]['element'], fields[1]['value'], fields[2]['element'], fields[2]['value'] FROM ipfix",
    );
    let row = "127.0.0.1,5,300,sourceIPv4Address,10.0.0.1,e32473id7,0x01ff";
    assert_eq!(rows, [row, row]);
    let counts = "SELECT max(records), max(lost_records), max(malformed_messages) FROM exporters";
    assert_eq!(place.ask(counts), ["2,7,1"]);
}

/// softflowd reads the same capture.
#[test]
fn flows_of_softflowd_are_kept() {
    if Command::new("softflowd").arg("-h").output().is_err() {
        println!("skipped: softflowd is not installed");
        return;
    }
    let (place, port) = (Place::new(), free_port());
    std::fs::write(place.path("echoes.pcap"), echoes(0..500)).unwrap();
    let _collector = collect(&place, &[&format!("ipfix+udp://127.0.0.1:{port}")]);
    let (capture, pid) = (place.text("echoes.pcap"), place.text("pid"));
    let to = format!("127.0.0.1:{port}");
    let control = place.text("control");
    let arguments = [
        "-r", &capture, "-n", &to, "-v", "10", "-d", "-p", &pid, "-c", &control,
    ];
    let output = Command::new("softflowd").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let ask = "SELECT f['value'] FROM (SELECT unnest(fields) AS f FROM ipfix) WHERE f['element'] = 'packetDeltaCount' ORDER BY 1";
    wait_until(PATIENCE, "both directions", || {
        let tables = place.ask("SELECT table_name FROM information_schema.tables");
        tables.contains(&"ipfix".to_owned()) && place.ask(ask) == ["500", "500"]
    })
    .unwrap();
}
