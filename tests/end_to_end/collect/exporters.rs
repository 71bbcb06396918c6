//! Exporters that send IPFIX: fathom's own, and others.

use std::net::UdpSocket;

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
    let ask = || {
        let samples = "SELECT host, time, protocol, source, rtt_ns, method, interface FROM rtt";
        let traffic = "SELECT host, time, duration_ns, source, packets, interface FROM traffic";
        [samples, traffic].map(|statement| place.ask(&format!("{statement} ORDER BY time, source")))
    };
    let measure = |more: [&str; 2]| {
        let every = ["rtt", "--sample-interval", "0", "--per-rtt", "0"];
        let each = ["traffic", "--interval", "100ms"];
        for command in [&every[..], &each] {
            let output = fathom(&[command, &[&capture, "--host", "gate"], &more].concat());
            assert!(output.status.success(), "{output:?}");
        }
    };
    let store = place.text("store");
    measure(["--store", &store]);
    let expected = ask();
    assert_eq!(expected[0].len(), 500);
    let intervals = expected[1].len();
    assert!(intervals > 1, "{expected:?}");
    for transport in ["udp", "tcp"] {
        std::fs::remove_dir_all(place.path("store")).unwrap();
        let url = format!("ipfix+{transport}://127.0.0.1:{}", free_port());
        let collector = collect(&place, &[&url]);
        measure(["--export", &url]);
        wait_until(PATIENCE, "all records", || {
            place.samples().0 >= 500 && place.rows("traffic") >= intervals
        })
        .unwrap();
        collector.signal(Signal::SIGTERM);
        assert!(collector.end());
        assert_eq!(ask(), expected, "{transport}");
        let said = place.said("collector.err");
        assert!(said.contains(" 0 lost on the way"), "{said}");
    }
}

/// The collector stands still while records come, and is told to end before it goes on.
#[test]
fn datagrams_that_wait_at_the_end_are_taken() {
    let place = Place::new();
    std::fs::write(place.path("echoes.pcap"), echoes(0..10_000)).unwrap();
    let capture = place.text("echoes.pcap");
    let url = format!("ipfix+udp://127.0.0.1:{}", free_port());
    let collector = collect(&place, &[&url]);
    collector.signal(Signal::SIGSTOP);
    let all = ["rtt", &capture, "--sample-interval", "0", "--per-rtt", "0"];
    let output = fathom(&[&all[..], &["--export", &url]].concat());
    assert!(output.status.success(), "{output:?}");
    collector.signal(Signal::SIGTERM);
    collector.signal(Signal::SIGCONT);
    assert!(collector.end());
    assert_eq!(place.samples(), (10_000, 10_000));
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
