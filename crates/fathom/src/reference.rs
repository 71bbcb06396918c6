//! The reference of all records, from their declarations: docs/records.md, and the manual page
//! fathom-records(7).

use std::fmt::Write as _;

use fathom_ipfix::iana_element;
use fathom_record::{Count, Field, Registry, Schema, Type, Unit};

use crate::doctor::Check;
use crate::{MEASUREMENTS, agent, balance};

/// All kinds of records, by who prints them.
fn kinds() -> impl Iterator<Item = (String, &'static [&'static Schema])> {
    let measured = MEASUREMENTS.iter().map(|it| (it.name, it.kinds));
    let all = measured
        .chain([("agent", agent::KINDS), ("balance", balance::KINDS)])
        .map(|(name, kinds)| (format!("fathom {name}"), kinds));
    all.chain([
        ("all measurements".to_owned(), &[Count::SCHEMA][..]),
        ("fathom doctor".to_owned(), &[Check::SCHEMA][..]),
    ])
}

/// All kinds of records that are kept.
pub(crate) fn kept() -> Vec<&'static Schema> {
    let schemas = kinds().flat_map(|(_, schemas)| schemas.iter().copied());
    schemas
        .filter(|it| !std::ptr::eq(*it, Check::SCHEMA))
        .collect()
}

/// What holds for all of them, a paragraph each.
const COMMON: [&str; 4] = [
    "A name means the same in every record: names are made of the quantity, the statistic if it is one, and the unit (rtt_p99_ns). \
     Times are UTC in JSON and CSV (RFC 3339, nanoseconds), and local, with their offset, in text. Durations are in nanoseconds. \
     A field that a record has nothing to say in is left out of JSON, and empty in CSV. Histograms are kept by --store alone.",
    "Every record in JSON and CSV begins with its kind and with host: who observed it, by default the name of the host, else what --host says. \
     Over IPFIX it is observationDomainName (300) in a record of options whose scope is observationDomainId (149): told before all others, and again with the templates.",
    "Records of a flow have its community_id, which is the same for both directions, in all measurements, and in Zeek, Suricata and Wireshark: \
     by it and by host they join. It is left out where addresses are anonymized.",
    "CSV is a table of one kind, the first of each command below; other kinds go to files of their own beside that of --output. \
     Of IPFIX, numbers are elements of IANA's registry, those with `own` are under the enterprise number that --enterprise-number sets. \
     Records of an interval (rtt_aggregate, response_aggregate, traffic, hop) also have its start and end as flowStartMilliseconds (152) and flowEndMilliseconds (153).",
];

/// docs/records.md.
pub(crate) fn markdown() -> String {
    let mut text = "# Records\n\nGenerated from the declarations by `make reference`; `fathom-records(7)` says the same.\n".to_owned();
    for paragraph in COMMON {
        // Writing to memory does not fail.
        let _ = write!(text, "\n{paragraph}\n");
    }
    for (whose, schemas) in kinds() {
        let _ = write!(text, "\n## {whose}\n");
        for schema in schemas {
            let _ = write!(text, "\n### `{}`\n\n{}\n\n", schema.kind, schema.about);
            text.push_str("| field | type | unit | IPFIX | what it is |\n|---|---|---|---|---|\n");
            for field in schema.fields {
                let _ = writeln!(
                    text,
                    "| `{}` | {} | {} | {} | {} |",
                    field.name,
                    type_name(field.kind),
                    unit_name(field.unit),
                    element_name(field),
                    field.about.replace('|', "\\|")
                );
            }
        }
    }
    text
}

/// The families of metrics, in docs/metrics.md.
pub(crate) fn metrics() -> String {
    crate::metrics::table(kinds().flat_map(|(_, schemas)| schemas.iter().copied()))
}

