//! What the writers write reads back as the values that went in.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::IpAddr;

use fathom_record::format::Format;
use fathom_record::{FlowKey, Nanoseconds, Network, Protocol, Record, Time, Unit, Value, record};
use proptest::prelude::*;

record! {
    /// A record with a field of every type.
    #[record = "every"]
    #[derive(Debug, Clone)]
    pub struct Every {
        /// When.
        pub time: Time,
        /// Whose packet.
        pub flow: FlowKey,
        /// How.
        #[field(bare)]
        pub method: String,
        /// How long.
        pub rtt_ns: Nanoseconds,
        /// How long at least.
        #[field(label = "min")]
        pub rtt_min_ns: Option<Nanoseconds>,
        /// How much.
        #[field(unit = Unit::Bytes)]
        pub sent_bytes: u64,
        /// How full.
        pub load: Option<f64>,
        /// Whether again.
        pub retransmitted: bool,
        /// Near what.
        pub network: Option<Network>,
        /// Since when.
        #[field(absent)]
        pub since: Option<Time>,
        /// Which tag.
        pub vlan: Option<u16>,
        /// Where.
        #[field(bare)]
        pub interface: Option<&'static str>,
    }
}

record! {
    /// A record of another kind, without time and without flow.
    #[record = "other, \"odd\" one"]
    pub struct Other {
        /// Who, perhaps.
        pub flow: Option<FlowKey>,
        /// How many.
        pub count: u64,
    }
}

fn flow(source: &str, destination: &str) -> FlowKey {
    FlowKey {
        protocol: Protocol::TCP,
        source: source.parse().unwrap(),
        source_port: 5000,
        destination: destination.parse().unwrap(),
        destination_port: 443,
    }
}

fn sample() -> Every {
    Every {
        time: Time(1_795_178_096_123_456_789),
        flow: flow("10.0.0.1", "10.0.1.1"),
        method: "timestamp".to_owned(),
        rtt_ns: Nanoseconds(20_113_000),
        rtt_min_ns: Some(Nanoseconds(20_031_000)),
        sent_bytes: 1200,
        load: None,
        retransmitted: false,
        network: None,
        since: Some(Time(1_000_000_000)),
        vlan: None,
        interface: Some("eth0"),
    }
}

