//! The rows that an explanation is made of.

use super::flows::Flows;
use super::links::Queues;
use super::network::Network;
use super::question::Question;
use super::response::Servers;
use super::subject::Subject;
use super::{dns, hops, links, profile, response, rtt, traffic};
use crate::lists::Range;
use crate::query::Engine;

/// Statements give so many rows at most, those of the beginning.
pub(super) const MOST_ROWS: usize = 100_000;

/// Rows, and the statement that gave them.
#[derive(Debug)]
pub(super) struct Asked<T> {
    pub(super) rows: Vec<T>,
    pub(super) statement: String,
}

/// All that was measured of a subject in a span.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) flows: Flows,
    pub(super) rtt: Asked<rtt::Row>,
    pub(super) responses: Asked<response::Row>,
    pub(super) servers: Servers,
    /// Of other clients of the same servers, where these take longer than before.
    pub(super) others: Option<Asked<response::Other>>,
    pub(super) traffic: Asked<traffic::Row>,
    pub(super) congestion: Asked<links::Congestion>,
    pub(super) route_changes: Asked<hops::RouteChange>,
    pub(super) paths: Asked<hops::OnPath>,
    pub(super) profiles: Asked<profile::Row>,
    pub(super) dns: Asked<dns::Row>,
}

impl Evidence {
    /// # Errors
    /// When there is no store, or a statement fails.
    pub(super) async fn gather(
        engine: &Engine,
        subject: &Subject,
        range: Range,
    ) -> anyhow::Result<Self> {
        let of = |sql| Question::of(sql, subject, range);
        let rtt = asked(engine, &of(rtt::SQL)).await?;
        let responses = asked(engine, &of(response::SQL)).await?;
        let traffic = asked(engine, &of(traffic::SQL)).await?;
        let flows = Flows::of(&responses.rows, &traffic.rows, &rtt.rows);
        let congestion = asked(engine, &of(links::SQL)).await?;
        let queues = Queues::towards_servers(&congestion.rows, &flows);
        let network = Network::of(&rtt.rows, queues, &flows);
        let mut servers = Servers::of(&responses.rows, &network, &flows);
        let mut others = None;
        if servers.rise().is_some() {
            // It reads rows of all flows to these servers.
            let asked = asked(engine, &of(response::OTHERS)).await?;
            servers.hold_against(&asked.rows);
            others = Some(asked);
        }
        Ok(Self {
            flows,
            servers,
            rtt,
            responses,
            others,
            traffic,
            congestion,
            route_changes: asked(engine, &of(hops::ROUTE_CHANGE)).await?,
            paths: asked(engine, &of(hops::PATH)).await?,
            profiles: asked(engine, &of(profile::SQL)).await?,
            dns: asked(engine, &of(dns::SQL)).await?,
        })
    }

    /// Whether nothing at all was seen.
    pub(super) fn is_empty(&self) -> bool {
        self.flows.len() == 0 && self.profiles.rows.is_empty() && self.paths.rows.is_empty()
    }

    /// Whether the end of the span was not looked at, since there was too much before.
    pub(super) fn is_cut(&self) -> bool {
        self.rtt.is_cut()
            || self.responses.is_cut()
            || self.others.as_ref().is_some_and(Asked::is_cut)
            || self.traffic.is_cut()
            || self.congestion.is_cut()
            || self.route_changes.is_cut()
            || self.paths.is_cut()
            || self.profiles.is_cut()
            || self.dns.is_cut()
    }
}

impl<T> Asked<T> {
    /// Whether there were more rows than were looked at.
    fn is_cut(&self) -> bool {
        self.rows.len() >= MOST_ROWS
    }
}

async fn asked<T: serde::de::DeserializeOwned>(
    engine: &Engine,
    question: &Question,
) -> anyhow::Result<Asked<T>> {
    Ok(Asked {
        rows: question.ask(engine).await?,
        statement: question.text(),
    })
}