pub(crate) fn manual_page() -> String {
    let mut text = ".TH fathom-records 7\n.SH NAME\nfathom-records \\- what the records of fathom hold\n.SH DESCRIPTION\n".to_owned();
    for paragraph in COMMON {
        let _ = write!(text, "{}\n.PP\n", roff(paragraph));
    }
    for (whose, schemas) in kinds() {
        let _ = writeln!(text, ".SH \"{}\"", whose.to_uppercase());
        for schema in schemas {
            let _ = writeln!(text, ".SS {}\n{}", schema.kind, roff(schema.about));
            for field in schema.fields {
                let words = [type_name(field.kind), unit_name(field.unit)];
                let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
                let element = match element_name(field) {
                    none if none.is_empty() => none,
                    element => format!(", IPFIX {element}"),
                };
                let _ = writeln!(
                    text,
                    ".TP\n.B {}\n({}{element}) {}",
                    field.name,
                    words.join(", "),
                    roff(field.about)
                );
            }
        }
    }
    text
}

/// With nothing that roff would take for its own.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.as_bytes().first() {
        Some(b'.' | b'\'') => format!("\\&{text}"),
        _ => text,
    }
}

fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Unsigned => "unsigned",
        Type::Float => "float",
        Type::Boolean => "boolean",
        Type::Text => "text",
        Type::Time => "time",
        Type::Duration => "duration",
        Type::Address => "address",
        Type::Port => "port",
        Type::Protocol => "protocol",
        Type::Network => "network",
        Type::CommunityId => "Community ID",
        Type::Histogram => "histogram",
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::None | Unit::Count => "",
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Packets => "packets",
    }
}

