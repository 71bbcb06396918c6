//! The tables of ClickHouse: one for each kind of record, from the description of its fields.

use std::collections::{HashMap, HashSet};
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
    /// Views that are made anew by the clock, without being asked to: since 24.10.
    pub(super) can_refresh: bool,
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
            can_refresh: version >= (24, 10),
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
    /// Those of longer intervals are kept for so long.
    pub(super) rollup_age: Duration,
}

impl Layout<'_> {
    /// The table of this name that has rows: one that is spread over shards has none itself.
    pub(super) fn local(&self, name: &str) -> String {
        match self.cluster {
            Some(_) => format!("{name}_local"),
            None => name.to_owned(),
        }
    }
}

/// The columns that tables of a database have: of each table, their names.
pub(super) type Found = HashMap<String, HashSet<String>>;

/// What makes the tables of these kinds, and adds the columns that those of an older fathom lack.
pub(super) fn statements(
    schemas: &[&Schema],
    dialect: Dialect,
    layout: &Layout<'_>,
    found: &Found,
) -> Vec<String> {
    let [block, row] = ROW_NAME;
    let mut statements = vec![format!("CREATE DATABASE IF NOT EXISTS {}", layout.database)];
    for schema in schemas {
        let mut columns = columns_of_fields(schema, dialect);
        columns.push((block.to_owned(), "String".to_owned()));
        columns.push((row.to_owned(), "UInt32".to_owned()));
        let table = TableOf {
            name: schema.kind,
            columns,
            engine: "ReplacingMergeTree".to_owned(),
            partition: dialect.day(),
            order: format!("host, time, {block}, {row}"),
            age: layout.age,
        };
        statements.extend(table.statements(dialect, layout, found));
    }
    statements
}

/// A column: its name, and what it is.
pub(super) type Column = (String, String);

/// A table of records.
pub(super) struct TableOf<'a> {
    pub(super) name: &'a str,
    pub(super) columns: Vec<Column>,
    pub(super) engine: String,
    pub(super) partition: &'static str,
    pub(super) order: String,
    /// For how long its rows are kept.
    pub(super) age: Duration,
}

impl TableOf<'_> {
    /// What makes it, and adds what it lacks.
    pub(super) fn statements(
        &self,
        dialect: Dialect,
        layout: &Layout<'_>,
        found: &Found,
    ) -> Vec<String> {
        let (database, name, local) = (layout.database, self.name, layout.local(self.name));
        let mut statements = vec![self.creation(&local, dialect, database)];
        statements.extend(addition(&local, &self.columns, layout, found));
        if let Some(cluster) = layout.cluster {
            // All rows of a host are on one shard: there they join, and there a batch that comes
            // again finds itself.
            statements.push(format!(
                "CREATE TABLE IF NOT EXISTS {database}.{name} AS {database}.{local} \
                 ENGINE = Distributed({cluster}, {database}, {local}, sipHash64(host))"
            ));
            statements.extend(addition(name, &self.columns, layout, found));
        }
        statements
    }

    fn creation(&self, name: &str, dialect: Dialect, database: &str) -> String {
        let columns: Vec<_> = self.columns.iter().map(defined).collect();
        let mut text = format!(
            "CREATE TABLE IF NOT EXISTS {database}.{name} (\n  {}\n) ENGINE = {} \
             PARTITION BY {} ORDER BY ({})",
            columns.join(",\n  "),
            self.engine,
            self.partition,
            self.order,
        );
        if dialect.is_current {
            // Writing to memory does not fail.
            let _ = write!(
                text,
                " TTL toDateTime(time) + INTERVAL {} SECOND",
                self.age.as_secs()
            );
        }
        text
    }
}

/// What adds the columns that a table lacks; `None`: it has all, or is not there. Older servers
/// have no `IF NOT EXISTS` for columns.
fn addition(name: &str, columns: &[Column], layout: &Layout<'_>, found: &Found) -> Option<String> {
    let found = found.get(name)?;
    let missing: Vec<_> = columns
        .iter()
        .filter(|(name, _)| !found.contains(name))
        .map(|column| format!("ADD COLUMN {}", defined(column)))
        .collect();
    (!missing.is_empty()).then(|| {
        let table = format!("ALTER TABLE {}.{name}\n  ", layout.database);
        table + &missing.join(",\n  ")
    })
}

fn defined((name, definition): &Column) -> String {
    format!("`{name}` {definition}")
}

/// Those of the host and of all fields.
pub(super) fn columns_of_fields(schema: &Schema, dialect: Dialect) -> Vec<Column> {
    let mut columns = vec![("host".to_owned(), "String".to_owned())];
    for field in schema.fields {
        if field.kind == Type::Histogram {
            let parts = histogram_columns(field.name).into_iter();
            columns.extend(parts.map(|name| (name, "Array(UInt64)".to_owned())));
        } else {
            columns.push((field.name.to_owned(), definition(field, dialect)));
        }
    }
    columns
}

fn definition(field: &Field, dialect: Dialect) -> String {
    let plain = match field.kind {
        Type::Unsigned | Type::Duration => "UInt64",
        Type::Float => "Float64",
        Type::Boolean => "UInt8",
        Type::Port => "UInt16",
        Type::Time => dialect.time(),
        Type::Text | Type::Address | Type::Protocol | Type::Network | Type::CommunityId => "String",
        Type::Histogram => "Array(UInt64)",
    };
    let is_key = field.name == "time";
    let kind = if is_key {
        plain.to_owned()
    } else {
        format!("Nullable({plain})")
    };
    // The old dialect takes comments nowhere else.
    if !dialect.is_current {
        return kind;
    }
    let codec = match field.kind {
        Type::Time => "CODEC(Delta, ZSTD)",
        _ => "CODEC(ZSTD)",
    };
    let about = field.about.replace('\\', "\\\\").replace('\'', "\\'");
    format!("{kind} COMMENT '{about}' {codec}")
}

/// The columns of a histogram: where buckets begin, and how many samples they have.
pub(super) fn histogram_columns(name: &str) -> [String; 2] {
    ["from_ns", "count"].map(|part| format!("{name}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, is_current, can_refresh) in [
            ("18.16.1", false, false),
            ("20.1.2", true, false),
            ("24.9.1", true, false),
            ("26.3.1.7", true, true),
            ("9.9", false, false),
        ] {
            let expected = Dialect {
                is_current,
                can_refresh,
            };
            assert_eq!(Dialect::of(version), expected, "{version}");
        }
    }
}
