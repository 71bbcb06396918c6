//! The explanation in short, and what is missing from it.

use super::evidence::Evidence;
use super::explanation::{Cause, Confidence, Finding, Missing, Verdict, duration};
use super::judge::Judged;

/// A cause is named with others if it is so much of the biggest one that adds to the same: to every
/// response, or once to a connection or a lookup.
const WORTH: f64 = 0.1;
/// Causes explain a rise where they are this part of it.
const ALL: f64 = 0.6;

/// The biggest finding, others, and whether they are all.
pub(super) fn of(judged: &Judged) -> Verdict {
    let Some(biggest) = judged.findings.first() else {
        let text = "nothing is wrong, as far as was measured".to_owned();
        return Verdict {
            cause: None,
            also: Vec::new(),
            confidence: None,
            is_part: false,
            text,
        };
    };
    let worth = |it: &&Finding| {
        let mut same = judged.findings.iter();
        let most = same.find(|other| other.cause.is_once() == it.cause.is_once());
        let is_much = most.is_none_or(|most| it.amount_ns as f64 >= WORTH * most.amount_ns as f64);
        it.confidence > Confidence::Low && (it.confidence == Confidence::High || is_much)
    };
    let mut also: Vec<Cause> = Vec::new();
    let others: Vec<&Finding> = judged.findings.iter().skip(1).filter(worth).collect();
    for other in &others {
        if other.cause != biggest.cause && !also.contains(&other.cause) {
            also.push(other.cause);
        }
    }
    let rest = unexplained_ns(judged);
    let since = biggest
        .since
        .as_ref()
        .map(|since| format!(", since {since}"));
    let more = others
        .iter()
        .map(|other| format!(". Also: {}", with_amount(other)));
    let rest_text =
        rest.map(|ns| format!(". This is not all: {} more are not explained", duration(ns)));
    let text = with_amount(biggest)
        + &since.unwrap_or_default()
        + &more.collect::<String>()
        + &rest_text.unwrap_or_default();
    Verdict {
        cause: Some(biggest.cause),
        also,
        confidence: Some(biggest.confidence),
        is_part: rest.is_some(),
        text,
    }
}

fn with_amount(finding: &Finding) -> String {
    format!("{} (+{})", finding.text, duration(finding.amount_ns))
}

/// How much of a rise of round trips and of the server no cause explains.
fn unexplained_ns(judged: &Judged) -> Option<u64> {
    let half = judged.halves.towards_server.as_ref();
    let served = judged.servers.all.as_ref();
    let rises = [
        half.and_then(|half| half.rise),
        served.and_then(|served| served.rise),
    ];
    let all_ns: f64 = rises
        .iter()
        .flatten()
        .map(|rise| rise.now - rise.before)
        .sum();
    let explained: f64 = judged.findings.iter().map(|it| it.amount_ns as f64).sum();
    (explained < ALL * all_ns).then_some((all_ns - explained) as u64)
}

/// What was not measured, and how to get it.
pub(super) fn missing(evidence: &Evidence, judged: &Judged) -> Vec<Missing> {
    let has_hops = !evidence.paths.rows.is_empty() || !evidence.congestion.rows.is_empty();
    let has_server = evidence
        .profiles
        .rows
        .iter()
        .any(|row| row.role.as_deref() == Some("server"));
    let all = [
        (
            evidence.is_cut(),
            "the end of this time: it has more than 100,000 records of a kind",
            "say a shorter --since, or a narrower subject",
        ),
        (
            judged.halves.now_ns().is_none(),
            "round trips: what the network takes",
            "run `fathom agent` with `--measure rtt` where both directions pass",
        ),
        (
            judged.servers.all.is_none(),
            "responses: what clients wait, and the server's part of it",
            "run `fathom agent` with `--measure response,rtt` where packets of clients pass",
        ),
        (
            evidence.traffic.rows.is_empty(),
            "loss",
            "run `fathom agent` with `--measure traffic`",
        ),
        (
            !has_hops,
            "at which router packets wait, and which way they take",
            "run `fathom agent` with `--measure hops` at the sender; it sends packets",
        ),
        (
            evidence.profiles.rows.is_empty(),
            "windows, stalls and how connections are made",
            "run `fathom agent` with `--measure profile` on the client or on the server",
        ),
        (
            !has_server,
            "how long connections wait for the server's application",
            "run `fathom agent` with `--measure profile` on the server, and collect both into one store (`fathom collect`)",
        ),
        (
            evidence.dns.rows.is_empty(),
            "what lookups of names take",
            "run `fathom agent` with `--measure profile` on the client",
        ),
    ];
    let missing = all.into_iter().filter(|(is_missing, ..)| *is_missing);
    missing
        .map(|(_, what, remedy)| Missing {
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        })
        .collect()
}
