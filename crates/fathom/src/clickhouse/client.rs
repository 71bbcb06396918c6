//! Talks to a server of ClickHouse over HTTP.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use ureq::Agent;

/// A server that has not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, and a database in it.
#[derive(Clone)]
pub(super) struct Client {
    agent: Agent,
    /// Without the path.
    url: String,
    pub(super) database: String,
}

/// Why a statement was not carried out.
pub(super) enum Failure {
    /// There was no answer, or one of a server that has no time: later there may be.
    Away(String),
    /// The server says why.
    Refused(String),
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Away(why) | Failure::Refused(why) => anyhow!(why),
        }
    }
}

impl Client {
    /// Of a URL such as `http://USER:PASSWORD@HOST:8123/DATABASE`, whose database is `fathom`
    /// unless it says another.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let what = || {
            format!(
                "{url} is no server of ClickHouse: name one as http://HOST:8123 or http://USER:PASSWORD@HOST:8123/DATABASE"
            )
        };
        let rest = url.strip_prefix("http://").with_context(what)?;
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = if database.is_empty() {
            "fathom"
        } else {
            database
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if host.is_empty() || !database.chars().all(is_name) {
            bail!(what());
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .user_agent(concat!("fathom/", env!("CARGO_PKG_VERSION")));
        Ok(Self {
            agent: config.build().into(),
            url: format!("http://{host}/"),
            database: database.to_owned(),
        })
    }

    /// Has a statement carried out, and returns the answer.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn run(&self, statement: &str) -> Result<String, Failure> {
        self.send(self.agent.post(&self.url), statement.as_bytes())
    }

    /// Has rows inserted. When this returns they are on the shard where they belong.
    ///
    /// # Errors
    /// When they are not, or may not be.
    pub(super) fn insert(&self, statement: &str, rows: &[u8]) -> Result<(), Failure> {
        let post = self.agent.post(&self.url);
        let post = post
            .query("query", statement)
            .query("insert_distributed_sync", "1");
        self.send(post, rows).map(drop)
    }

    fn send(
        &self,
        post: ureq::RequestBuilder<ureq::typestate::WithBody>,
        body: &[u8],
    ) -> Result<String, Failure> {
        let away = |error: ureq::Error| Failure::Away(format!("{}: {error}", self.url));
        let mut answer = post.send(body).map_err(away)?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().map_err(away)?;
        match status.as_u16() {
            200 => Ok(text),
            429 | 502..=504 => Err(Failure::Away(format!("{}: it answers {status}", self.url))),
            _ => Err(Failure::Refused(first_line(&text))),
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
