//! What the exporter sends is what the collector gets; what anybody sends is survived.

use fathom_record::Time;
use proptest::prelude::*;

use super::*;
use crate::export::tests::{Example, example};
use crate::wire::{MessageWriter, Template};
use crate::{Exporter, ExporterSettings, Refresh};

const NOW: Time = Time(1_795_176_000_123_456_789);

fn session() -> Session {
    Session {
        exporter: "192.0.2.1:4739".parse().unwrap(),
        connection: 0,
    }
}

/// The bytes of an export of `count` records, message by message.
fn export(count: usize) -> Vec<Vec<u8>> {
    let mut exporter = Exporter::new(&ExporterSettings {
        message_bytes: 576,
        ..ExporterSettings::default()
    });
    for index in 0..count {
        let source = if index % 2 == 0 {
            "10.0.0.1"
        } else {
            "fd00::1"
        };
        exporter.record(&example(source, Some(index as u64), Some("eth0")), NOW);
    }
    exporter.flush();
    let mut session = crate::OutgoingQueue::new(Some(Refresh::default()), 1 << 20);
    session.connected();
    for outgoing in exporter.outgoing() {
        session.push(outgoing);
    }
    let mut messages = Vec::new();
    while let Some(message) = session.next(NOW) {
        messages.push(message.bytes.clone());
        session.sent(NOW);
    }
    messages
}

fn collect(collector: &mut Collector, message: &[u8]) -> Vec<Vec<(String, String)>> {
    let mut records = Vec::new();
    let mut take = |record: Collected<'_>| {
        if !record.is_options() {
            let fields = record.fields();
            records.push(
                fields
                    .map(|field| (field.name.into_owned(), format!("{:?}", field.value)))
                    .collect(),
            );
        }
    };
    let _ = collector.messages(session(), message, &mut take);
    records
}

#[test]
fn records_of_our_exporter_come_back_by_kind_and_field() {
    let mut collector = Collector::new(Limits::default());
    let mut seen = 0;
    for message in export(20) {
        let mut take = |record: Collected<'_>| {
            if record.is_options() {
                return;
            }
            let table = record.table().unwrap();
            assert_eq!(table.kind, "example");
            let value = |name: &str| {
                let position = table.columns.iter().position(|(own, _)| own == name);
                let mut values = record.values();
                values.find(|(at, _)| Some(*at) == position).unwrap().1
            };
            assert_eq!(value("time"), Value::Time(NOW.0));
            assert_eq!(value("rtt_ns"), Value::Duration(seen));
            assert_eq!(
                value("protocol"),
                Value::Protocol(fathom_record::Protocol::TCP)
            );
            seen += 1;
        };
        collector.messages(session(), &message, &mut take).unwrap();
    }
    assert_eq!(seen, 20);
}

#[test]
fn own_elements_have_the_names_that_were_told() {
    let mut collector = Collector::new(Limits::default());
    let mut records = Vec::new();
    for message in export(20) {
        records.extend(collect(&mut collector, &message));
    }
    assert_eq!(records.len(), 20);
    let own = ("rtt_ns".to_owned(), "Unsigned(7)".to_owned());
    assert!(records[7].contains(&own), "{:?}", records[7]);
    let counts = collector.counts();
    assert_eq!((counts.records, counts.options), (20, 2 + 3 + 11 + 2));
    assert_eq!((counts.lost_records, counts.malformed), (0, 0));
    assert_eq!(counts.unknown_sets, 0);
}

#[test]
fn lost_messages_and_templates_are_counted() {
    let messages = export(40);
    let mut collector = Collector::new(Limits::default());
    // A set of templates stands first in its message, behind the header.
    let is_template = |message: &Vec<u8>| message[16..18] == [0, 2];
    let first = messages.iter().position(is_template).unwrap();
    for message in &messages[first + 1..] {
        collect(&mut collector, message);
    }
    // The first template was lost, the second came: half of the records have none.
    let unknown = collector.counts();
    assert!(unknown.unknown_sets > 0);
    assert_eq!(unknown.records, 20);

    let mut collector = Collector::new(Limits::default());
    for (index, message) in messages.iter().enumerate() {
        if index != messages.len() - 3 {
            collect(&mut collector, message);
        }
    }
    let counts = collector.counts();
    assert!(counts.lost_records > 0);
    assert_eq!(counts.records + counts.lost_records, 40);
}

