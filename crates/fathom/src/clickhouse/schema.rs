//! The tables of ClickHouse: one for each kind of record, from the description of its fields.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_record::{Field, Schema, Type};

/// Names a row: the batch that it came in, and its number there. A batch that comes again, because
/// its answer was lost, has the same.
pub(super) const ROW_NAME: [&str; 2] = ["block", "row"];

/// What a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Times of nanoseconds, codecs, and TTL: since 20.1.
    pub(super) is_current: bool,
}

impl Dialect {
    /// That of this version, as `version()` gives it.
    pub(super) fn of(version: &str) -> Self {
        let mut numbers = version
            .split('.')
            .map(|it| it.trim().parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Self {
            is_current: version >= (20, 1),
        }
    }

    fn time(self) -> &'static str {
        if self.is_current {
            "DateTime64(9, 'UTC')"
        } else {
            // Nanoseconds since 1970.
            "UInt64"
        }
    }

    fn day(self) -> &'static str {
        if self.is_current {
            "toYYYYMMDD(time)"
        } else {
            "toYYYYMMDD(toDateTime(intDiv(time, 1000000000)))"
        }
    }
}

/// Where tables are, and for how long their rows.
pub(super) struct Layout<'a> {
    pub(super) database: &'a str,
    /// A cluster of the server's configuration, over whose shards rows are spread.
    pub(super) cluster: Option<&'a str>,
    pub(super) age: Duration,
}

/// What makes the tables of these kinds.
pub(super) fn statements(
    schemas: &[&Schema],
    dialect: Dialect,
    layout: &Layout<'_>,
) -> Vec<String> {
    let mut statements = vec![format!("CREATE DATABASE IF NOT EXISTS {}", layout.database)];
    for schema in schemas {
        let (database, kind) = (layout.database, schema.kind);
        let Some(cluster) = layout.cluster else {
            statements.push(table(schema, kind, dialect, layout));
            continue;
        };
        let local = format!("{kind}_local");
        statements.push(table(schema, &local, dialect, layout));
        // All rows of a host are on one shard: there they join, and there a batch that comes again
        // finds itself.
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {database}.{kind} AS {database}.{local} \
             ENGINE = Distributed({cluster}, {database}, {local}, sipHash64(host))"
        ));
    }
    statements
}

fn table(schema: &Schema, name: &str, dialect: Dialect, layout: &Layout<'_>) -> String {
    let mut columns = vec!["host String".to_owned()];
    columns.extend(schema.fields.iter().map(|field| column(field, dialect)));
    columns.extend([
        format!("{} String", ROW_NAME[0]),
        format!("{} UInt32", ROW_NAME[1]),
    ]);
    let [block, row] = ROW_NAME;
    let mut text = format!(
        "CREATE TABLE IF NOT EXISTS {}.{name} (\n  {}\n) ENGINE = ReplacingMergeTree \
         PARTITION BY {} ORDER BY (host, time, {block}, {row})",
        layout.database,
        columns.join(",\n  "),
        dialect.day(),
    );
    if dialect.is_current {
        // Writing to memory does not fail.
        let _ = write!(
            text,
            " TTL toDateTime(time) + INTERVAL {} SECOND",
            layout.age.as_secs()
        );
    }
    text
}

fn column(field: &Field, dialect: Dialect) -> String {
    let plain = match field.kind {
        Type::Unsigned | Type::Duration => "UInt64",
        Type::Float => "Float64",
        Type::Boolean => "UInt8",
        Type::Port => "UInt16",
        Type::Time => dialect.time(),
        Type::Text | Type::Address | Type::Protocol | Type::Network | Type::CommunityId => "String",
        Type::Histogram => {
            return format!("{} Nested(from_ns UInt64, count UInt64)", field.name);
        }
    };
    let is_key = field.name == "time";
    let kind = if is_key {
        plain.to_owned()
    } else {
        format!("Nullable({plain})")
    };
    let codec = match field.kind {
        _ if !dialect.is_current => "",
        Type::Time => " CODEC(Delta, ZSTD)",
        _ => " CODEC(ZSTD)",
    };
    let about = field.about.replace('\\', "\\\\").replace('\'', "\\'");
    // The old dialect takes comments nowhere else.
    if dialect.is_current {
        format!("{} {kind} COMMENT '{about}'{codec}", field.name)
    } else {
        format!("{} {kind}", field.name)
    }
}

/// The columns of a kind in the order that rows have them.
pub(super) fn column_names(schema: &Schema) -> String {
    let mut names = vec!["host".to_owned()];
    for field in schema.fields {
        if field.kind == Type::Histogram {
            names.extend(["from_ns", "count"].map(|part| format!("{}.{part}", field.name)));
        } else {
            names.push(field.name.to_owned());
        }
    }
    names.extend(ROW_NAME.map(str::to_owned));
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, is_current) in [
            ("18.16.1", false),
            ("20.1.2", true),
            ("26.3.1.7", true),
            ("9.9", false),
        ] {
            assert_eq!(Dialect::of(version), Dialect { is_current }, "{version}");
        }
    }
}
