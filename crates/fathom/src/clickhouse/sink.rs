//! Records on their way to ClickHouse: batches of the spool as rows of its tables.

use std::path::Path;
use std::time::Duration;

use fathom_store::{Sent, received};

use super::client::Client;
use super::rows::{Rows, column_names};
use super::url::ServerUrl;
use crate::output::deliver::{Delivery, Destination, Failure, Receiver, Taken};

/// Records wait for others so long: the server makes a part of what is inserted at once.
const PACE: Duration = Duration::from_secs(1);

/// Begins to send records. A server that is away is waited for.
///
/// # Errors
/// As [`Delivery::open`], and when a certificate cannot be read.
pub(crate) fn open(url: &ServerUrl, spool: Option<(&Path, u64)>) -> anyhow::Result<Delivery> {
    let server = Server {
        client: Client::new(url)?,
    };
    let destination = Destination {
        sink: "clickhouse",
        name: format!("ClickHouse {url}"),
        directory: url.directory(),
    };
    Delivery::open(server, destination, spool)
}

struct Server {
    client: Client,
}

impl Server {
    /// Inserts what has the same columns as the first.
    fn insert(&self, batches: &[&Sent]) -> Result<Taken, Failure> {
        let Some(first) = batches.first() else {
            return Ok(Taken::default());
        };
        let mut rows = Rows::new();
        for sent in batches {
            rows.put(&sent.number, &sent.batch.rows);
        }
        let kind = &first.batch.kind;
        let statement = format!(
            "INSERT INTO {}.{kind} ({}) FORMAT RowBinary",
            self.client.database(),
            column_names(first.batch.rows.schema_ref())
        );
        match self.client.insert(&statement, &rows.bytes) {
            Ok(()) => Ok(Taken::default()),
            Err(Failure::Refused(why)) => Ok(Taken {
                refused_rows: rows.count,
                words: Some(format!(
                    "{} records of {kind} are refused: {why}",
                    rows.count
                )),
            }),
            Err(away) => Err(away),
        }
    }
}

impl Receiver for Server {
    /// What comes again has the names that it had, by which tables forget the first or the second.
    fn send(&mut self, batches: &[u8]) -> Result<Taken, Failure> {
        let all = received(batches).map_err(|error| Failure::Refused(error.to_string()))?;
        let mut left: Vec<_> = all.iter().collect();
        let mut taken = Taken::default();
        while let Some(first) = left.first().copied() {
            let is_same = |sent: &&Sent| {
                sent.batch.kind == first.batch.kind
                    && sent.batch.rows.schema_ref() == first.batch.rows.schema_ref()
            };
            let same;
            (same, left) = left.into_iter().partition(is_same);
            let one = self.insert(&same)?;
            taken.refused_rows += one.refused_rows;
            taken.words = taken.words.or(one.words);
        }
        Ok(taken)
    }

    fn pace(&self) -> Duration {
        PACE
    }
}
