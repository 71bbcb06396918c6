//! Invented records, taken by tshark, nfcapd, nfacctd and `netflow_parser`.

use std::collections::HashMap;
use std::net::TcpListener;

use fathom_ipfix::TemplateSet;
use serde_json::{Value, json};

use crate::collectors::{
    Nfacctd, Nfcapd, PORT, captured, decoded, is_equal, namespace, tshark, values, wait_until_read,
};
use crate::invented::{OBSERVER, RECORDS, datagrams, export, profile};

#[fathom_lab::test]
fn tshark_has_nothing_to_complain_of() {
    let Some(namespace) = namespace(&["dumpcap", "tshark"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for templates in [TemplateSet::Derived, TemplateSet::Flowcorder] {
        let file = directory.path().join(format!("{templates:?}.pcap"));
        captured(&namespace, &file, || {
            let datagrams = datagrams(&namespace, templates, None);
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
        let observers = values(&file, "cflow.observation_domain_name");
        match templates {
            TemplateSet::Derived => assert_eq!(observers, [OBSERVER]),
            TemplateSet::Flowcorder => assert_eq!(observers, [""; 0]),
        }
    }
}

#[fathom_lab::test]
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

#[fathom_lab::test]
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

#[fathom_lab::test]
fn nfacctd_prints_the_own_elements() {
    let Some(namespace) = namespace(&["nfacctd"]) else {
        return;
    };
    let nfacctd = Nfacctd::start(
        &namespace,
        &[("number", 1, 8, "u_int"), ("srtt_ns", 4, 8, "u_int")],
    );
    let url = format!("ipfix+udp://127.0.0.1:{PORT}");
    export(&namespace, &url, TemplateSet::Derived);
    let lines = nfacctd.finish(&namespace);
    assert_eq!(lines.len() as u64, RECORDS);
    let by_port: HashMap<u64, Value> = lines
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

/// Of Flowcorder's templates it misses records that tshark has.
#[fathom_lab::test]
fn netflow_parser_decodes_every_value() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    for text_bytes in [None, Some(32)] {
        let messages = datagrams(&namespace, TemplateSet::Derived, text_bytes);
        let records = decoded(&messages);
        assert_eq!(records.len() as u64, RECORDS);
        for (number, fields) in (0..).zip(&records) {
            let profile = profile(number);
            let flow = profile.flow;
            let version = if flow.source.is_ipv6() { 6 } else { 4 };
            let srtt_ns = profile.srtt_ns.map(|srtt| srtt.0);
            let expected = [
                (format!("sourceipv{version}address"), json!(flow.source)),
                ("sourcetransportport".into(), json!(flow.source_port)),
                ("protocolidentifier".into(), json!(6)),
                ("octetdeltacount".into(), json!(profile.bytes_received)),
                (
                    format!("ipnexthopipv{version}address"),
                    json!(profile.next_hop),
                ),
                ("interfacename".into(), json!(profile.interface)),
                ("connection".into(), json!(profile.connection)),
                ("start_state".into(), json!(profile.start_state)),
                ("srtt_ns".into(), json!(srtt_ns)),
                ("rtt_variance_us2".into(), json!(profile.rtt_variance_us2)),
                ("is_existing".into(), json!(profile.is_existing)),
            ];
            for (name, wanted) in expected {
                let is_right = match fields.get(&name) {
                    Some(found) => is_equal(found, &wanted),
                    None => wanted.is_null(),
                };
                assert!(is_right, "{name} is not {wanted} in {fields:?}");
            }
        }
    }
}
