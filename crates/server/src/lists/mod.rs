//! Lists: what tables of people show of a store. Each has a row for each flow, server, router or
//! another thing, over a range of time.

mod columns;
pub(crate) mod flow;
pub(crate) mod groups;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub(crate) use columns::{Column, Unit};

use crate::query::Engine;

/// The most rows of an answer.
pub(crate) const MOST_ROWS: usize = 1_000;
/// What a list counts before it is cut.
const TOTAL: &str = "total_rows";

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum List {
    /// A flow that was measured, on an interface of a host.
    Flows,
    /// A router, at a distance from a host.
    Hops,
    /// A server's port.
    Servers,
    /// A connection of a host that has ended.
    Connections,
    /// A name that was asked for, and the resolver.
    Dns,
    /// A host that observes. Its rows tell of all times, whatever the range.
    Hosts,
    /// A network of destinations: a /24 of IPv4, a /48 of IPv6.
    Networks,
}

/// A range of time: after `from`, up to and with `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    /// Nanoseconds since the Unix epoch.
    pub(crate) from_ns: i64,
    /// Nanoseconds since the Unix epoch.
    pub(crate) to_ns: i64,
}

impl Range {
    /// As far as now.
    pub(crate) fn last(length: Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let to_ns = nanoseconds(now.unwrap_or_default());
        Self {
            from_ns: to_ns.saturating_sub(nanoseconds(length)),
            to_ns,
        }
    }

    /// The parameters `$1` and `$2` of statements.
    pub(crate) fn parameters(self) -> Vec<ScalarValue> {
        vec![time(self.from_ns), time(self.to_ns)]
    }
}

fn nanoseconds(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

fn time(ns: i64) -> ScalarValue {
    ScalarValue::TimestampNanosecond(Some(ns), Some("UTC".into()))
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// Which rows.
    pub(crate) list: List,
    /// Of when.
    pub(crate) range: Range,
    /// Only rows in which a text, an address or a port contains this, in letters of either case.
    pub(crate) filter: String,
    /// The column by which the rows go, greatest first; `None`: that of the list.
    pub(crate) sort: Option<String>,
    /// The most rows.
    pub(crate) limit: usize,
}

/// The rows.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Answer {
    /// What values of a row are, in their order.
    pub(crate) columns: Vec<Column>,
    /// The values: texts, numbers, times (RFC 3339), or null where there is none.
    pub(crate) rows: Vec<Vec<Value>>,
    /// How many there would be without a limit.
    pub(crate) total: u64,
    /// The column by which they go, greatest first.
    pub(crate) sort: &'static str,
}

/// Answers.
///
/// # Errors
/// When there is no such column, no store, or records cannot be read.
pub(crate) async fn answer(engine: &Engine, question: &Question) -> anyhow::Result<Answer> {
    let columns = question.list.columns();
    let sort = question.list.sort_column(question.sort.as_deref())?;
    let (rows, total) = match question.list {
        List::Flows => flows(engine, question, sort).await?,
        list => listed(engine, question, columns, list.sql(), sort).await?,
    };
    Ok(Answer {
        columns: columns.to_vec(),
        rows: values_of(columns, rows),
        total,
        sort,
    })
}

/// The values of these columns.
fn values_of(columns: &[Column], rows: Rows) -> Vec<Vec<Value>> {
    let values = |mut row: Map<String, Value>| {
        let values = columns.iter().map(|column| row.remove(column.name));
        values.map(Option::unwrap_or_default).collect()
    };
    rows.into_iter().map(values).collect()
}

type Rows = Vec<Map<String, Value>>;

/// The first rows of a statement that has all, and how many it has.
async fn listed(
    engine: &Engine,
    question: &Question,
    columns: &[Column],
    statement: &str,
    sort: &str,
) -> anyhow::Result<(Rows, u64)> {
    let filter = if question.filter.is_empty() {
        "TRUE".to_owned()
    } else {
        let texts = columns.iter().filter(|column| column.unit.is_text());
        let texts: Vec<_> = texts
            .map(|column| format!("CAST({} AS VARCHAR)", column.name))
            .collect();
        // Ports come after their addresses, so `192.0.2.1:443` is found, too.
        let texts = texts.join(", ");
        format!("strpos(lower(concat_ws(':', {texts})), lower($3)) > 0")
    };
    // Names of columns are those of this program, and what was asked is in parameters.
    let statement = format!(
        "SELECT *, count(*) OVER () AS {TOTAL} FROM ({statement}) WHERE {filter} ORDER BY {sort} DESC NULLS LAST LIMIT {}",
        question.limit.min(MOST_ROWS)
    );
    let mut parameters = question.range.parameters();
    parameters.push(ScalarValue::from(question.filter.as_str()));
    let rows: Rows = engine.ask(&statement, &parameters).await?;
    let total = rows.first().and_then(|row| row.get(TOTAL)?.as_u64());
    Ok((rows, total.unwrap_or_default()))
}

/// What traffic says of all flows tells which come first, if they go by it: then the histograms of
/// these alone are read.
async fn flows(engine: &Engine, question: &Question, sort: &str) -> anyhow::Result<(Rows, u64)> {
    let statement = |chosen: &str| {
        let carried = include_str!("flows_by_traffic.sql");
        let all = include_str!("flows.sql").replace("{carried}", carried);
        all.replace("{chosen}", chosen)
    };
    let columns = List::Flows.columns();
    let is_of_traffic = columns::OF_TRAFFIC.contains(&sort);
    if !is_of_traffic {
        return listed(engine, question, columns, &statement("TRUE"), sort).await;
    }
    let first = include_str!("flows_by_traffic.sql").replace("{chosen}", "TRUE");
    let (first, total) = listed(engine, question, columns, &first, sort).await?;
    if first.is_empty() {
        return Ok((first, total));
    }
    let mut parameters = question.range.parameters();
    parameters.push(ScalarValue::from(question.filter.as_str()));
    let ids = first
        .iter()
        .filter_map(|row| row.get("community_id")?.as_str());
    let places: Vec<_> = ids
        .map(|id| {
            parameters.push(ScalarValue::from(id));
            format!("${}", parameters.len())
        })
        .collect();
    if places.is_empty() {
        return Ok((first, total));
    }
    let chosen = format!("community_id IN ({})", places.join(", "));
    let statement = format!(
        "SELECT * FROM ({}) ORDER BY {sort} DESC NULLS LAST LIMIT {}",
        statement(&chosen),
        first.len()
    );
    Ok((engine.ask(&statement, &parameters).await?, total))
}
