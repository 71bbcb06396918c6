//! The templates of Flowcorder 0.8, as its source has them, filled by real connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fathom_ipfix::wire::{FieldSpecifier, Message, Set, Template, TemplateChange};
use fathom_tests::Profile;

use crate::collectors::namespace;
use crate::profiles::messages;
use crate::traffic::Printed;

const DOMAIN: u32 = 56_423;
const ENTERPRISE: u32 = 65_534;

/// Bytes of its 19 elements. It never sends 13 and 15, what came in by reinjections.
const OWN: [(u16, u16); 17] = [
    (1, 1),  // flowStartReason
    (2, 8),  // transferredOctetTotalCount
    (3, 8),  // receivedOctetTotalCount
    (4, 4),  // retransmittedPacketTotalCount
    (5, 2),  // meanLatencyMilliseconds
    (6, 4),  // duplicatePacketTotalCount
    (7, 8),  // duplicateOctetTotalCount
    (8, 2),  // stallCount
    (9, 4),  // reorderingPacketCount
    (10, 8), // reorderingOctetCount
    (11, 4), // meanReorderingDistance
    (12, 4), // varReorderingDistance
    (14, 8), // reinjectionOctetOut
    (16, 4), // reinjectionPacketOut
    (17, 1), // subflowCount
    (18, 4), // rcvBufOctetCount
    (19, 1), // pathIndex
];

const STATES: [&str; 7] = [
    "NEW",
    "ESTABLISHED",
    "UPDATE",
    "FINISHED",
    "BROKEN",
    "UNREACHABLE",
    "DESYNC",
];

/// A record of data by its template's number, with the numbers in it by element: the enterprise's,
/// or IANA's.
type Found = (u16, BTreeMap<(bool, u16), u64>);

/// Reads messages; checks the templates.
fn read(messages: &[Vec<u8>]) -> Vec<Found> {
    let mut templates = HashMap::<u16, Template>::new();
    let mut found = Vec::new();
    for bytes in messages {
        let (message, behind) = Message::split(bytes).unwrap();
        assert!(behind.is_empty());
        assert_eq!(message.header.domain, DOMAIN);
        for set in message.sets() {
            match set.unwrap() {
                Set::Templates(changes) => {
                    for change in changes {
                        let TemplateChange::Defined(template) = change else {
                            panic!("{change:?}");
                        };
                        check_template(&template);
                        templates.insert(template.id, template);
                    }
                }
                Set::Data { template, body } => {
                    let records = templates[&template].records(body);
                    found.extend(records.map(|record| {
                        let fields = record.unwrap().fields();
                        (template, fields.map(number).collect())
                    }));
                }
                Set::Reserved(_) => {}
            }
        }
    }
    found
}

/// By length, variable ones last; nothing of others' but what IANA has.
fn check_template(template: &Template) {
    assert!((47_561..=47_567).contains(&template.id), "{template:?}");
    assert_eq!(template.scope_fields, 0);
    let lengths = template.fields.iter().map(|field| field.length);
    assert!(lengths.is_sorted(), "{template:?}");
    for field in &template.fields {
        if let Some(enterprise) = field.enterprise {
            assert_eq!(enterprise, ENTERPRISE);
            assert!(OWN.contains(&(field.element, field.length)), "{field:?}");
        }
    }
}

/// The element of a field, and the last eight bytes of it as a number.
fn number((specifier, bytes): (&FieldSpecifier, &[u8])) -> ((bool, u16), u64) {
    let tail = &bytes[bytes.len().saturating_sub(8)..];
    let value = tail
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    ((specifier.enterprise.is_some(), specifier.element), value)
}

/// The template that a record belongs to.
fn template_of((kind, profile): &Printed) -> u16 {
    let is_ipv6 = u16::from(profile.local().unwrap().is_ipv6());
    match *kind {
        "profile_mptcp" => 47_563,
        "profile_dns" => 47_566 + is_ipv6,
        _ if profile.get("mptcp_token").is_some() => 47_564 + is_ipv6,
        _ => 47_561 + is_ipv6,
    }
}