fn written(format: Format, records: &[&dyn Record]) -> String {
    let mut sink = format.sink();
    let mut out = Vec::new();
    for record in records {
        sink.write(*record, &mut out);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn text_is_for_people() {
    let mut every = sample();
    let line = "12:34:56.123456+00:00 every  tcp 10.0.0.1:5000 > 10.0.1.1:443  timestamp  rtt 20.11 ms  min 20.03 ms  sent 1200 B  eth0\n";
    assert_eq!(written(Format::Text, &[&every]), line);

    every.flow = flow("2001:db8::1", "::1");
    every.method = "a\u{1b}[31m\n\u{9b}é".to_owned();
    every.rtt_min_ns = None;
    every.load = Some(0.25);
    every.retransmitted = true;
    every.network = "10.0.0.0/8".parse().ok();
    let line = "12:34:56.123456+00:00 every  tcp [2001:db8::1]:5000 > [::1]:443  a\\u{1b}[31m\\n\\u{9b}é  rtt 20.11 ms  sent 1200 B  \
                load 0.250  retransmitted  network 10.0.0.0/8  eth0\n";
    assert_eq!(written(Format::Text, &[&every]), line);

    let gre = FlowKey {
        protocol: Protocol(47),
        source_port: 0,
        destination_port: 0,
        ..flow("::1", "::2")
    };
    let other = Other {
        flow: Some(gre),
        count: 3,
    };
    let line = format!("other, \"odd\" one  {gre}  count 3\n");
    assert_eq!(written(Format::Text, &[&other]), line);
    assert_eq!(
        written(
            Format::Text,
            &[&Other {
                flow: None,
                count: 3
            }]
        ),
        "other, \"odd\" one  count 3\n"
    );
}

#[test]
fn json_is_an_object_a_line() {
    let id = sample().flow.community_id();
    let line = "{\"kind\":\"every\",\"time\":\"2026-11-20T12:34:56.123456789Z\",\"protocol\":\"tcp\",\"source\":\"10.0.0.1\",\
                \"source_port\":5000,\"destination\":\"10.0.1.1\",\"destination_port\":443,\"community_id\":\"{id}\",\"method\":\"timestamp\",\
                \"rtt_ns\":20113000,\"rtt_min_ns\":20031000,\"sent_bytes\":1200,\"retransmitted\":false,\
                \"since\":\"1970-01-01T00:00:01.000000000Z\",\"interface\":\"eth0\"}\n";
    let line = line.replace("{id}", &id.to_string());
    assert_eq!(written(Format::Json, &[&sample()]), line);
    let mut of_host = Vec::new();
    let mut sink = Format::Json.sink_of("a \"host\"", |_| 0);
    sink.write(&sample(), &mut of_host);
    let expected = line.replace("\"every\",", r#""every","host":"a \"host\"","#);
    assert_eq!(String::from_utf8(of_host).unwrap(), expected);
    let mut strange = sample();
    strange.load = Some(f64::NAN);
    assert!(written(Format::Json, &[&strange]).contains("\"load\":null,"));
}

#[test]
fn csv_has_a_header_for_each_kind() {
    let other = Other {
        flow: None,
        count: 3,
    };
    let id = sample().flow.community_id();
    let every = format!(
        "every,2026-11-20T12:34:56.123456789Z,tcp,10.0.0.1,5000,10.0.1.1,443,{id},timestamp,20113000,20031000,1200,,false,,\
         1970-01-01T00:00:01.000000000Z,,eth0\n"
    );
    let lines = format!(
        "kind,time,protocol,source,source_port,destination,destination_port,community_id,method,rtt_ns,rtt_min_ns,sent_bytes,load,retransmitted,\
         network,since,vlan,interface\n{every}kind,protocol,source,source_port,destination,destination_port,community_id,count\n\
         \"other, \"\"odd\"\" one\",,,,,,,3\n{every}"
    );
    assert_eq!(written(Format::Csv, &[&sample(), &other, &sample()]), lines);
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("xml".parse::<Format>().is_err());
}

prop_compose! {
    fn any_flow()(protocol: u8, source: IpAddr, source_port: u16, destination: IpAddr, destination_port: u16) -> FlowKey {
        FlowKey { protocol: Protocol(protocol), source, source_port, destination, destination_port }
    }
}

prop_compose! {
    fn any_record()(
        (time, since) in any::<(u64, Option<u64>)>(),
        flow in any_flow(),
        method in any::<String>(),
        (rtt_ns, rtt_min_ns, sent_bytes) in any::<(u64, Option<u64>, u64)>(),
        load in proptest::option::of(any::<f64>()),
        retransmitted in any::<bool>(),
        network in proptest::option::of((any::<IpAddr>(), 0_u8..=32).prop_map(|(address, length)| Network::new(address, length).unwrap())),
        vlan in any::<Option<u16>>(),
    ) -> Every {
        Every {
            time: Time(time),
            flow,
            method,
            rtt_ns: Nanoseconds(rtt_ns),
            rtt_min_ns: rtt_min_ns.map(Nanoseconds),
            sent_bytes,
            load,
            retransmitted,
            network,
            since: since.map(Time),
            vlan,
            interface: Some("\"quoted, named\""),
        }
    }
}

/// The value as the texts that JSON and CSV have inside of their quotes; `None` for one that is
/// missing.
fn expected(value: Value<'_>) -> Option<String> {
    Some(match value {
        Value::Missing | Value::Histogram(_) => return None,
        Value::Unsigned(number) | Value::Duration(number) => number.to_string(),
        Value::Port(port) => port.to_string(),
        Value::Boolean(answer) => answer.to_string(),
        Value::Text(text) => text.to_owned(),
        Value::Address(address) => address.to_string(),
        Value::Protocol(protocol) => protocol.to_string(),
        Value::Network(network) => network.to_string(),
        Value::CommunityId(id) => id.to_string(),
        Value::Float(_) | Value::Time(_) => unreachable!("compared as numbers"),
    })
}

/// Reads a time back by another way than it was written: days are counted from the calendar.
fn nanoseconds_of(time: &str) -> u64 {
    let number = |from: usize, to: usize| time[from..to].parse::<u64>().unwrap();
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (year, month) = (number(0, 4), number(5, 7) as usize);
    let months = [
        31,
        if is_leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let years: u64 = (1970..year)
        .map(|year| if is_leap(year) { 366 } else { 365 })
        .sum();
    let days = years + months[..month - 1].iter().sum::<u64>() + number(8, 10) - 1;
    assert_eq!((&time[10..11], &time[19..20], &time[29..]), ("T", ".", "Z"));
    (((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60 + number(17, 19)) * 1_000_000_000
        + number(20, 29)
}

fn is_same(value: Value<'_>, text: Option<&str>) -> bool {
    match (value, text) {
        (Value::Float(number), Some(text)) if number.is_finite() => text.parse() == Ok(number),
        (Value::Float(number), text) => !number.is_finite() && text.is_none(),
        (Value::Time(ns), Some(text)) => nanoseconds_of(text) == ns,
        (Value::Time(_), None) => false,
        (value, text) => expected(value).as_deref() == text,
    }
}

proptest! {
    #[test]
    fn json_reads_back(record in any_record()) {
        let line = written(Format::Json, &[&record]);
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(&object["kind"], "every");
        for (index, field) in Every::SCHEMA.fields.iter().enumerate() {
            let text = match object.get(field.name) {
                None | Some(serde_json::Value::Null) => None,
                Some(serde_json::Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
            };
            prop_assert!(is_same(record.value(index), text.as_deref()), "{}: {:?}", field.name, text);
        }
        let present = (0..Every::SCHEMA.fields.len()).filter(|&index| record.value(index) != Value::Missing).count();
        prop_assert_eq!(object.len(), present + 1);
    }

    #[test]
    fn csv_reads_back(records in proptest::collection::vec(any_record(), 1..5)) {
        let records: Vec<&dyn Record> = records.iter().map(|record| record as &dyn Record).collect();
        let text = written(Format::Csv, &records);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names: Vec<&str> = Every::SCHEMA.fields.iter().map(|field| field.name).collect();
        let header = reader.headers().unwrap().clone();
        prop_assert_eq!(header.iter().skip(1).collect::<Vec<_>>(), names);
        let mut lines = reader.records();
        for record in records {
            let line = lines.next().unwrap().unwrap();
            prop_assert_eq!(&line[0], "every");
            for (index, column) in line.iter().skip(1).enumerate() {
                let is_nothing = column.is_empty() && !matches!(record.value(index), Value::Text(_));
                prop_assert!(is_same(record.value(index), (!is_nothing).then_some(column)), "{index}: {column}");
            }
        }
        prop_assert!(lines.next().is_none());
    }

    #[test]
    fn text_is_one_clean_line(record in any_record()) {
        let line = written(Format::Text, &[&record]);
        prop_assert!(line.ends_with('\n') && line.chars().filter(|character| character.is_control()).count() == 1);
        prop_assert!(line.contains(&record.flow.to_string()));
    }
}
