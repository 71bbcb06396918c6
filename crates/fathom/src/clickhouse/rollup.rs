//! Rows of longer intervals, which the server itself makes of rows of short ones, as the fields of
//! their records say: what becomes of old records in a store.
//!
//! A batch may come twice, and late. So what has come is not added to what was there, as a plain
//! materialized view would. Once an hour a view that refreshes looks for hours of hosts of which
//! the table of short intervals has more rows than were put together, and puts all rows of these
//! hours together anew; they replace those before. Where that is cut off, the next time finds the
//! same hours.

use fathom_record::{Field, Fold, Schema, Type};

use super::schema::{Column, Dialect, Layout, TableOf, columns_of_fields, histogram_columns};
use super::views::quantile;

/// What tables of longer intervals are called, and how long these are in seconds.
pub(super) const LENGTHS: [(&str, u64); 2] = [("minutes", 60), ("hours", 3600)];
/// What names a row beside its host and time: a number of all that rows have in common.
const NAME: &str = "name";
/// How many rows were put together.
const ROWS: &str = "rows";
/// When that was.
const FOLDED: &str = "folded";
/// Rows leave the table of short intervals one by one when they are old: then those of an hour are
/// put together no more.
const LEAVING_S: u64 = 24 * 3600;

/// What makes the tables of these kinds over longer intervals, and keeps them up.
pub(super) fn statements(
    schemas: &[&Schema],
    dialect: Dialect,
    layout: &Layout<'_>,
    found: &super::Found,
) -> Vec<String> {
    let mut statements = Vec::new();
    if !dialect.can_refresh {
        return statements;
    }
    for schema in schemas.iter().filter(|schema| is_of_intervals(schema)) {
        for (suffix, length_s) in LENGTHS {
            let name = format!("{}_{suffix}", schema.kind);
            let table = TableOf {
                name: &name,
                columns: columns(schema, dialect),
                engine: format!("ReplacingMergeTree({FOLDED})"),
                partition: "toYYYYMM(time)",
                order: format!("host, time, {NAME}"),
                age: layout.rollup_age,
            };
            statements.extend(table.statements(dialect, layout, found));
            let local = layout.local(&name);
            let refresh = format!("{}.{name}_refresh", layout.database);
            statements.push(format!("DROP TABLE IF EXISTS {refresh}"));
            statements.push(format!(
                "CREATE MATERIALIZED VIEW {refresh} REFRESH EVERY 1 HOUR OFFSET 10 MINUTE \
                 APPEND TO {}.{local} AS {}",
                layout.database,
                question(schema, &name, length_s, layout)
            ));
        }
    }
    statements
}

pub(super) fn is_of_intervals(schema: &Schema) -> bool {
    let mut folds = schema.fields.iter().map(|field| field.fold);
    folds.any(|fold| fold == Some(Fold::Length))
}

fn columns(schema: &Schema, dialect: Dialect) -> Vec<Column> {
    let mut columns = columns_of_fields(schema, dialect);
    for (name, kind) in [
        (NAME, "FixedString(16)"),
        (ROWS, "UInt64"),
        (FOLDED, "DateTime"),
    ] {
        columns.push((name.to_owned(), kind.to_owned()));
    }
    columns
}

/// When the interval of this length ended in which something was at that time, as nanoseconds.
fn end_ns(length_s: u64) -> String {
    let ns = length_s * 1_000_000_000;
    format!(
        "intDiv(toUnixTimestamp64Nano(time) + {}, {ns}) * {ns}",
        ns - 1
    )
}

