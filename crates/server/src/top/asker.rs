//! What asks the store, in the background: keys never wait for it.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::select;
use tokio::sync::watch;
use tokio::time::sleep;

use super::now_ns;
use super::span::Span;
use crate::explain::{self, Explanation, Subject};
use crate::lists::flow::{self, FlowAnswer, FlowQuestion};
use crate::lists::groups::{self, Group};
use crate::lists::{self, Answer, List, Question, Range};
use crate::query::Engine;

/// After an answer about the newest records, the same is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// Where the newest record is looked for first.
const RECENT: Duration = Duration::from_secs(600);

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) span: Span,
    pub(super) what: What,
}

/// Of which rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    List {
        list: List,
        /// What flows are put together by, if they are.
        group: Option<Group>,
        filter: String,
        /// The column of the list that rows go by.
        sort: Option<&'static str>,
    },
    Flow {
        community_id: String,
        host: String,
    },
    Explanation(Subject),
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) ask: Ask,
    pub(super) answer: anyhow::Result<Told>,
}

/// What the store told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) newest: Newest,
    pub(super) range: Range,
    pub(super) content: Content,
}

/// Rows, a flow, or where latency comes from.
#[derive(Debug)]
pub(super) enum Content {
    Rows(Answer),
    /// `None`: the flow has no records in the range.
    Flow(Option<Box<FlowAnswer>>),
    /// `None`: nothing was measured in the range.
    Explanation(Option<Box<Explanation>>),
}

/// How far the records go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Newest {
    /// The time of the newest record since the Unix epoch; `None`: there are none.
    pub(super) time_ns: Option<i64>,
    /// The longest interval of an agent; none of stores that are filled otherwise.
    pub(super) interval_ns: Option<u64>,
}

/// A thread that asks.
pub(super) struct Asker {
    engine: std::sync::Arc<Engine>,
    runtime: Runtime,
    asks: watch::Sender<Option<Ask>>,
    replies: mpsc::Receiver<Reply>,
}

impl Asker {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub(super) fn start(engine: Engine) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_time()
            .build()
            .context("cannot start threads")?;
        let engine = std::sync::Arc::new(engine);
        let (asks, asked) = watch::channel(None);
        let (sender, replies) = mpsc::channel();
        runtime.spawn(follow(engine.clone(), asked, sender));
        Ok(Self {
            engine,
            runtime,
            asks,
            replies,
        })
    }

    /// Fails where there is no store.
    ///
    /// # Errors
    /// When there is none, or its newest records cannot be read.
    pub(super) fn look(&self) -> anyhow::Result<()> {
        self.runtime.block_on(newest(&self.engine)).map(drop)
    }

    /// From now on this is wanted.
    pub(super) fn ask(&self, ask: Ask) {
        let set = |old: &mut Option<Ask>| {
            let has_changed = old.as_ref() != Some(&ask);
            *old = Some(ask);
            has_changed
        };
        self.asks.send_if_modified(set);
    }

    /// The next reply, if there is one.
    pub(super) fn reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }

    /// Ends it. What is asked still is not waited for.
    pub(super) fn end(self) {
        self.runtime.shutdown_background();
    }

    /// Asks, and waits for the reply.
    pub(super) fn answer(&self, ask: Ask) -> Reply {
        let answer = self.runtime.block_on(answer(&self.engine, &ask));
        Reply { ask, answer }
    }
}

/// Answers what is wanted now. A question that is wanted no more is given up.
async fn follow(
    engine: std::sync::Arc<Engine>,
    mut asked: watch::Receiver<Option<Ask>>,
    replies: mpsc::Sender<Reply>,
) {
    loop {
        let Some(ask) = asked.borrow_and_update().clone() else {
            if asked.changed().await.is_err() {
                return;
            }
            continue;
        };
        let answer = select! {
            answer = answer(&engine, &ask) => answer,
            changed = asked.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let is_live = ask.span.end_ns.is_none();
        if replies.send(Reply { ask, answer }).is_err() {
            return;
        }
        let again = async {
            if is_live {
                sleep(AGAIN).await;
            } else {
                pending::<()>().await;
            }
        };
        select! {
            () = again => {}
            changed = asked.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

async fn answer(engine: &Engine, ask: &Ask) -> anyhow::Result<Told> {
    let newest = newest(engine).await?;
    let range = ask.span.range(newest.time_ns.unwrap_or_else(now_ns));
    let content = match &ask.what {
        What::List {
            list,
            group,
            filter,
            sort,
        } => {
            let question = Question {
                list: *list,
                range,
                filter: filter.clone(),
                sort: sort.map(str::to_owned),
                limit: lists::MOST_ROWS,
            };
            Content::Rows(match group {
                Some(group) => groups::answer(engine, &question, *group).await?,
                None => lists::answer(engine, &question).await?,
            })
        }
        What::Flow { community_id, host } => {
            let question = FlowQuestion {
                community_id: community_id.clone(),
                host: Some(host.clone()),
                range,
            };
            Content::Flow(flow::answer(engine, &question).await?.map(Box::new))
        }
        What::Explanation(subject) => {
            let explanation = explain::explain(engine, subject, range).await?;
            Content::Explanation(explanation.map(Box::new))
        }
    };
    Ok(Told {
        newest,
        range,
        content,
    })
}

/// The newest record is a recent one, but where no agent writes: then all are looked at.
async fn newest(engine: &Engine) -> anyhow::Result<Newest> {
    #[derive(Deserialize)]
    struct Time {
        time_ns: Option<i64>,
    }
    #[derive(Deserialize)]
    struct Interval {
        interval_ns: Option<u64>,
    }
    let mut time_ns = None;
    let all = Range {
        from_ns: 0,
        to_ns: 0,
    };
    for range in [Range::last(RECENT), all] {
        let since = &range.parameters()[..1];
        let rows: Vec<Time> = engine.ask(include_str!("newest.sql"), since).await?;
        time_ns = rows.first().and_then(|row| row.time_ns);
        if time_ns.is_some() {
            break;
        }
    }
    let statement = "SELECT max(interval_ns) AS interval_ns FROM agents";
    let rows: Vec<Interval> = engine.ask(statement, &[]).await?;
    Ok(Newest {
        time_ns,
        interval_ns: rows.first().and_then(|row| row.interval_ns),
    })
}
