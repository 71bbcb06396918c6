//! What requests ask: ranges of time, turns, and answers that are kept.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::Shared;
use super::problem::Problem;
use crate::lists::Range;

/// What is asked without a range.
const USUAL: Duration = Duration::from_secs(3_600);
/// A question that takes longer is given up.
pub(super) const MOST_TIME: Duration = Duration::from_secs(30);
/// So long an answer is the same for all who ask.
const FRESH: Duration = Duration::from_secs(2);
/// So long, if the range is over: records that come late may still change it.
const FRESH_OF_PAST: Duration = Duration::from_secs(60);
/// A range is over when its end is so long ago.
const PAST_NS: i64 = 120_000_000_000;
/// Kept answers take so much memory at most.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// The parameters of a query, whose errors are problems like others.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let Query(asked) = Query::try_from_uri(&parts.uri)?;
        Ok(Self(asked))
    }
}

/// Of when.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct When {
    /// Records after this time; an hour before `to` without it.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Records up to this time; now without it.
    #[param(format = DateTime)]
    to: Option<String>,
}

impl When {
    pub(super) fn range(&self) -> Result<Range, Problem> {
        let now = Range::last(USUAL);
        let to_ns = self.to.as_deref().map_or(Ok(now.to_ns), nanoseconds)?;
        let hour = i64::try_from(USUAL.as_nanos()).unwrap_or(i64::MAX);
        let usual = to_ns.saturating_sub(hour);
        let from_ns = self.from.as_deref().map_or(Ok(usual), nanoseconds)?;
        if from_ns >= to_ns {
            return Err(Problem::wrong("`from` must be before `to`"));
        }
        Ok(Range { from_ns, to_ns })
    }
}

/// Times as far as nanoseconds can be counted from 1970, in a way that differences can, too.
fn nanoseconds(text: &str) -> Result<i64, Problem> {
    let wrong = |_| Problem::wrong(format!("{text:?} is no time such as 2026-11-25T12:00:00Z"));
    let time: jiff::Timestamp = text.parse().map_err(wrong)?;
    let (first, last) = (0, i128::from(i64::MAX / 2));
    let ns = time.as_nanosecond();
    if !(first..=last).contains(&ns) {
        return Err(Problem::wrong(format!(
            "{text} is not between 1970 and 2116"
        )));
    }
    i64::try_from(ns).map_err(|_| Problem::wrong("the time is too far away"))
}

impl Shared {
    /// The answer as JSON: what was answered a moment ago, or a new one when it is this question's
    /// turn.
    pub(super) async fn answer<T: Serialize>(
        &self,
        key: &str,
        range: Range,
        question: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Bytes, Problem> {
        if let Some(kept) = self.kept.get(key) {
            return Ok(kept);
        }
        let answer = self.in_turn(question).await?;
        let json = serde_json::to_vec(&answer).map_err(anyhow::Error::from)?;
        let json = Bytes::from(json);
        self.kept.put(key, range, json.clone());
        Ok(json)
    }

    /// Waits for a turn, and not too long for the answer.
    pub(super) async fn in_turn<T>(
        &self,
        question: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let answer = async {
            let _turn = self.turns.acquire().await.map_err(anyhow::Error::from)?;
            question.await
        };
        let answer = tokio::time::timeout(MOST_TIME, answer).await;
        answer.unwrap_or_else(|_| Err(took_too_long()))
    }
}

pub(super) fn took_too_long() -> Problem {
    let words = format!(
        "this takes longer than {} s: ask about a shorter range, or by `fathom query`",
        MOST_TIME.as_secs()
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, words)
}

/// Answers of a moment ago.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<String, One>>);

#[derive(Debug)]
struct One {
    until: Instant,
    json: Bytes,
}

impl Kept {
    fn get(&self, key: &str) -> Option<Bytes> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.get(key)?;
        (one.until > Instant::now()).then(|| one.json.clone())
    }

    fn put(&self, key: &str, range: Range, json: Bytes) {
        let now = Range::last(USUAL).to_ns;
        let is_over = range.to_ns < now.saturating_sub(PAST_NS);
        let fresh = if is_over { FRESH_OF_PAST } else { FRESH };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        all.retain(|_, one| one.until > begin);
        let bytes: usize = all.values().map(|one| one.json.len()).sum();
        if bytes + json.len() <= MOST_KEPT_BYTES {
            let until = begin + fresh;
            all.insert(key.to_owned(), One { until, json });
        }
    }
}
