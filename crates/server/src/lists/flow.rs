//! One flow over time.

use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Range;
use crate::query::Engine;

/// So many points have series at most: those of longer ranges are put together.
const MOST_POINTS: i64 = 360;
/// No interval of an agent is shorter.
const LEAST_STEP_NS: i64 = 1_000_000_000;
/// Where a flow may be found, the first where it tells who opened it.
const TABLES: [&str; 4] = ["traffic", "response_aggregate", "hop", "profile"];

/// Which flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FlowQuestion {
    /// Its Community ID.
    pub(crate) community_id: String,
    /// Who observed it; `None`: whoever did last.
    pub(crate) host: Option<String>,
    /// Of when.
    pub(crate) range: Range,
}

/// What is known of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct FlowAnswer {
    /// Which it is.
    pub(crate) flow: Found,
    /// The end of each step of time, and what happened in it.
    pub(crate) series: Vec<Point>,
    /// How long such a step is.
    pub(crate) step_ns: i64,
    /// Routers on its path, the nearest first.
    pub(crate) hops: Vec<Hop>,
    /// What happened to it, the oldest first.
    pub(crate) events: Vec<Event>,
}

/// A flow, and who observed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Found {
    /// Who observed it.
    pub(crate) host: String,
    /// Where.
    pub(crate) interface: Option<String>,
    /// Its protocol.
    pub(crate) protocol: Option<String>,
    /// The client.
    pub(crate) source: Option<String>,
    /// Its port.
    pub(crate) source_port: Option<u16>,
    /// The server.
    pub(crate) destination: Option<String>,
    /// Its port.
    pub(crate) destination_port: Option<u16>,
    /// The first record of it in the range.
    pub(crate) first_time: String,
    /// The last one.
    pub(crate) last_time: String,
}

/// A step of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Point {
    /// Its end.
    pub(crate) time: String,
    /// IP bytes towards the server.
    pub(crate) bytes: Option<u64>,
    /// IP bytes towards the client.
    pub(crate) reverse_bytes: Option<u64>,
    /// Packets towards the server.
    pub(crate) packets: Option<u64>,
    /// Packets towards the client.
    pub(crate) reverse_packets: Option<u64>,
    /// What was lost of them towards the server, 0 to 1.
    pub(crate) loss_ratio: Option<f64>,
    /// What was lost of them towards the client.
    pub(crate) reverse_loss_ratio: Option<f64>,
    /// The least round trip towards the server.
    pub(crate) rtt_min_ns: Option<u64>,
    /// Their median.
    pub(crate) rtt_p50_ns: Option<u64>,
    /// Their 99th percentile.
    pub(crate) rtt_p99_ns: Option<u64>,
    /// The median of round trips towards the client.
    pub(crate) client_rtt_p50_ns: Option<u64>,
    /// Their 99th percentile.
    pub(crate) client_rtt_p99_ns: Option<u64>,
    /// What the client waited for responses, the median.
    pub(crate) latency_p50_ns: Option<u64>,
    /// The 99th percentile of that.
    pub(crate) latency_p99_ns: Option<u64>,
    /// The longest that a request was unanswered.
    pub(crate) waiting_ns: Option<u64>,
}

/// A router on the path of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Hop {
    /// The TTL that reaches it.
    pub(crate) ttl: u64,
    /// Its address, where it answers.
    pub(crate) responder: Option<String>,
    /// Its name in the DNS.
    pub(crate) responder_name: Option<String>,
    /// The least round trip to it.
    pub(crate) rtt_min_ns: Option<u64>,
    /// Their median.
    pub(crate) rtt_p50_ns: Option<u64>,
    /// Their 99th percentile.
    pub(crate) rtt_p99_ns: Option<u64>,
    /// The most that the link to it added by waiting in an interval.
    pub(crate) queue_ns: Option<u64>,
    /// Probes whose fate is known.
    pub(crate) probes_sent: Option<u64>,
    /// Of them, those without an answer.
    pub(crate) probes_lost: Option<u64>,
    /// Why there was none.
    pub(crate) silence: Option<String>,
    /// What its answers showed.
    pub(crate) marks: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Event {
    /// When.
    pub(crate) time: String,
    /// `profile`, `congestion`, `route` or `waiting`.
    pub(crate) kind: String,
    /// What it was, in words.
    pub(crate) text: Option<String>,
}

/// Answers; `None`: there is no such flow in the range.
///
/// # Errors
/// When there is no store, or records cannot be read.
pub(crate) async fn answer(
    engine: &Engine,
    question: &FlowQuestion,
) -> anyhow::Result<Option<FlowAnswer>> {
    let Some(flow) = found(engine, question).await? else {
        return Ok(None);
    };
    let mut parameters = question.range.parameters();
    parameters.push(question.community_id.as_str().into());
    parameters.push(flow.host.as_str().into());
    let hops = engine
        .ask(include_str!("flow_hops.sql"), &parameters)
        .await?;
    let events = engine
        .ask(include_str!("flow_events.sql"), &parameters)
        .await?;
    let step_ns = step_ns(question.range, MOST_POINTS);
    let statement = include_str!("flow_series.sql").replace("{step}", &step_end(step_ns));
    parameters.push(flow.interface.clone().into());
    parameters.push(flow.destination.clone().into());
    parameters.push(ScalarValue::UInt16(flow.destination_port));
    let series = engine.ask(&statement, &parameters).await?;
    Ok(Some(FlowAnswer {
        flow,
        series,
        step_ns,
        hops,
        events,
    }))
}

async fn found(engine: &Engine, question: &FlowQuestion) -> anyhow::Result<Option<Found>> {
    let mut parameters = question.range.parameters();
    parameters.push(question.community_id.as_str().into());
    parameters.push(question.host.as_deref().unwrap_or_default().into());
    for table in TABLES {
        let statement = include_str!("flow_found.sql").replace("{table}", table);
        let rows: Vec<Found> = engine.ask(&statement, &parameters).await?;
        let row = rows.into_iter().next();
        if row.is_some() {
            return Ok(row);
        }
    }
    Ok(None)
}

/// How long steps are of which a range has so many at most: whole seconds, minutes or hours, as
/// people count them.
pub(crate) fn step_ns(range: Range, most_points: i64) -> i64 {
    const STEPS_S: [i64; 14] = [
        1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400,
    ];
    let least = (range.to_ns.saturating_sub(range.from_ns) / most_points).max(LEAST_STEP_NS);
    let steps = STEPS_S.iter().map(|seconds| seconds * 1_000_000_000);
    let step = steps.into_iter().find(|step| *step >= least);
    step.unwrap_or(86_400_000_000_000)
}

/// SQL for the end of the step that `time` is in.
pub(crate) fn step_end(step_ns: i64) -> String {
    format!(
        "arrow_cast((CAST(time AS BIGINT) + {step_ns} - 1) / {step_ns} * {step_ns}, 'Timestamp(Nanosecond, Some(\"UTC\"))')"
    )
}