/// The numbers that a printed record should have there.
fn wanted((kind, profile): &Printed) -> BTreeMap<(bool, u16), u64> {
    let value = |name: &str| number_of(profile, name);
    let state = |name: &str| {
        let state = STATES.iter().position(|state| *state == profile.text(name));
        state.unwrap() as u64 + 1
    };
    let (is_meta, is_dns) = (*kind == "profile_mptcp", *kind == "profile_dns");
    let mut wanted = BTreeMap::from([
        ((true, 1), state("start_state")),
        ((false, 136), state("end_state")),
        ((true, 2), value("bytes_acknowledged")),
        ((true, 3), value("bytes_received")),
        (
            (true, 4),
            value(if is_dns {
                "retries"
            } else {
                "packets_retransmitted"
            }),
        ),
    ]);
    if !is_meta {
        let latency_ns = value(if is_dns { "latency_ns" } else { "srtt_ns" });
        wanted.insert((true, 5), latency_ns / 1_000_000);
        wanted.insert((false, 7), value("source_port"));
        wanted.insert((false, 11), value("destination_port"));
    }
    if !is_dns {
        wanted.extend([
            ((false, 302), value("connection")),
            ((false, 134), value("bytes_retransmitted")),
            ((true, 8), value("stalls")),
            ((true, 9), value("packets_out_of_order")),
            ((true, 10), value("bytes_out_of_order")),
            ((true, 11), value("out_of_order_distance_mean_bytes")),
            ((true, 12), value("out_of_order_distance_variance")),
        ]);
    }
    if is_meta {
        wanted.extend([
            ((true, 14), value("bytes_reinjected")),
            ((true, 17), value("additional_subflows") + 1),
            ((true, 18), value("receive_buffer_bytes")),
        ]);
    } else if !is_dns {
        let sum = |whole: &str, partial: &str| value(whole) + value(partial);
        wanted.extend([
            (
                (true, 6),
                sum("packets_duplicate", "packets_partially_duplicate"),
            ),
            (
                (true, 7),
                sum("bytes_duplicate", "bytes_partially_duplicate"),
            ),
            ((false, 26), value("mss_bytes")),
            ((false, 385), value("jitter_ns") / 1_000_000),
        ]);
    }
    if profile.get("path_index").is_some() {
        wanted.insert((true, 19), value("path_index"));
    }
    wanted
}

/// The value of a field, zero where the record has none, rounded.
fn number_of(profile: &Profile, name: &str) -> u64 {
    let rounded = || {
        let value = profile.get(name).and_then(serde_json::Value::as_f64);
        format!("{:.0}", value.unwrap_or(0.0)).parse().unwrap()
    };
    profile.number(name).unwrap_or_else(rounded)
}

#[fathom_lab::test]
fn flowcorders_templates_hold_what_was_printed() {
    let Some(namespace) = namespace(&[]) else {
        return;
    };
    let (messages, printed) = messages(&namespace, &["--templates", "flowcorder"]);
    let found = read(&messages);
    assert_eq!(found.len(), printed.len());
    for ((template, numbers), printed) in found.iter().zip(&printed) {
        assert_eq!(*template, template_of(printed));
        for (element, wanted) in wanted(printed) {
            assert_eq!(
                numbers.get(&element),
                Some(&wanted),
                "{element:?} of {printed:?}"
            );
        }
    }
    let has_mptcp = printed.iter().any(|(kind, _)| *kind == "profile_mptcp");
    if !has_mptcp {
        println!("skipped: MPTCP, which this kernel does not have");
        return;
    }
    let used: BTreeSet<u16> = found.iter().map(|(template, _)| *template).collect();
    assert_eq!(used, (47_561..=47_567).collect());
    let own: BTreeSet<u16> = found
        .iter()
        .flat_map(|(_, numbers)| numbers.keys())
        .filter_map(|(is_own, element)| is_own.then_some(*element))
        .collect();
    assert_eq!(own, OWN.iter().map(|(element, _)| *element).collect());
}
