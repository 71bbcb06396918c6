//! Records through the exporter, read back by the decoder.

use std::collections::HashMap;

use fathom_record::{FlowKey, Fold, Nanoseconds, Protocol, record};

use super::*;
use crate::wire::{DataValue, Message, Set, TemplateChange};
use crate::{DataType, iana_element};

record! {
    /// A test.
    #[record = "example"]
    #[derive(Debug, Clone)]
    pub(crate) struct Example {
        /// When.
        #[field(ipfix = 325)]
        pub time: Time,
        /// Who.
        pub flow: FlowKey,
        /// How long.
        #[field(own_ipfix = 7)]
        pub rtt_ns: Option<Nanoseconds>,
        /// Where.
        #[field(ipfix = 82)]
        pub interface: Option<String>,
        /// Not carried.
        pub secret: u64,
    }
}

const NOW: Time = Time(1_795_176_000_123_456_789);

pub(crate) fn example(source: &str, rtt_ns: Option<u64>, interface: Option<&str>) -> Example {
    Example {
        time: NOW,
        flow: FlowKey {
            protocol: Protocol::TCP,
            source: source.parse().unwrap(),
            source_port: 5000,
            destination: source.parse().unwrap(),
            destination_port: 443,
        },
        rtt_ns: rtt_ns.map(Nanoseconds),
        interface: interface.map(str::to_owned),
        secret: 1,
    }
}

/// Sorted names and values of each record of data, and of each record of options.
fn decode(messages: impl Iterator<Item = Outgoing>) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let (mut data, mut options) = (Vec::new(), Vec::new());
    let mut templates = HashMap::new();
    for outgoing in messages {
        let (Outgoing::Announcement(encoded) | Outgoing::Data(encoded)) = outgoing;
        let (message, rest) = Message::split(&encoded.bytes).unwrap();
        assert!(rest.is_empty());
        let mut records = 0;
        for set in message.sets() {
            match set.unwrap() {
                Set::Templates(changes) => {
                    for change in changes {
                        let TemplateChange::Defined(template) = change else {
                            panic!("nothing is withdrawn")
                        };
                        templates.insert(template.id, template);
                    }
                }
                Set::Data { template, body } => {
                    let template: &Template = &templates[&template];
                    for record in template.records(body) {
                        records += 1;
                        let into = if template.is_options() {
                            &mut options
                        } else {
                            &mut data
                        };
                        into.push(record.unwrap().fields().map(show).collect());
                    }
                }
                Set::Reserved(id) => panic!("set {id}"),
            }
        }
        assert_eq!(records, encoded.records);
    }
    (data, options)
}

fn show((field, bytes): (&crate::wire::FieldSpecifier, &[u8])) -> String {
    let (name, data_type) = match field.enterprise {
        None => iana_element(field.element).map(|element| (element.name, element.data_type)),
        Some(_) if field.element == 340 => Some(("community_id".into(), DataType::Text)),
        Some(_) => None,
    }
    .unwrap_or((format!("own{}", field.element).into(), DataType::Unsigned64));
    match DataValue::read(data_type, bytes) {
        DataValue::Unsigned(number) => format!("{name}={number}"),
        DataValue::Text(text) => format!("{name}={text}"),
        DataValue::Address(address) => format!("{name}={address}"),
        DataValue::Time(ns) => format!("{name}={ns}"),
        other => format!("{name}={other:?}"),
    }
}

#[test]
fn records_come_back_as_they_went() {
    let mut exporter = Exporter::new(&ExporterSettings::default());
    exporter.record(&example("10.0.0.1", Some(20), Some("eth0")), NOW);
    exporter.record(&example("fd00::1", None, None), NOW);
    exporter.record(&example("10.0.0.2", Some(30), Some("")), NOW);
    exporter.flush();
    let (data, options) = decode(exporter.outgoing());
    let id = example("10.0.0.1", None, None).flow.community_id();
    assert_eq!(
        data[0],
        [
            "observationTimeNanoseconds=1795176000123456789",
            "protocolIdentifier=6",
            "sourceIPv4Address=10.0.0.1",
            "sourceTransportPort=5000",
            "destinationIPv4Address=10.0.0.1",
            "destinationTransportPort=443",
            &format!("community_id={id}"),
            "own7=20",
            "interfaceName=eth0",
        ]
    );
    assert_eq!(data[1][2], "sourceIPv6Address=fd00::1");
    assert_eq!(data[1].len(), 7);
    assert_eq!(data[2][8], "interfaceName=");
    assert_eq!(options[0][1], "informationElementId=340");
    assert_eq!(options[0][2], "informationElementDataType=13");
    assert_eq!(options[0][5], "informationElementName=community_id");
    assert_eq!(
        options[1..2],
        [[
            "privateEnterpriseNumber=32473",
            "informationElementId=7",
            "informationElementDataType=4",
            "informationElementSemantics=1",
            "informationElementUnits=8",
            "informationElementName=rtt_ns",
            "informationElementDescription=How long.",
        ]]
    );
    // Of which kind and field all of this is: three more elements, the fields of all elements, and
    // two templates.
    assert_eq!(options[2][5], "informationElementName=record_kind");
    assert_eq!(options.len(), 2 + 3 + 11 + 2);
    assert_eq!(fields_without_element(Example::SCHEMA), ["secret"]);
    assert_eq!(exporter.counts().records, 3);
}

