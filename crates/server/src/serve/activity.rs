//! What all flows did together over time, and how a balancer shares a service.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::lists::Range;
use crate::lists::flow::{step_end, step_ns};
use crate::query::Engine;

/// Steps of time at most.
const MOST_STEPS: i64 = 120;

/// What happened in all flows together.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct Activity {
    /// How long a step is.
    step_ns: i64,
    /// The steps in which anything happened, the oldest first.
    steps: Vec<Moment>,
}

/// A step of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
struct Moment {
    /// Its end.
    time: String,
    /// IP bytes of both directions.
    bytes: Option<u64>,
    /// What was lost of packets, 0 to 1.
    loss_ratio: Option<f64>,
    /// Flows that carried anything.
    flows: Option<u64>,
    /// Retransmission timeouts of this host's connections.
    stalls: Option<u64>,
    /// How long they took until connections recovered.
    stalled_ns: Option<u64>,
}

/// Asks the store.
///
/// # Errors
/// When it cannot be read.
pub(super) async fn activity(engine: &Engine, range: Range) -> anyhow::Result<Activity> {
    let step_ns = step_ns(range, MOST_STEPS);
    let statement = include_str!("activity.sql").replace("{step}", &step_end(step_ns));
    let steps = engine.ask(&statement, &range.parameters()).await?;
    Ok(Activity { step_ns, steps })
}

/// Which service.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ServiceAsked {
    /// Its address.
    pub(super) destination: String,
    /// Its port.
    #[param(maximum = 65535)]
    pub(super) destination_port: u16,
}

/// A server of a service, as the balancer said last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(super) struct Share {
    /// The service, by its name.
    service: String,
    /// The server, by its name.
    server: String,
    /// Its address.
    address: Option<String>,
    /// Its part of new flows, 0 to 1.
    part: Option<f64>,
    /// What clients waited for its responses.
    latency_ns: Option<u64>,
    /// How it stands.
    state: Option<String>,
    /// Why its weight is what it is.
    why: Option<String>,
    /// When that was.
    last_time: String,
}

/// How a balancer shares a service; nothing where none does.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn shares(
    engine: &Engine,
    asked: &ServiceAsked,
    range: Range,
) -> anyhow::Result<Vec<Share>> {
    let mut parameters = range.parameters();
    parameters.push(asked.destination.as_str().into());
    parameters.push(asked.destination_port.into());
    engine.ask(include_str!("balance.sql"), &parameters).await
}
