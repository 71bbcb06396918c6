//! `fathom explain`: where the latency of a flow, a host or a service comes from.

#![expect(
    clippy::cast_sign_loss,
    clippy::struct_field_names,
    reason = "durations are computed as floats, and are none below zero; each is in ns"
)]

mod change;
mod dns;
mod evidence;
mod explanation;
mod flows;
mod hops;
mod judge;
mod links;
mod network;
mod parts;
mod profile;
mod question;
mod response;
mod rtt;
mod shared;
mod subject;
mod text;
mod traffic;
mod verdict;

use std::io::{self, Write};

use anyhow::Context;
use clap::{Args, ValueEnum};
use jiff::Zoned;

use crate::lists::Range;
use crate::moment::{Moment, span};
use crate::query::{self, Engine, EngineArguments};
use evidence::Evidence;
pub(crate) use explanation::Explanation;
use explanation::moment;
use judge::Judged;
pub(crate) use subject::{End, Subject};

/// Say where the latency of a flow, a host or a service comes from.
///
/// It takes what agents measured, and says what is missing. Each finding has the statement for
/// `fathom query` that shows its evidence.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    subject: SubjectArguments,
    /// Since when it looks: a time, the last 12:00, or so long before --until.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    since: Moment,
    /// Until when it looks, such as `2026-11-25T12:00:00Z`; by default now.
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    #[command(flatten)]
    engine: EngineArguments,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Whose latency.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct SubjectArguments {
    /// A flow: its Community ID, or both ends as in `192.0.2.7:40312-198.51.100.1:443`; or flows
    /// between networks, as in `10.0.0.0/8-198.51.100.1:443`.
    #[arg(long, value_name = "FLOW", value_parser = Subject::flow)]
    flow: Option<Subject>,
    /// A host: its address, or the name by which it measures; or a network such as `10.0.0.0/8`.
    #[arg(long, value_name = "HOST", value_parser = Subject::host)]
    host: Option<Subject>,
    /// A service: `ADDRESS:PORT`, an address, or `:PORT` for all servers with that port.
    #[arg(long, value_name = "SERVICE")]
    service: Option<End>,
}

impl SubjectArguments {
    fn subject(&self) -> anyhow::Result<Subject> {
        let named = self.flow.clone().or_else(|| self.host.clone());
        let named = named.or(self.service.map(Subject::Service));
        named.context("name a subject: --flow, --host or --service")
    }
}

/// How an explanation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// A JSON object.
    Json,
}

/// Explains.
///
/// # Errors
/// When there is no store, nothing was measured of the subject, or it cannot be printed.
pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<()> {
    let (since, until) = span(arguments.since, arguments.until, &Zoned::now())?;
    let range = Range {
        from_ns: i64::try_from(since.as_nanosecond())?,
        to_ns: i64::try_from(until.as_nanosecond())?,
    };
    let subject = arguments.subject.subject()?;
    let engine = Engine::open(&arguments.engine)?;
    let explanation = query::wait_for(explain(&engine, &subject, range))?;
    let explanation = explanation.with_context(|| {
        format!(
            "nothing was measured of {subject} from {} to {}: say a longer --since, or another --until",
            moment(range.from_ns),
            moment(range.to_ns)
        )
    })?;
    let mut output = io::stdout().lock();
    match arguments.format {
        Format::Text => text::write(&explanation, &mut output)?,
        Format::Json => writeln!(output, "{}", serde_json::to_string(&explanation)?)?,
    }
    Ok(output.flush()?)
}

/// Where the latency of a subject comes from, by what the store has of it; `None` if that is
/// nothing.
///
/// # Errors
/// When there is no store, or a statement fails.
pub(crate) async fn explain(
    engine: &Engine,
    subject: &Subject,
    range: Range,
) -> anyhow::Result<Option<Explanation>> {
    let evidence = Evidence::gather(engine, subject, range).await?;
    if evidence.is_empty() {
        return Ok(None);
    }
    let mut judged = Judged::of(&evidence);
    shared::look(engine, subject, range, &mut judged.findings).await?;
    let latency = judged
        .servers
        .all
        .as_ref()
        .map(|served| served.latency_ns as u64);
    Ok(Some(Explanation {
        subject: subject.to_string(),
        from: moment(range.from_ns),
        to: moment(range.to_ns),
        flows: evidence.flows.len(),
        latency_ns: latency,
        parts: parts::of(&judged, &evidence),
        missing: verdict::missing(&evidence, &judged),
        verdict: verdict::of(&judged),
        findings: judged.findings,
    }))
}