record! {
    /// What was in an interval.
    #[record = "interval"]
    struct Interval {
        /// Its end.
        #[field(ipfix = 325, fold = Fold::End)]
        pub time: Time,
        /// Its length.
        #[field(own_ipfix = 103, fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// How many.
        #[field(ipfix = 2, fold = Fold::Sum)]
        pub packets: Option<u64>,
    }
}

#[test]
fn collectors_of_flows_learn_when_an_interval_was() {
    let settings = ExporterSettings {
        most_variants: 1,
        ..ExporterSettings::default()
    };
    let mut exporter = Exporter::new(&settings);
    for packets in [None, Some(7)] {
        let interval = Interval {
            time: NOW,
            duration_ns: Nanoseconds(10_000_000_000),
            packets,
        };
        exporter.record(&interval, NOW);
    }
    exporter.flush();
    let (data, _) = decode(exporter.outgoing());
    let expected = [
        "observationTimeNanoseconds=1795176000123456789",
        "own103=10000000000",
        "flowStartMilliseconds=1795175990123000000",
        "flowEndMilliseconds=1795176000123000000",
    ];
    // The second has no template of its own.
    assert_eq!(data, [expected, expected]);
}

#[test]
fn the_name_of_the_domain_goes_before_all_else_and_is_in_no_record() {
    for (text_bytes, message_bytes) in [(None, 50), (Some(32), 74)] {
        let mut exporter = Exporter::new(&ExporterSettings {
            domain: 7,
            domain_name: Some("gateway".to_owned()),
            text_bytes,
            ..ExporterSettings::default()
        });
        assert_eq!(exporter.outgoing_len(), 0);
        for _ in 0..2 {
            exporter.record(&example("10.0.0.1", None, None), NOW);
        }
        exporter.flush();
        let outgoing: Vec<_> = exporter.outgoing().collect();
        let (data, options) = decode(outgoing.clone().into_iter());
        let expected = ["observationDomainId=7", "observationDomainName=gateway"];
        assert_eq!(options[0], expected);
        let all = data.iter().chain(&options[1..]).flatten();
        assert_eq!(all.filter(|value| value.contains("gateway")).count(), 0);
        assert_eq!(data.len(), 2);
        // With its template, and to be told again with the others.
        let Outgoing::Announcement(first) = &outgoing[0] else {
            panic!("{outgoing:?}")
        };
        assert_eq!((first.records, first.bytes.len()), (1, message_bytes));
    }
    let mut exporter = Exporter::new(&ExporterSettings {
        domain_name: Some("gateway".to_owned()),
        ..ExporterSettings::new(TemplateSet::Flowcorder)
    });
    exporter.record(&example("10.0.0.1", None, None), NOW);
    assert_eq!(exporter.outgoing_len(), 0);
}

#[test]
fn templates_are_bounded_and_what_is_left_out_is_counted() {
    let mut exporter = Exporter::new(&ExporterSettings {
        most_variants: 2,
        ..ExporterSettings::default()
    });
    exporter.record(&example("10.0.0.1", None, None), NOW);
    exporter.record(&example("10.0.0.1", None, Some("eth0")), NOW);
    exporter.record(&example("10.0.0.1", Some(1), Some("eth1")), NOW);
    exporter.record(&example("fd00::1", None, None), NOW);
    exporter.flush();
    let (data, _) = decode(exporter.outgoing());
    assert_eq!(data.len(), 3);
    assert_eq!(data[2].last().unwrap(), "interfaceName=eth1");
    assert_eq!(data[2].len(), 8);
    let counts = exporter.counts();
    assert_eq!((counts.omitted_values, counts.refused_records), (1, 1));
}

