//! Talks to a server of ClickHouse over HTTP.

use std::time::Duration;

use anyhow::anyhow;
use ureq::Agent;

use super::url::ServerUrl;
use crate::output::deliver::Failure;
use crate::tls::explain;

/// A server that has not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a server says of itself is not longer, in letters.
const MOST_WORDS: usize = 500;
/// By these codes a server says that it cannot read or keep rows, today or tomorrow: it cannot
/// parse them (6, 26, 27, 33, 41, 117), a type is another (53), or the statement is none (62).
/// Whatever else fails may be mended: a table, a column or a right that is missing, memory, disk.
const HOPELESS: [u32; 8] = [6, 26, 27, 33, 41, 53, 62, 117];
/// A database, table or column that is missing.
const WITHOUT_TABLES: [u32; 3] = [16, 60, 81];

/// A server, and a database in it.
pub(super) struct Client {
    agent: Agent,
    url: ServerUrl,
}

impl Client {
    /// Reads the certificates that TLS needs.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(super) fn new(url: &ServerUrl) -> anyhow::Result<Self> {
        let mut config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .user_agent(concat!("fathom/", env!("CARGO_PKG_VERSION")));
        if let Some(files) = &url.tls {
            config = config.tls_config(files.config()?);
        }
        Ok(Self {
            agent: config.build().into(),
            url: url.clone(),
        })
    }

    pub(super) fn database(&self) -> &str {
        &self.url.database
    }

    /// Has a statement carried out, and returns the answer.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn run(&self, statement: &str) -> anyhow::Result<String> {
        let sent = send(self.agent.post(&self.url.root), statement.as_bytes());
        sent.map_err(|failure| match failure {
            Failure::Away(why) | Failure::Refused(why) => anyhow!("{}: {why}", self.url),
        })
    }

    /// Has rows inserted. When this returns they are on the shard where they belong.
    ///
    /// # Errors
    /// When they are not, or may not be.
    pub(super) fn insert(&self, statement: &str, rows: &[u8]) -> Result<(), Failure> {
        let post = self.agent.post(&self.url.root);
        let post = post
            .query("query", statement)
            .query("insert_distributed_sync", "1");
        send(post, rows).map(drop)
    }
}

fn send(
    post: ureq::RequestBuilder<ureq::typestate::WithBody>,
    body: &[u8],
) -> Result<String, Failure> {
    let away = |error: ureq::Error| Failure::Away(explain(&error));
    let mut answer = post.send(body).map_err(away)?;
    let status = answer.status();
    let text = answer.body_mut().read_to_string().map_err(away)?;
    if status.as_u16() == 200 {
        return Ok(text);
    }
    Err(failure(status.as_u16(), &text))
}

/// What an answer means that is no success.
fn failure(status: u16, text: &str) -> Failure {
    let line = text.lines().next().unwrap_or_default();
    let words: String = line.chars().take(MOST_WORDS).collect();
    let code = line.strip_prefix("Code: ").and_then(|rest| {
        let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    match code {
        None => Failure::Away(format!("it answers {status}: {words}")),
        Some(code) if HOPELESS.contains(&code) => Failure::Refused(words),
        Some(code) if WITHOUT_TABLES.contains(&code) => Failure::Away(format!(
            "{words}: `fathom store init` makes what is missing"
        )),
        Some(_) => Failure::Away(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What servers of 18.16 and 26.9 say.
    #[test]
    fn only_rows_that_cannot_be_read_are_refused() {
        for (status, text) in [
            (
                500,
                "Code: 33, e.displayText() = DB::Exception: Cannot read all data.",
            ),
            (500, "Code: 33. DB::Exception: Cannot read all data."),
        ] {
            assert!(
                matches!(failure(status, text), Failure::Refused(_)),
                "{text}"
            );
        }
        for (status, text, advice) in [
            (
                404,
                "Code: 60, e.displayText() = DB::Exception: Table",
                "store init",
            ),
            (500, "Code: 16. DB::Exception: No such column", "store init"),
            (
                401,
                "Code: 192, e.displayText() = DB::Exception: Unknown user me",
                "me",
            ),
            (500, "Code: 241. DB::Exception: Memory limit", "Memory"),
            (503, "<html>", "it answers 503: <html>"),
            (500, "", "it answers 500"),
        ] {
            match failure(status, text) {
                Failure::Away(why) => assert!(why.contains(advice), "{why}"),
                Failure::Refused(why) => panic!("{why}"),
            }
        }
    }
}
