//! Invented records, taken by tshark, nfcapd, nfacctd and netgauze.

use std::collections::HashMap;
use std::net::TcpListener;
use std::time::Duration;

use fathom_ipfix::TemplateSet;
use fathom_lab::wait_until;
use serde_json::Value;

use crate::collectors::{
    Nfacctd, Nfcapd, PORT, captured, namespace, netgauze, tshark, values, wait_until_read,
};
use crate::invented::{ENTERPRISE, RECORDS, datagrams, export, numbers, profile};

#[fathom_lab::real_time]
#[test]
fn tshark_has_nothing_to_complain_of() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for templates in [TemplateSet::Derived, TemplateSet::Flowcorder] {
        let file = directory.path().join(format!("{templates:?}.pcap"));
        captured(&namespace, &file, || {
            let datagrams = datagrams(&namespace, templates, None, &profile);
            datagrams.iter().map(|datagram| datagram.len() + 58).sum()
        });
        let complaints = "_ws.malformed || _ws.expert || _ws.short || cflow.no_template_found";
        let complaining = tshark(&file, complaints, &["frame.number", "_ws.expert.message"]);
        assert_eq!(complaining, Vec::<String>::new());

        let ports = values(&file, "cflow.srcport");
        let expected: Vec<_> = (0..RECORDS)
            .map(|number| (5_000 + number).to_string())
            .collect();
        assert_eq!(ports, expected);
        let addresses = [
            values(&file, "cflow.srcaddr").len(),
            values(&file, "cflow.srcaddrv6").len(),
        ];
        assert_eq!(addresses, [33, 17]);
    }
}

#[fathom_lab::real_time]
#[test]
fn tshark_reads_a_stream() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stream.pcap");
    captured(&namespace, &file, || {
        let bind = || TcpListener::bind(("::1", PORT)).unwrap();
        let listener = namespace.enter(bind).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
            });
            let url = format!("ipfix+tcp://[::1]:{PORT}");
            export(&namespace, &url, TemplateSet::Derived);
            usize::try_from(reader.join().unwrap()).unwrap()
        })
    });
    let complaints = "cflow && (_ws.malformed || _ws.expert || cflow.no_template_found)";
    let complaining = tshark(&file, complaints, &["frame.number", "_ws.expert.message"]);
    assert_eq!(complaining, Vec::<String>::new());
    assert_eq!(values(&file, "cflow.srcport").len() as u64, RECORDS);
}

#[fathom_lab::real_time]
#[test]
fn nfcapd_takes_the_elements_of_iana() {
    let Some(namespace) = namespace(&["nfcapd", "nfdump"]) else {
        return;
    };
    let nfcapd = Nfcapd::start(&namespace);
    export(
        &namespace,
        &format!("ipfix+udp://127.0.0.1:{PORT}"),
        TemplateSet::Derived,
    );
    wait_until_read(&namespace);
    let mut lines = nfcapd.finish("fmt:%sa,%da,%sp,%dp,%pr,%byt,%pkt,%nh,%td");
    lines.sort_by_key(|cells| cells[2].parse::<u64>().unwrap());
    assert_eq!(lines.len() as u64, RECORDS);
    for (number, cells) in lines.iter().enumerate() {
        let profile = profile(number as u64);
        let flow = profile.flow;
        assert_eq!(cells[0], flow.source.to_string());
        assert_eq!(cells[1], flow.destination.to_string());
        assert_eq!(cells[2], flow.source_port.to_string());
        assert_eq!(cells[3], "443");
        assert_eq!(cells[4], "TCP");
        assert_eq!(cells[6], profile.packets_received.to_string());
        assert!(cells[8].ends_with("1.500"), "{}", cells[8]);
        if let Some(next_hop) = profile.next_hop {
            assert_eq!(cells[7], next_hop.to_string());
        }
    }
}

#[fathom_lab::real_time]
#[test]
fn nfacctd_prints_the_own_elements() {
    let Some(namespace) = namespace(&["nfacctd"]) else {
        return;
    };
    let nfacctd = Nfacctd::start(
        &namespace,
        &[("number", 1, 8, "u_int"), ("srtt_ns", 4, 8, "u_int")],
    );
    // It may keep what it got until more comes.
    let url = format!("ipfix+udp://127.0.0.1:{PORT}");
    let attempt = |_| {
        export(&namespace, &url, TemplateSet::Derived);
        let is_complete = || nfacctd.lines().len() as u64 >= RECORDS;
        wait_until(Duration::from_secs(2), "what nfacctd prints", is_complete)
    };
    let is_complete = (0..10).map(attempt).any(|waited| waited.is_ok());
    assert!(is_complete, "{}", nfacctd.finish());

    let by_port: HashMap<u64, Value> = nfacctd
        .lines()
        .into_iter()
        .map(|line| (line["port_src"].as_u64().unwrap(), line))
        .collect();
    for number in 0..RECORDS {
        let profile = profile(number);
        let line = &by_port[&(5_000 + number)];
        let said = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(said("ip_src"), profile.flow.source.to_string());
        assert_eq!(said("number"), profile.connection.to_string());
        let srtt_ns = profile.srtt_ns.map_or(0, |srtt| srtt.0);
        assert_eq!(said("srtt_ns"), srtt_ns.to_string());
    }
}

fn as_text(packets: &[Value]) -> String {
    packets.iter().map(Value::to_string).collect()
}

#[fathom_lab::real_time]
#[test]
fn netgauze_decodes_every_value() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let text = as_text(&netgauze(&datagrams(
        &namespace,
        TemplateSet::Derived,
        Some(32),
        &numbers,
    )));
    let own = |element: u16, value: [u8; 8]| {
        let value = serde_json::to_string(&value).unwrap();
        format!(r#""Unknown":{{"id":{element},"pen":{ENTERPRISE},"value":{value}}}"#)
    };
    for number in 0..RECORDS {
        let numbers = numbers(number);
        let flow = numbers.flow;
        for expected in [
            format!(r#""sourceTransportPort":{}"#, flow.source_port),
            format!(r#"Address":"{}""#, flow.source),
            own(1, numbers.connection.to_be_bytes()),
            own(5, numbers.rtt_variance_us2.to_be_bytes()),
        ] {
            assert!(text.contains(&expected), "{expected} in {text}");
        }
        if let Some(srtt) = numbers.srtt_ns {
            assert!(text.contains(&own(4, srtt.0.to_be_bytes())));
        }
    }
    assert!(text.contains(r#""informationElementName":"rtt_variance_us2""#));

    let text = as_text(&netgauze(&datagrams(
        &namespace,
        TemplateSet::Flowcorder,
        None,
        &profile,
    )));
    for number in 0..RECORDS {
        let profile = profile(number);
        let expected = format!(r#""sourceTransportPort":{}"#, profile.flow.source_port);
        assert!(text.contains(&expected), "{expected} in {text}");
    }
}
