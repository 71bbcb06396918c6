//! What clients thought, by the timestamps that they echo, and how sure that is; `timestamps.h` has
//! the rules of a packet.

use crate::response::native::{
    RESPONSE_ECHO_DRIFT_SHIFT, RESPONSE_ECHO_FIRST, RESPONSE_ECHO_FIRST_SHIFT,
    RESPONSE_ECHO_IS_PROMPT, RESPONSE_ECHO_SHIFT, RESPONSE_LATE_SHIFT, RESPONSE_NO_LEAST,
    response_echoes,
};

/// As many times as precise as it is known, what clients waited may be off by.
const MARGIN: f64 = 3.0;
/// The least lag may be too low by so much, in nanoseconds: processors that handle packets of a
/// flow come to it in another order than that in which they read the clock. What is less may be no
/// thinking.
const DISORDER_NS: f64 = 100_000.0;
/// So much of a wait, packets may be late on their way here: lags that come to less, together, are
/// no thinking, if each is less than half of its gap.
const LATE: f64 = 0.15;
/// Of the gaps, in how many there may be other lags, for that to be so: a client that thinks does
/// so for short times, too.
const OFTEN: f64 = 0.25;
/// As many times as precise as it is known, at least, is a time that clients thought; less may be
/// none.
const SIGNIFICANT: f64 = 2.0;
/// The part of the gaps that may say nothing about think time.
const UNTOLD: f64 = 0.3;
/// The part of the causal gaps whose think time must be known.
const KNOWN: f64 = 0.7;
/// Of a wait, how far the least lag of an epoch may be above that of the connection, if ticks are
/// shorter.
const BASED: f64 = 0.05;

/// The same, for it to be of no account whether the way became longer, or the client thinks: the
/// middle is within a quarter of both.
const LONGER: f64 = 0.5;

/// What a client thought before it sent its next request, in an epoch.
#[derive(Debug, Clone, Copy)]
pub(in crate::response) struct ThinkTime {
    /// What all lags together had above the least one, in nanoseconds.
    pub(in crate::response) lags_ns: f64,
    /// On average; 0 where it is too short to be seen.
    pub(in crate::response) mean_ns: f64,
    /// The same where it is too short to be seen, too, and its standard deviation.
    pub(super) likely_ns: f64,
    pub(super) deviation_ns: f64,
    /// What of it may be lateness of the path, and in how many gaps there is more.
    late_ns: f64,
    thought: f64,
    /// How far that may be off, at most: by deviations of the average and of the least lag, and by
    /// drift.
    pub(super) margin_ns: f64,
    /// By how much the least lag of the epoch is above that of the connection: the client thought
    /// at least so long each time, or the way has become longer.
    least_ns: f64,
    /// By how much it is above that of the requests of the first epoch; 0 while there are none.
    grown_ns: f64,
    /// Gaps of which it is known, and those of which it is not although the clock was known.
    gaps: f64,
    untold: f64,
    tick_ns: f64,
    /// The least lag is that of an acknowledgement that nobody thinks before.
    is_prompt: bool,
}

