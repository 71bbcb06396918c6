//! What is asked.

use anyhow::ensure;
use clap::ValueEnum;
use jiff::{Timestamp, Zoned};

use super::CompareArguments;
use super::grouping::Grouping;
use super::metric::{Kind, Metric};
use super::towards::Towards;
use crate::moment::span;

/// Which end of a connection the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// It opened the connection: the other end is a server.
    Client,
    /// It accepted the connection: the other end is a client.
    Server,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Which sessions are compared, and how they are told apart.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) metrics: Vec<Metric>,
    pub(super) groupings: Vec<Grouping>,
    pub(super) towards: Option<Towards>,
    pub(super) role: Role,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) most_groups: usize,
}

impl Question {
    /// What the arguments ask.
    ///
    /// # Errors
    /// When metrics cannot stand in one table, or the period is none.
    pub(super) fn new(arguments: &CompareArguments, now: &Zoned) -> anyhow::Result<Self> {
        let (since, until) = span(arguments.since, arguments.until, now)?;
        let question = Self {
            metrics: without_repetition(&arguments.metric),
            groupings: without_repetition(&arguments.by),
            towards: arguments.towards,
            role: arguments.role,
            since,
            until,
            most_groups: arguments.groups,
        };
        let kind = question.kind();
        ensure!(
            question.metrics.iter().all(|metric| metric.kind() == kind),
            "durations, shares and counts cannot be compared with each other: ask for one after the other"
        );
        Ok(question)
    }

    /// What the values of its sessions are.
    pub(super) fn kind(&self) -> Kind {
        self.metrics
            .first()
            .map_or(Kind::Count, |metric| metric.kind())
    }

    /// By what sessions are told apart, as on the command line.
    pub(super) fn by(&self) -> String {
        let names: Vec<_> = self.groupings.iter().map(Grouping::name).collect();
        names.join(",")
    }
}

fn without_repetition<T: Clone + PartialEq>(all: &[T]) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        if !once.contains(one) {
            once.push(one.clone());
        }
    }
    once
}
