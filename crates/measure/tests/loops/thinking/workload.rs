//! What thinking clients, their servers and the path between them do.

use std::time::Duration;

use crate::random::{Random, Times};

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// What the server's timestamps say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// The client offers none.
    Absent,
    /// It does, and a middlebox takes them out of the handshake: no segment has them.
    Stripped,
    /// Always 0.
    Zero,
    /// How many of these times have passed since some time of its own.
    Ticks(Duration),
}

/// Which connections the requests take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// One, all the time.
    Lasting,
    /// One after the other of so many that stay; the others are idle meanwhile.
    Pool(usize),
    /// A new one after so many turns.
    Short(u32),
}

/// A client that thinks before it asks again.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    /// From an answer to the next request.
    pub(crate) think: Option<Times>,
    pub(crate) service: Times,
    /// Requests that are sent together.
    pub(crate) batch: u32,
    /// Of an answer.
    pub(crate) segments: u32,
    /// From one segment of an answer to the next.
    pub(crate) apart: Duration,
    pub(crate) lifetime: Lifetime,
    pub(crate) round_trip: Duration,
    pub(crate) stamps: Stamps,
    /// The value of the server's first timestamp, by default a random one.
    pub(crate) first_stamp: Option<u32>,
    /// Of how many the server's clock counts one too much, in millions.
    pub(crate) drift_ppm: f64,
    /// How late the client acknowledges what it has nothing to send for; `None`: at once.
    pub(crate) delayed: Option<Duration>,
    /// From this time on, the way back takes so many ns more.
    pub(crate) path_change: Option<(Duration, i64)>,
    /// Client, path and server stand still now and then, for so long on average: together for one
    /// part in thirty of the time.
    pub(crate) stalls: Option<Duration>,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
}

impl Workload {
    /// One request after another over one connection, for ten seconds.
    pub(crate) fn new(think: Option<Times>, stamps: Stamps) -> Self {
        Self {
            think,
            service: Times::Lognormal(4 * MS, 0.3),
            batch: 1,
            segments: 1,
            apart: Duration::ZERO,
            lifetime: Lifetime::Lasting,
            round_trip: 5 * MS,
            stamps,
            first_stamp: None,
            drift_ppm: 0.0,
            delayed: Some(40 * MS),
            path_change: None,
            stalls: None,
            duration: Duration::from_secs(10),
            seed: 1,
        }
    }

    /// The connection is silent at times that are no waits: as the client thinks, or uses others.
    pub(crate) fn has_pauses(&self) -> bool {
        self.think.is_some() || matches!(self.lifetime, Lifetime::Pool(_))
    }

    pub(crate) fn has_stamps(&self) -> bool {
        matches!(self.stamps, Stamps::Ticks(_))
    }

    pub(crate) fn thinking(&self) -> String {
        let none = || "none".to_owned();
        self.think.map_or_else(none, |think| format!("{think:?}"))
    }

    pub(crate) fn acknowledging(&self) -> String {
        let at_once = || "at once".to_owned();
        self.delayed
            .map_or_else(at_once, |delay| format!("{delay:?} late"))
    }

    /// What it is called in tables.
    pub(crate) fn name(&self) -> String {
        let Self {
            stamps, lifetime, ..
        } = self;
        format!(
            "{}, {stamps:?}, path {:?}, {lifetime:?}, {}x{}, {}",
            self.thinking(),
            self.round_trip,
            self.batch,
            self.segments,
            self.acknowledging(),
        )
    }
}

/// None, and constant, exponential and lognormal ones.
pub(crate) fn thinks() -> Vec<Option<Times>> {
    let around = [1, 5, 20, 60].map(|ms| ms * MS);
    let thinks = around.into_iter().flat_map(|time| {
        [
            Times::Constant(time),
            Times::Exponential(time),
            Times::Lognormal(time, 1.0),
        ]
    });
    std::iter::once(None).chain(thinks.map(Some)).collect()
}

/// Ticks of servers.
pub(crate) const TICKS: [Duration; 4] =
    [US, MS, Duration::from_millis(4), Duration::from_millis(10)];

/// All ways to think over all paths, with acknowledgements late and at once; kinds of messages,
/// connections and services by chance.
pub(crate) fn grid(stamps: Stamps) -> Vec<Workload> {
    let mut all = Vec::new();
    for think in thinks() {
        let variants = if think.is_some() { 2 } else { 12 };
        for round_trip in [200 * US, 5 * MS, 40 * MS] {
            for delayed in [Some(40 * MS), None].repeat(variants) {
                all.push(Workload {
                    think,
                    round_trip,
                    stamps,
                    delayed,
                    ..by_chance(all.len() as u64 + 1)
                });
            }
        }
    }
    all
}

fn by_chance(seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut one_of = |count| random.below(count) as usize;
    let (batch, segments) = [(1, 1), (4, 1), (1, 5)][one_of(3)];
    let lifetimes = [Lifetime::Lasting, Lifetime::Pool(3), Lifetime::Short(12)];
    let services = [
        Times::Constant(8 * MS),
        Times::Lognormal(4 * MS, 0.3),
        Times::Exponential(12 * MS),
    ];
    Workload {
        service: services[one_of(3)],
        batch,
        segments,
        lifetime: lifetimes[one_of(3)],
        seed,
        ..Workload::new(None, Stamps::Absent)
    }
}

/// What may happen to a clock and a path, for two minutes, with clients that think for 20 ms on
/// average.
pub(crate) fn odd() -> Vec<(&'static str, Workload)> {
    let plain = Workload {
        round_trip: 30 * MS,
        duration: Duration::from_secs(120),
        ..Workload::new(Some(Times::Exponential(20 * MS)), Stamps::Ticks(MS))
    };
    let with = |change: &dyn Fn(&mut Workload)| {
        let mut workload = plain.clone();
        change(&mut workload);
        workload
    };
    let change_at = |ns| Some((Duration::from_secs(60), ns));
    vec![
        (
            "the server's clock is fast",
            with(&|own| own.drift_ppm = 100.0),
        ),
        (
            "the server's clock is slow",
            with(&|own| own.drift_ppm = -100.0),
        ),
        (
            "fast, microseconds",
            with(&|own| {
                (own.drift_ppm, own.stamps) = (100.0, Stamps::Ticks(US));
            }),
        ),
        (
            "slow, microseconds",
            with(&|own| {
                (own.drift_ppm, own.stamps) = (-100.0, Stamps::Ticks(US));
            }),
        ),
        (
            "the path gets longer",
            with(&|own| own.path_change = change_at(10_000_000)),
        ),
        (
            "the path gets shorter",
            with(&|own| own.path_change = change_at(-10_000_000)),
        ),
        (
            "timestamps wrap",
            with(&|own| {
                (own.first_stamp, own.stamps) = (Some(u32::MAX - 60_000_000), Stamps::Ticks(US));
            }),
        ),
        (
            "answers come in parts",
            with(&|own| (own.segments, own.apart) = (2, 2 * MS)),
        ),
        (
            "late acknowledgements of 200 ms",
            with(&|own| own.delayed = Some(200 * MS)),
        ),
        (
            "the same without timestamps",
            with(&|own| {
                (own.delayed, own.stamps) = (Some(200 * MS), Stamps::Absent);
            }),
        ),
    ]
}