fn element_name(field: &Field) -> String {
    let Some(ipfix) = field.ipfix else {
        return String::new();
    };
    let reverse = match ipfix.registry {
        Registry::Own => return format!("own {}", ipfix.element),
        Registry::Reverse => "reverse ",
        Registry::Iana => "",
    };
    let name = |number| {
        let element = iana_element(number);
        element.map_or_else(
            || number.to_string(),
            |element| format!("{reverse}{} ({number})", element.name),
        )
    };
    match ipfix.for_ipv6().element {
        twin if twin != ipfix.element => format!("{}, {}", name(ipfix.element), name(twin)),
        _ => name(ipfix.element),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::path::Path;

    use fathom_record::Fold;

    use super::*;

    fn schemas() -> impl Iterator<Item = &'static Schema> {
        kinds().flat_map(|(_, schemas)| schemas.iter().copied())
    }

    #[test]
    fn the_document_is_what_the_declarations_give() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
        let document = fs::read_to_string(path).unwrap();
        assert!(
            document == markdown(),
            "docs/records.md is old: `make reference` writes it anew"
        );
    }

    #[test]
    fn the_table_of_metrics_is_what_the_declarations_give() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let document = fs::read_to_string(path).unwrap();
        assert!(
            document.ends_with(&metrics()),
            "docs/metrics.md is old: `make reference` writes it anew"
        );
    }

    #[test]
    fn every_declaration_is_in_it() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut declared = Vec::new();
        for name in ["record", "measure", "balance", "fathom"] {
            collect(&crates.join(name).join("src"), &mut declared);
        }
        let mut listed: Vec<_> = schemas().map(|schema| schema.kind.to_owned()).collect();
        // Their fields stand in `profile`.
        declared.retain(|kind| !["profile_group", "profile_totals"].contains(&kind.as_str()));
        declared.sort();
        listed.sort();
        assert_eq!(listed, declared);
    }

    /// The kinds that are declared in this folder, but for those of tests.
    fn collect(folder: &Path, declared: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, declared);
            } else if path.ends_with("tests.rs") {
                // Those that stand in files of their own.
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = text.lines().map(str::trim);
                let kinds = lines
                    .filter_map(|line| line.strip_prefix("#[record = \"")?.strip_suffix("\"]"));
                declared.extend(kinds.map(str::to_owned));
            }
        }
    }

    #[test]
    fn one_name_is_one_thing() {
        let mut known: HashMap<&str, (&Field, &str)> = HashMap::new();
        for schema in schemas() {
            for field in schema.fields {
                let (first, kind) = known.entry(field.name).or_insert((field, schema.kind));
                assert_eq!(
                    (first.kind, first.unit),
                    (field.kind, field.unit),
                    "{} in {kind} and in {}",
                    field.name,
                    schema.kind
                );
                // IANA has one element for increases and another for totals.
                let own = [first, field].map(element_name);
                let are_own = own.iter().all(|name| name.starts_with("own "));
                assert!(!are_own || own[0] == own[1], "{} is {own:?}", field.name);
            }
        }
    }

    #[test]
    fn names_end_with_their_unit_and_statistics_stand_before_it() {
        const STATISTICS: [&str; 7] = ["min", "mean", "p50", "p90", "p95", "p99", "max"];
        for schema in schemas() {
            for field in schema.fields {
                let words: Vec<_> = field.name.split('_').collect();
                assert_eq!(
                    field.kind == Type::Duration,
                    words.ends_with(&["ns"]),
                    "{}",
                    field.name
                );
                let at = words.iter().position(|word| STATISTICS.contains(word));
                let is_in_place = at.is_none_or(|at| at > 0 && at + 2 == words.len());
                assert!(is_in_place, "{} of {}", field.name, schema.kind);
            }
            // What has one tail has all that the others have.
            let tails = schema
                .fields
                .iter()
                .filter_map(|field| field.name.strip_suffix("_p99_ns"));
            for quantity in tails {
                for statistic in STATISTICS {
                    let name = format!("{quantity}_{statistic}_ns");
                    assert!(
                        schema.position(&name).is_some(),
                        "{} has no {name}",
                        schema.kind
                    );
                }
            }
        }
    }

    /// A kind of intervals says of each quantity what becomes of it over longer ones.
    #[test]
    fn quantities_of_intervals_say_how_they_are_folded() {
        let is_interval = |schema: &&Schema| {
            let mut folds = schema.fields.iter().filter_map(|field| field.fold);
            folds.any(|fold| fold == Fold::Length)
        };
        let intervals: Vec<_> = schemas().filter(is_interval).collect();
        assert_eq!(intervals.len(), 4);
        for schema in intervals {
            assert_eq!(schema.fields[0].fold, Some(Fold::End), "{}", schema.kind);
            for field in schema.fields {
                let name = format!("{} of {}", field.name, schema.kind);
                let is_quantity = matches!(field.unit, Unit::Packets | Unit::Bytes)
                    || matches!(field.kind, Type::Duration | Type::Float | Type::Histogram);
                assert!(!is_quantity || field.fold.is_some(), "{name}");
                let is_percentile = ["_p50_ns", "_p90_ns", "_p95_ns", "_p99_ns"]
                    .iter()
                    .any(|end| field.name.ends_with(end));
                let has_one = matches!(field.fold, Some(Fold::Percentile(_)));
                assert_eq!(is_percentile, has_one, "{name}");
                match field.fold {
                    Some(Fold::Mean(weight)) => {
                        assert!(schema.position(weight).is_some(), "{name}");
                    }
                    Some(Fold::Deviation { mean, weight }) => {
                        let are_there =
                            [mean, weight].map(|field| schema.position(field).is_some());
                        assert_eq!(are_there, [true, true], "{name}");
                    }
                    Some(Fold::Least) => assert!(name.contains("_min_ns"), "{name}"),
                    Some(Fold::Percentile(percent)) => {
                        assert!(name.contains(&format!("_p{percent}_ns")), "{name}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_manual_page_has_every_field() {
        let page = manual_page();
        for field in schemas().flat_map(|schema| schema.fields) {
            assert!(
                page.contains(&format!(".B {}\n", field.name)),
                "{}",
                field.name
            );
        }
        assert!(!page.contains("\n'"));
    }
}