impl ThinkTime {
    /// `None` where the clock of the server is not known.
    pub(in crate::response) fn read(echoes: &response_echoes, end: u64) -> Option<Self> {
        if echoes.tick == 0 || echoes.gaps == 0 {
            return None;
        }
        let (gaps, tick_ns) = (f64::from(echoes.gaps), f64::from(echoes.tick));
        let lags_ns = units(f64::from(echoes.think));
        // Of so many lags, none of which was thought, the least is so far above the least that
        // there can be; they are half a tick above it on average. (What is a tick or more above the
        // least was thought, and tells nothing of it.)
        let seen = f64::from(echoes.seen);
        let above_least = tick_ns / (seen + 1.0);
        let above_least_deviation = above_least * (seen / (seen + 2.0)).sqrt();
        let mean_ns = lags_ns / gaps - (tick_ns / 2.0 - above_least);
        let late_ns = units(f64::from(echoes.late)) * f64::from(1 << RESPONSE_LATE_SHIFT) / gaps
            - (tick_ns / 2.0 - above_least);
        // Half a tick, if requests keep no step with the clock.
        let phase_ns = units(f64::from(echoes.phases)) / gaps;
        let step_ns = (phase_ns - tick_ns / 2.0).abs();
        let least = Some(echoes.least).filter(|&least| least != RESPONSE_NO_LEAST);
        let least_ns = units(f64::from(least.unwrap_or_default()));
        let age = ((end >> RESPONSE_ECHO_SHIFT) as u32).wrapping_sub(echoes.base_time);
        let drift_ns = least_ns.min(units(f64::from(age >> RESPONSE_ECHO_DRIFT_SHIFT)));
        let average_ns = step_ns.max(tick_ns / (12.0 * gaps).sqrt());
        let is_thought = mean_ns > SIGNIFICANT * (average_ns + above_least + drift_ns);
        let is_seen = is_thought && mean_ns > DISORDER_NS;
        let unseen_ns = if is_thought && !is_seen { mean_ns } else { 0.0 };
        let margin_ns = MARGIN * (average_ns + above_least_deviation + unseen_ns) + drift_ns;
        Some(Self {
            lags_ns,
            mean_ns: if is_seen { mean_ns } else { 0.0 },
            likely_ns: mean_ns.max(0.0),
            deviation_ns: average_ns.hypot(above_least_deviation),
            late_ns: late_ns.clamp(0.0, mean_ns.max(0.0)),
            thought: echoes.thought.into(),
            margin_ns,
            least_ns,
            grown_ns: grown_ns(least_ns, u32::from(echoes.first) & RESPONSE_ECHO_FIRST),
            gaps,
            untold: echoes.untold.into(),
            tick_ns,
            is_prompt: u32::from(echoes.first) & RESPONSE_ECHO_IS_PROMPT != 0,
        })
    }

    /// Without what may be lateness of the path, if that is a small part of what is waited in gaps
    /// that take so long on average.
    pub(in crate::response) fn unless_late(self, gap_ns: f64) -> Self {
        let is_late = self.is_rare() && self.late_ns < LATE * (gap_ns - self.mean_ns);
        if self.mean_ns == 0.0 || !is_late {
            return self;
        }
        Self {
            mean_ns: self.mean_ns - self.late_ns,
            likely_ns: self.likely_ns - self.late_ns,
            late_ns: 0.0,
            margin_ns: self.margin_ns + self.late_ns,
            ..self
        }
    }

    /// What lags come to that no usual lateness explains, on average, if few gaps have one.
    pub(super) fn rare_ns(&self) -> f64 {
        if self.is_rare() {
            self.mean_ns - self.late_ns
        } else {
            0.0
        }
    }

    /// By how much longer the way may have become, if clients waited so long with what it was: by
    /// what the least lag of the epoch is above the first requests', since a client that thinks
    /// for some time each time does so from the start. Where that would make much of a difference,
    /// the client is taken to think for longer.
    pub(super) fn longer_ns(&self, wait_ns: f64) -> f64 {
        if self.is_near_base(wait_ns) || self.grown_ns > LONGER * wait_ns {
            0.0
        } else {
            self.grown_ns
        }
    }

    fn is_rare(&self) -> bool {
        self.thought < OFTEN * self.gaps
    }

    /// Is it known of most of the epoch's causal gaps?
    pub(super) fn is_known(&self, causal: u32) -> bool {
        self.untold <= UNTOLD * (self.gaps + self.untold) && self.gaps >= KNOWN * f64::from(causal)
    }

    /// Can it be excluded that the client thought longer each time than its least lag tells, or
    /// that the way became longer, if waits take so long?
    pub(super) fn is_based(&self, wait_ns: f64) -> bool {
        self.is_prompt && self.is_near_base(wait_ns)
    }

    /// Did any packet of the epoch come about as promptly as the promptest of the connection?
    pub(super) fn is_near_base(&self, wait_ns: f64) -> bool {
        self.least_ns <= self.tick_ns.max(BASED * wait_ns)
    }
}

fn grown_ns(least_ns: f64, first: u32) -> f64 {
    if first == 0 || first == RESPONSE_ECHO_FIRST {
        0.0
    } else {
        (least_ns - units(f64::from(first << RESPONSE_ECHO_FIRST_SHIFT))).max(0.0)
    }
}

/// In nanoseconds.
fn units(number: f64) -> f64 {
    number * f64::from(1 << RESPONSE_ECHO_SHIFT)
}
