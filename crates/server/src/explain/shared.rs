//! What else has the same.

use serde::Deserialize;

use super::explanation::{Cause, Finding, Shared, moment};
use super::question::Question;
use super::subject::Subject;
use crate::lists::Range;
use crate::query::Engine;

#[derive(Deserialize)]
struct Others {
    count: u64,
    since_ns: Option<i64>,
}

/// Looks for others with the same as each finding.
///
/// # Errors
/// When a statement fails.
pub(super) async fn look(
    engine: &Engine,
    subject: &Subject,
    range: Range,
    findings: &mut [Finding],
) -> anyhow::Result<()> {
    for finding in findings {
        let Some((sql, of)) = question(finding.cause) else {
            continue;
        };
        let Some(place) = finding.place.as_deref() else {
            continue;
        };
        let address = place
            .rsplit_once(':')
            .filter(|(rest, _)| !rest.contains(':') || rest.ends_with(']'));
        let address = address.map_or(place, |(address, _)| address.trim_matches(['[', ']']));
        let least = finding.amount_ns / 2;
        let question = Question::of(sql, subject, range)
            .with("{place}", address)
            .with("{least}", least);
        let others: Vec<Others> = question.ask(engine).await?;
        if let Some(Others {
            count: count @ 1..,
            since_ns,
        }) = others.first()
        {
            let since = since_ns
                .map(|ns| format!(", since {}", moment(ns)))
                .unwrap_or_default();
            let text = format!("{count} other flows {of}{since}");
            finding.shared_by = Some(Shared {
                count: *count,
                text,
                evidence: question.text(),
            });
        }
    }
    Ok(())
}

fn question(cause: Cause) -> Option<(&'static str, &'static str)> {
    match cause {
        Cause::HopQueue | Cause::ClientSide => {
            Some((include_str!("shared_link.sql"), "wait for the same link"))
        }
        Cause::ServerResponse | Cause::OneServer | Cause::HostStall => Some((
            include_str!("shared_server.sql"),
            "wait as long for the same server",
        )),
        _ => None,
    }
}
