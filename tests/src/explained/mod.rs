//! Faults that are made in the lab, and what `fathom explain` says of them.

mod client;
mod fault;
mod scene;
mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_lab::Sequence;
use serde_json::Value;

pub use fault::Fault;
use scene::Scene;
pub use server::serve;

/// How long all is well; up to so much more by chance.
const BEFORE: Duration = Duration::from_secs(7);
const BEFORE_MORE_MS: u64 = 2_000;
/// How long a fault lasts.
const DURING: Duration = Duration::from_secs(8);

/// A run: faults that begin at the same time, with parameters by the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// None: all is well.
    pub faults: Vec<Fault>,
    /// Of delays, of parameters, and of when it begins.
    pub seed: u64,
}

/// What was said of a case.
#[derive(Debug, Clone)]
pub struct Told {
    /// The biggest cause, if any.
    pub cause: Option<String>,
    /// Others that were named.
    pub also: Vec<String>,
    /// Whether it was sure.
    pub is_sure: bool,
    /// Whether it said that it is not all.
    pub is_part: bool,
    /// The verdict in words.
    pub text: String,
    /// All of it.
    pub explanation: Value,
}

impl Case {
    /// Pairs of faults that can be made together, in an order by the seed.
    pub fn pairs(seed: u64) -> Vec<Self> {
        let mut random = Sequence::new(seed);
        let all = Fault::ALL;
        let mut pairs: Vec<(u64, Self)> = Vec::new();
        for (number, one) in all.iter().enumerate() {
            for other in all[number + 1..]
                .iter()
                .filter(|other| one.goes_with(**other))
            {
                let case = Self {
                    faults: vec![*one, *other],
                    seed,
                };
                pairs.push((random.bits(), case));
            }
        }
        pairs.sort_by_key(|(place, _)| *place);
        pairs.into_iter().map(|(_, case)| case).collect()
    }

    /// Makes the network anew, has an agent measure, makes the faults, and asks `fathom explain`.
    /// `server` is the program whose command `serve ADDRESS` is [`serve`]. What was measured is
    /// kept in `directory`.
    pub fn run(&self, server: &Path, directory: &Path) -> Result<Told> {
        self.run_beside(server, directory, BEFORE, |_| Ok(()))
    }

    /// The same beside what `begin` starts over the store. All is well for as long as `quiet`, and
    /// a little more.
    pub fn run_beside<T>(
        &self,
        server: &Path,
        directory: &Path,
        quiet: Duration,
        begin: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<Told> {
        let mut random = Sequence::new(self.seed);
        let scene = Scene::build(server, &self.faults, &mut random)?;
        let agent = scene.measure(directory)?;
        let beside = begin(&scene::store(directory))?;
        let start = Instant::now();
        let clients = scene.ask()?;
        let more = Duration::from_millis(random.below(BEFORE_MORE_MS));
        std::thread::sleep(quiet + more);
        let faults = self
            .faults
            .iter()
            .map(|fault| fault.begin(&scene, &mut random));
        let faults = faults.collect::<Result<Vec<_>>>()?;
        std::thread::sleep(DURING);
        let since = start.elapsed() + Duration::from_secs(1);
        let explanation = scene::explain(agent, directory, &scene.service(), since)?;
        drop((faults, clients, beside));
        Ok(Told::of(explanation))
    }

    /// Whether what was told is right: the fault, or for two faults both, or one and that it is not
    /// all.
    pub fn is_right(&self, told: &Told) -> bool {
        let causes: Vec<&str> = self.faults.iter().map(|fault| fault.cause()).collect();
        let Some(cause) = told.cause.as_deref() else {
            return causes.is_empty();
        };
        let is_named = |cause: &&str| {
            told.cause.as_deref() == Some(cause) || told.also.iter().any(|it| it == cause)
        };
        match causes[..] {
            [] => false,
            [only] => cause == only,
            _ => causes.iter().all(is_named) || (causes.contains(&cause) && told.is_part),
        }
    }

    /// Whether a cause was named, as the biggest or beside it, that was not there.
    pub fn has_invented(&self, told: &Told) -> bool {
        let mut named = told.cause.iter().chain(&told.also);
        named.any(|cause| self.faults.iter().all(|fault| cause != fault.cause()))
    }

    /// Whether it is wrong, and was told as sure.
    pub fn is_surely_wrong(&self, told: &Told) -> bool {
        let cause = told.cause.as_deref();
        told.is_sure && !self.faults.iter().any(|fault| cause == Some(fault.cause()))
    }
}

impl Told {
    fn of(explanation: Value) -> Self {
        let verdict = &explanation["verdict"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let also = verdict["also"].as_array().into_iter().flatten();
        Self {
            cause: text(&verdict["cause"]),
            also: also.filter_map(text).collect(),
            is_sure: verdict["confidence"] == "high",
            is_part: verdict["is_part"] == true,
            text: text(&verdict["text"]).unwrap_or_default(),
            explanation,
        }
    }
}
