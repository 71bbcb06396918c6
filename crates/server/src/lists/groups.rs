//! Flows that have something in common, put together.

pub(crate) use super::columns::GROUPS as COLUMNS;
use super::{Answer, Question, listed, values_of};
use crate::query::Engine;

/// What flows have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// The server and its port.
    Server,
    /// The client's network: its name, else a /24 of IPv4 or a /48 of IPv6.
    Network,
    /// The host that observed them.
    Host,
    /// The process, on the host that has it.
    Process,
}

impl Group {
    /// In the order in which users go through them.
    const ALL: [Self; 4] = [Self::Server, Self::Network, Self::Host, Self::Process];

    /// The next one; after the last, flows are by themselves again.
    pub(crate) fn after(group: Option<Self>) -> Option<Self> {
        let place = Self::ALL.iter().position(|it| Some(*it) == group);
        Self::ALL.get(place.map_or(0, |place| place + 1)).copied()
    }

    /// For people; the same column of the statement.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Network => "network",
            Self::Host => "host",
            Self::Process => "process",
        }
    }
}

/// Answers a question about flows with a row for each group.
///
/// # Errors
/// When there is no such column, no store, or records cannot be read.
pub(crate) async fn answer(
    engine: &Engine,
    question: &Question,
    group: Group,
) -> anyhow::Result<Answer> {
    let wanted = question.sort.as_deref().unwrap_or("bytes");
    let sort = COLUMNS.iter().find(|column| column.name == wanted);
    let sort = sort.map(|column| column.name);
    let sort = sort.ok_or_else(|| anyhow::anyhow!("groups have no column {wanted:?}"))?;
    let carried = include_str!("flows_by_traffic.sql").replace("{chosen}", "TRUE");
    let statement = include_str!("groups.sql").replace("{carried}", &carried);
    let network_name = if engine.names_networks() {
        "network_name(carried.source)"
    } else {
        "NULL"
    };
    let statement = statement.replace("{network_name}", network_name);
    let statement = statement.replace("{key}", group.name());
    let (rows, total) = listed(engine, question, &COLUMNS, &statement, sort).await?;
    Ok(Answer {
        columns: COLUMNS.to_vec(),
        rows: values_of(&COLUMNS, rows),
        total,
        sort,
    })
}
