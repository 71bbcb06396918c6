//! Records of capture files, sent to a collector.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;

use fathom_ipfix::wire::DataValue;
use fathom_ipfix::{Collector, Limits, Session};

use crate::capture::Capture;
use crate::run::fathom;

/// The records that a collector gets while `work` runs: names and values as text, those of options
/// first.
fn collected(work: impl FnOnce(&str)) -> [Vec<BTreeMap<String, String>>; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    work(&format!("ipfix+tcp://{address}"));
    let bytes = reader.join().unwrap();
    let session = Session {
        exporter: address,
        connection: 1,
    };
    let mut records = [const { Vec::new() }; 2];
    let mut collector = Collector::new(Limits::default());
    let taken = collector.messages(session, &bytes, &mut |record| {
        let fields = record.fields();
        let fields = fields.map(|field| (field.name.into_owned(), text(&field.value)));
        records[usize::from(!record.is_options())].push(fields.collect());
    });
    taken.unwrap();
    records
}

fn text(value: &DataValue<'_>) -> String {
    match value {
        DataValue::Unsigned(number) => number.to_string(),
        DataValue::Text(text) => (*text).to_owned(),
        DataValue::Address(address) => address.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn samples_are_exported_and_not_printed() {
    let capture = Capture::new(50);
    let [options, records] = collected(|url| {
        let host = ["--host", "gateway", "--observation-domain", "7"];
        let outcome = fathom(&[&["rtt", capture.path(), "--export", url][..], &host].concat());
        assert_eq!(
            (outcome.status, outcome.stdout.as_str()),
            (0, ""),
            "{}",
            outcome.stderr
        );
        let told = outcome.stderr.contains(" 0 dropped, 0 reconnections");
        assert!(told, "{}", outcome.stderr);
    });
    let samples: Vec<_> = records
        .iter()
        .filter(|record| record.contains_key("rtt_ns"))
        .collect();
    assert_eq!(samples.len(), 50);
    for sample in samples {
        let is = |name: &str, value: &str| assert_eq!(sample[name], value, "{name}");
        is("sourceIPv4Address", "10.0.0.1");
        is("destinationIPv4Address", "10.0.1.1");
        is("protocolIdentifier", "1");
        is("rtt_ns", "20000000");
        is("method", "echo");
        is("interfaceName", "echoes.pcap");
        is("observed", "capture");
    }
    let of_domain =
        |record: &&BTreeMap<String, String>| record.contains_key("observationDomainName");
    let observers: Vec<_> = options.iter().filter(of_domain).collect();
    let told = [
        ("observationDomainId", "7"),
        ("observationDomainName", "gateway"),
    ];
    let told = told.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(observers, [&BTreeMap::from(told)]);
}

#[test]
fn aggregates_and_what_is_printed_are_exported_too() {
    let capture = Capture::new(50);
    let [_, records] = collected(|url| {
        let options = ["--interval", "1h", "--format", "json", "--export", url];
        let outcome = fathom(&[&["rtt", capture.path()][..], &options].concat());
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        assert!(
            outcome.stdout.contains("\"kind\":\"rtt_aggregate\""),
            "{}",
            outcome.stdout
        );
    });
    let aggregate = records
        .iter()
        .find(|record| record.contains_key("rtt_p50_ns"))
        .unwrap();
    assert_eq!(aggregate["rtt_samples"], "50");
}

#[test]
fn a_collector_that_refuses_is_an_error_of_every_command() {
    let capture = Capture::new(1);
    for command in ["rtt", "response", "traffic"] {
        // Nobody listens at port 1.
        let outcome = fathom(&[
            command,
            capture.path(),
            "--export",
            "ipfix+tcp://127.0.0.1:1",
        ]);
        assert_eq!(outcome.status, 1, "{}", outcome.stderr);
        for told in [
            "cannot export to ipfix+tcp://127.0.0.1:1",
            "Connection refused",
            "whether the collector runs",
        ] {
            assert!(
                outcome.stderr.contains(told),
                "{told} in {}",
                outcome.stderr
            );
        }
    }
}