#[test]
fn names_may_come_from_schemas_or_not_at_all() {
    let mut collector = Collector::new(Limits {
        names: 0,
        ..Limits::default()
    });
    let name_of_own = |collector: &mut Collector| {
        let mut records = Vec::new();
        for message in export(1) {
            records.extend(collect(collector, &message));
        }
        records[0][7].0.clone()
    };
    assert_eq!(name_of_own(&mut collector), "e32473id7");
    collector.know(&[Example::SCHEMA], 32_473);
    assert_eq!(name_of_own(&mut collector), "rtt_ns");
}

#[test]
fn memory_is_bounded() {
    let limits = Limits {
        domains: 2,
        fields: 3,
        names: 1,
        ..Limits::default()
    };
    let mut collector = Collector::new(limits);
    let field = FieldSpecifier {
        enterprise: None,
        element: 4,
        length: 1,
    };
    for domain in 0..3 {
        let mut writer = MessageWriter::new(domain, 1232);
        for id in [256, 257] {
            let fields = vec![field; 2];
            writer.template(&Template {
                id,
                scope_fields: 0,
                fields,
            });
        }
        collect(&mut collector, &writer.finish().unwrap().bytes);
    }
    assert_eq!(collector.counts().refused_templates, 3);
    let data = |domain| {
        let mut writer = MessageWriter::new(domain, 1232);
        writer.record(256, &[6, 17]);
        writer.finish().unwrap().bytes
    };
    assert_eq!(collect(&mut collector, &data(2)).len(), 1);
    assert_eq!(collect(&mut collector, &data(0)).len(), 0);
    assert_eq!(collector.counts().unknown_sets, 1);
    collector.forget(session(), false);
    assert_eq!(collect(&mut collector, &data(2)).len(), 0);
}

/// Writes what the fuzz target starts from, when `FATHOM_CORPUS` says where: an export, message by
/// message and in one piece.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("FATHOM_CORPUS") else {
        println!("skipped: FATHOM_CORPUS does not say where the corpus goes");
        return;
    };
    let folder = std::path::Path::new(&folder).join("ipfix");
    std::fs::create_dir_all(&folder).unwrap();
    let messages = export(12);
    std::fs::write(folder.join("all"), messages.concat()).unwrap();
    for (index, message) in messages.iter().enumerate() {
        std::fs::write(folder.join(format!("message-{index}")), message).unwrap();
    }
}

proptest! {
    #[test]
    fn any_damage_is_survived(
        damage in proptest::collection::vec((0..6_usize, any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut messages = export(12);
        for (message, index, byte) in damage {
            let count = messages.len();
            let message = &mut messages[message % count];
            let at = index.index(message.len());
            message[at] = byte;
        }
        let mut collector = Collector::new(Limits { domains: 2, fields: 100, names: 3, ..Limits::default() });
        for message in &messages {
            collect(&mut collector, message);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut message = vec![0, 10];
        message.extend((bytes.len() as u16 + 4).to_be_bytes());
        message.extend(bytes);
        collect(&mut Collector::default(), &message);
    }
}

#[test]
fn templates_of_datagrams_have_a_lifetime() {
    let lifetime = Duration::from_secs(1_800);
    let messages = export(10);
    let after = |time: Duration| Time(u64::try_from(time.as_nanos()).unwrap());
    let mut collector = Collector::new(Limits::default());
    for message in &messages {
        collect(&mut collector, message);
    }
    let known = collector.counts().records;
    let last = messages.last().unwrap();
    let records_at = |collector: &mut Collector, time| {
        collector.advance(time);
        let before = collector.counts();
        collect(collector, last);
        let now = collector.counts();
        (
            now.records - before.records,
            now.unknown_sets - before.unknown_sets,
        )
    };
    // Young to the end, and told again.
    let one_before = Time(after(lifetime).0 - 1);
    let (records, unknown) = records_at(&mut collector, one_before);
    assert!(records > 0 && unknown == 0);
    for message in &messages {
        collect(&mut collector, message);
    }
    assert_eq!(collector.counts().expired_templates, 0);
    assert!(records_at(&mut collector, after(lifetime)).0 > 0);
    let (records, unknown) = records_at(&mut collector, after(2 * lifetime));
    assert!(records == 0 && unknown > 0);
    assert!(collector.counts().expired_templates > 0);
    // Where there is none they stay.
    let mut collector = Collector::new(Limits {
        template_lifetime: Duration::ZERO,
        ..Limits::default()
    });
    for message in &messages {
        collect(&mut collector, message);
    }
    assert_eq!(collector.counts().records, known);
    assert!(records_at(&mut collector, after(1_000 * lifetime)).0 > 0);
}