/// The rows of the hours of which there are more than were put together.
fn question(schema: &Schema, name: &str, length_s: u64, layout: &Layout<'_>) -> String {
    let database = layout.database;
    let (fine, coarse) = (layout.local(schema.kind), layout.local(name));
    let hour = end_ns(3600);
    let oldest_s = layout.age.as_secs().saturating_sub(LEAVING_S);
    let hours = format!(
        "SELECT host, hour FROM (\n\
         SELECT host, {hour} AS hour, count() AS there FROM {database}.{fine}\n\
         WHERE time > now() - INTERVAL {oldest_s} SECOND GROUP BY host, hour\n\
         ) AS fine LEFT JOIN (\n\
         SELECT host, {hour} AS hour, sum({ROWS}) AS known FROM {database}.{coarse} FINAL\n\
         GROUP BY host, hour\n\
         ) AS coarse USING (host, hour)\n\
         WHERE there > known AND hour < toUnixTimestamp64Nano(now64(9))"
    );
    let keys = keys(schema);
    let ns = length_s * 1_000_000_000;
    let mut inner = vec![
        "host".to_owned(),
        format!(
            "if(duration_ns >= {ns}, toUnixTimestamp64Nano(time), {}) AS end_ns",
            end_ns(length_s)
        ),
        format!("if(duration_ns >= {ns}, assumeNotNull(duration_ns), {ns}) AS length_ns"),
    ];
    inner.extend(keys.iter().map(|&key| key.to_owned()));
    inner.extend(schema.fields.iter().filter_map(|it| folded(it, schema, ns)));
    let in_common = ["length_ns"].iter().chain(&keys).copied();
    let in_common = in_common.collect::<Vec<_>>().join(", ");
    inner.push(format!(
        "sipHash128(toString(tuple({in_common}))) AS {NAME}"
    ));
    inner.push(format!("count() AS {ROWS}"));
    let outer: Vec<_> = schema.fields.iter().flat_map(outer).collect();
    let merged = schema.fields.iter().find(|it| it.fold == Some(Fold::Merge));
    let merged = merged.map_or_else(String::new, |field| {
        let name = field.name;
        format!(", f_{name}.1 AS begins, f_{name}.2 AS counts, arrayCumSum(f_{name}.2) AS passed")
    });
    format!(
        "SELECT host, {}, {NAME}, {ROWS}, now() AS {FOLDED}\nFROM (\nSELECT *{merged}\nFROM (\n\
         SELECT\n  {}\nFROM {database}.{fine} FINAL\nWHERE (host, {hour}) IN (\n{hours}\n)\n\
         GROUP BY host, end_ns, {in_common}\n)\n)",
        outer.join(", "),
        inner.join(",\n  "),
    )
}

/// The fields that rows which are put together have in common.
fn keys(schema: &Schema) -> Vec<&'static str> {
    let fields = schema.fields.iter();
    let keys = fields.filter(|field| field.fold.is_none());
    keys.map(|field| field.name).collect()
}

/// What becomes of a field, under a name of its own: those of columns mean what rows have.
fn folded(field: &Field, schema: &Schema, ns: u64) -> Option<String> {
    let name = field.name;
    let by_length = |weight: &str| {
        let weight_of = schema.fields.iter().find(|it| it.name == weight);
        let is_rate = weight_of.is_some_and(|it| it.fold == Some(Fold::Rate));
        let factor = if is_rate { " * duration_ns" } else { "" };
        format!("{weight}{factor}")
    };
    let value = match field.fold? {
        Fold::End | Fold::Length | Fold::Percentile(_) => return None,
        Fold::Sum => format!("sum({name})"),
        Fold::Least => format!("min({name})"),
        Fold::Greatest => format!("max({name})"),
        Fold::Rate => format!("sum({name} * duration_ns) / length_ns"),
        Fold::Mean(weight) => {
            let weight = by_length(weight);
            let mean = format!(
                "sum({name} * {weight}) / nullIf(sum(if(isNull({name}), NULL, {weight})), 0)"
            );
            if field.kind == Type::Float {
                mean
            } else {
                format!("accurateCastOrNull(round({mean}), 'UInt64')")
            }
        }
        Fold::Deviation { mean, weight } => {
            // Of rows that have no deviation, means do not count either.
            let weight = format!("if(isNull({name}), NULL, {weight})");
            let (mean, own) = (format!("toFloat64({mean})"), format!("toFloat64({name})"));
            let all = format!("nullIf(sum({weight}), 0)");
            let squares = format!("sum((pow({own}, 2) + pow({mean}, 2)) * {weight}) / {all}");
            let square = format!("pow(sum({mean} * {weight}) / {all}, 2)");
            // By rounding the difference may be a little less than nothing.
            let deviation = format!("sqrt(abs({squares} - {square}))");
            format!("accurateCastOrNull(round({deviation}), 'UInt64')")
        }
        Fold::Merge => {
            let [begins, counts] = histogram_columns(name);
            format!("sumMap(`{begins}`, `{counts}`)")
        }
        // Rows of longer intervals stay as they are.
        Fold::Absent => format!("if(min(duration_ns) >= {ns}, any({name}), NULL)"),
    };
    Some(format!("{value} AS f_{name}"))
}

/// The columns of a field.
fn outer(field: &Field) -> Vec<String> {
    let name = field.name;
    match field.fold {
        None => vec![name.to_owned()],
        Some(Fold::End) => vec![format!("fromUnixTimestamp64Nano(end_ns, 'UTC') AS {name}")],
        Some(Fold::Length) => vec![format!("length_ns AS {name}")],
        Some(Fold::Merge) => {
            let [begins, counts] = histogram_columns(name);
            vec![
                format!("begins AS `{begins}`"),
                format!("counts AS `{counts}`"),
            ]
        }
        Some(Fold::Percentile(percent)) => {
            vec![format!(
                "{} AS {name}",
                quantile(&format!("0.{percent:02}"))
            )]
        }
        Some(_) => vec![format!("f_{name} AS {name}")],
    }
}