#[test]
fn messages_end_at_their_limit_and_at_their_time() {
    let settings = ExporterSettings {
        message_bytes: 290,
        ..ExporterSettings::default()
    };
    let mut exporter = Exporter::new(&settings);
    for _ in 0..20 {
        exporter.record(&example("fd00::1", Some(20), Some("eth0")), NOW);
    }
    let messages: Vec<_> = exporter.outgoing().collect();
    let is_data = |message: &&Outgoing| matches!(message, Outgoing::Data(_));
    assert_eq!(messages.iter().filter(is_data).count(), 6);
    for message in &messages {
        let (Outgoing::Announcement(encoded) | Outgoing::Data(encoded)) = message;
        assert!(encoded.bytes.len() <= 290);
    }
    // The last two records wait for others.
    assert_eq!(exporter.due(), Some(Time(NOW.0 + 1_000_000_000)));
    exporter.tick(Time(NOW.0 + 999_999_999));
    assert_eq!(exporter.outgoing().count(), 0);
    exporter.tick(Time(NOW.0 + 1_000_000_000));
    assert_eq!(exporter.outgoing().count(), 1);
    assert_eq!(exporter.due(), None);
    // A record too large for any message of this size has one of its own.
    exporter.record(&example("10.0.0.1", None, Some(&"x".repeat(500))), NOW);
    exporter.flush();
    let last = exporter.outgoing().last();
    assert!(matches!(last, Some(Outgoing::Data(data)) if data.bytes.len() > 500));
}

record! {
    /// A part of a profile.
    #[record = "profile"]
    pub(crate) struct Profile {
        /// The end.
        #[field(ipfix = 157)]
        pub time: Time,
        /// The start.
        #[field(ipfix = 156)]
        pub start_time: Time,
        /// Who.
        pub flow: FlowKey,
        /// Which.
        pub connection: u64,
        /// At first.
        pub start_state: &'static str,
        /// At last.
        pub end_state: &'static str,
        /// RTT.
        pub srtt_ns: Option<Nanoseconds>,
        /// Duplicates.
        pub packets_duplicate: u64,
        /// Partial ones.
        pub packets_partially_duplicate: u64,
        /// Who owns it.
        pub process: Option<&'static str>,
        /// Its number.
        pub pid: Option<u32>,
        /// The path.
        pub mptcp_token: Option<u32>,
        /// Its number.
        pub path_index: Option<u8>,
    }
}

#[test]
fn flowcorder_has_its_own_templates() {
    let mut exporter = Exporter::new(&ExporterSettings::new(TemplateSet::Flowcorder));
    let mut profile = Profile {
        time: NOW,
        start_time: Time(NOW.0 - 1_000_000_000),
        flow: example("10.0.0.1", None, None).flow,
        connection: u64::MAX,
        start_state: "NEW",
        end_state: "UNREACHABLE",
        srtt_ns: Some(Nanoseconds(20_900_000)),
        packets_duplicate: 3,
        packets_partially_duplicate: 1,
        process: Some("curl"),
        pid: Some(77),
        mptcp_token: None,
        path_index: None,
    };
    exporter.record(&profile, NOW);
    profile.flow = example("fd00::1", None, None).flow;
    (profile.mptcp_token, profile.path_index) = (Some(1), Some(2));
    exporter.record(&profile, NOW);
    exporter.record(&example("10.0.0.1", None, None), NOW);
    exporter.flush();
    let outgoing: Vec<_> = exporter.outgoing().collect();
    let Outgoing::Announcement(first) = &outgoing[0] else {
        panic!("templates first")
    };
    let (message, _) = Message::split(&first.bytes).unwrap();
    assert_eq!(message.header.domain, 56_423);
    let (data, options) = decode(outgoing.into_iter());
    assert!(options.is_empty());
    assert_eq!(data.len(), 2);
    for expected in [
        "own1=1",
        "flowEndReason=6",
        "own5=20",
        "own6=4",
        "applicationName=curl/77",
        "interfaceName=",
        "selectorId=9223372036854775807",
        "flowEndMicroseconds=1795176000123456001",
    ] {
        let name = expected.split('=').next().unwrap();
        let found = data[0]
            .iter()
            .find(|value| value.starts_with(&format!("{name}=")));
        let found = found.unwrap_or_else(|| panic!("{name} is there"));
        if name == "flowEndMicroseconds" {
            assert!(
                found.starts_with("flowEndMicroseconds=1795176000123456"),
                "{found}"
            );
        } else {
            assert_eq!(found, expected);
        }
    }
    assert!(data[1].contains(&"own19=2".to_owned()));
    assert!(data[1].contains(&"sourceIPv6Address=fd00::1".to_owned()));
    assert_eq!(exporter.counts().refused_records, 1);
}
