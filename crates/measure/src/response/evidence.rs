//! What an epoch of a flow showed, in the units of Rust.

use super::Estimator;
use super::estimate::ThinkTime;
use crate::response::native::{self, response_epoch, response_flow, response_mode, response_tcp};

/// What an epoch of a flow showed.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The gaps that count, together, in nanoseconds.
    pub(super) retained_ns: f64,
    /// How long clients waited in them, together, at least and at most, in nanoseconds; of TCP
    /// only.
    pub(super) shortest_ns: f64,
    pub(super) longest_ns: f64,
    /// What clients thought in them, where that is known.
    pub(super) think: Option<ThinkTime>,
    /// Gaps that ended with a request that a response triggered; of TCP only.
    pub(super) causal: u32,
    /// Those of these that are shorter than a round trip.
    pub(super) early: u32,
    /// What was sent before the first answer, when that was seen: what it usually is, and what it
    /// was the last time.
    pub(super) flight: Option<Flight>,
    pub(super) latest_flight: Option<Flight>,
    /// Bytes that the first answer after the latest flight triggered; 0 if that is not known.
    pub(super) first_burst_bytes: f64,
    /// The client's stack kept requests back, and sent them together.
    pub(super) holds_back: bool,
    /// Bytes of the requests that came after a gap that counts.
    pub(super) sent_bytes: f64,
    /// From the SYN to what answered the SYN-ACK, in nanoseconds, when it was seen.
    pub(super) handshake_ns: Option<f64>,
    /// Gaps that do not count: longer than a timeout.
    pub(super) timeouts: u32,
    /// Gaps that do not count: the client had its answer, and was silent.
    pub(super) idle: u32,
    /// Packets that were sent before.
    pub(super) repeated: u32,
    /// What hid requests among messages that are none.
    pub(super) seal: Seal,
    /// What the estimator kept.
    pub(super) gaps: Gaps,
}

/// What a client sent before the first answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) bytes: f64,
    pub(super) packets: u32,
}

/// How requests were told from what else clients send, acknowledgements and control frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    /// There was nothing to tell apart, or it was readable.
    None,
    /// Encrypted, and all that was sent in this epoch are requests.
    Transparent,
    /// By their length, of which the protocol tells (QUIC, HTTP/2).
    Sizes,
    /// By their length, the shortest being taken for acknowledgements: short requests beside long
    /// ones would look the same.
    Learnt,
    /// Encrypted, and lengths do not tell.
    Opaque,
}

/// What the estimator kept of the gaps.
#[derive(Debug, Clone)]
pub(super) enum Gaps {
    /// How many there are in each bin; see `split.h`.
    Bins([u16; native::RESPONSE_BINS as usize]),
    /// How many there are, and of those that end with a request that a response triggered, how many
    /// in each bin.
    Triggers {
        count: u16,
        causal: [u16; native::RESPONSE_BINS as usize],
    },
    /// Modes, and gaps for which there was none, with their sum in nanoseconds.
    Modes { modes: Vec<Mode>, discarded_ns: f64 },
    /// Samples, and their sum in nanoseconds.
    Batches { count: u32, sum_ns: f64 },
}

/// Gaps that are near each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) count: u32,
    /// Those of these that follow a packet that was not full.
    pub(super) candidates: u32,
    pub(super) sum_ns: f64,
}

impl Evidence {
    /// Reads an epoch that `estimator` kept.
    pub(super) fn read(epoch: &response_epoch, estimator: Estimator) -> Self {
        let flow = &epoch.flow;
        let is_tcp = epoch.key.protocol() == 6;
        let tcp = if is_tcp {
            flow.tcp()
        } else {
            response_tcp::default()
        };
        let has = |flag| u32::from(flow.flags) & flag != 0;
        let triggers = epoch.gaps.triggers();
        let flight = |bytes: u16, packets: u8| {
            let is_known = is_tcp && has(native::RESPONSE_HAS_FLIGHT);
            is_known.then(|| Flight {
                bytes: bytes.into(),
                packets: packets.into(),
            })
        };
        let think = ThinkTime::read(&tcp.echoes, epoch.end);
        let lags_ns = think.map_or(0.0, |think| think.lags_ns);
        // Where a clock ticks seldom, lags may be longer than gaps.
        let server_ns = f64::from(flow.retained.cast_signed()) * TICK_NS;
        Self {
            retained_ns: server_ns + lags_ns,
            shortest_ns: ns(tcp.low),
            longest_ns: server_ns + lags_ns - ns(tcp.silent),
            think: think.map(|think| {
                think.unless_late((server_ns + lags_ns) / f64::from(tcp.causal.max(1)))
            }),
            causal: tcp.causal.into(),
            early: tcp.early.into(),
            flight: flight(triggers.known, triggers.known_packets),
            latest_flight: flight(triggers.latest, triggers.latest_packets),
            first_burst_bytes: if has(native::RESPONSE_COUNTS_FLIGHT) {
                0.0
            } else {
                flow.flight.into()
            },
            holds_back: has(native::RESPONSE_HOLDS_BACK),
            sent_bytes: flow.sent.into(),
            handshake_ns: (tcp.handshake != 0).then_some(f64::from(tcp.handshake) * 8192.0),
            timeouts: flow.timeouts.into(),
            idle: flow.idle.into(),
            repeated: flow.repeated.into(),
            seal: Seal::read(flow, is_tcp),
            gaps: Gaps::read(epoch, estimator, is_tcp),
        }
    }

    /// What `acknowledged` is where nothing is.
    pub(super) fn applied(&self, estimator: Estimator) -> Estimator {
        match (estimator, &self.gaps) {
            (Estimator::Acknowledged, Gaps::Bins(_)) => Estimator::Split,
            _ => estimator,
        }
    }

    /// Were requests sent that no response triggered?
    pub(super) fn has_batches(&self) -> bool {
        self.requests() > self.causal
    }

    /// What clients waited in the gaps that count: all but what they thought.
    pub(super) fn waited_ns(&self) -> f64 {
        let thought_ns = self.thought_ns() * f64::from(self.causal);
        (self.retained_ns - thought_ns).max(0.0)
    }

    /// What the client thought before a request, on average, as far as that is known.
    pub(super) fn thought_ns(&self) -> f64 {
        self.think.map_or(0.0, |think| think.mean_ns)
    }

    /// How long the client had told before a request that it had its answer, on average.
    pub(super) fn silent_ns(&self) -> f64 {
        (self.retained_ns - self.longest_ns) / f64::from(self.causal.max(1))
    }

    /// Requests of the epoch that came after a gap that counts.
    pub(super) fn requests(&self) -> u32 {
        match &self.gaps {
            Gaps::Bins(counts) => counts.iter().map(|&count| u32::from(count)).sum(),
            Gaps::Triggers { count, .. } => (*count).into(),
            Gaps::Modes { modes, .. } => modes.iter().map(|mode| mode.count).sum(),
            Gaps::Batches { count, .. } => *count,
        }
    }
}

impl Seal {
    fn read(flow: &response_flow, is_tcp: bool) -> Self {
        let has = |flag| u32::from(flow.flags) & flag != 0;
        if !has(native::RESPONSE_IS_SEALED) {
            return Self::None;
        }
        let sizes = flow.sizes();
        if is_tcp {
            return if has(native::RESPONSE_HAS_SHORT) {
                Self::Sizes
            } else {
                Self::Transparent
            };
        }
        let used = |counts: &[u16]| counts.iter().filter(|&&count| count != 0).count();
        match (sizes.bound, used(&sizes.counts)) {
            (0, ..=1) => Self::Transparent,
            (0, _) => Self::Opaque,
            (bound, _) if u32::from(bound) == native::RESPONSE_QUIC_REQUEST_FROM => Self::Sizes,
            _ => Self::Learnt,
        }
    }
}

impl Gaps {
    fn read(epoch: &response_epoch, estimator: Estimator, is_tcp: bool) -> Self {
        use Estimator::{Acknowledged, Fixed, Modes, Split, Timestamps};
        match estimator {
            Timestamps | Acknowledged if is_tcp => {
                let triggers = epoch.gaps.triggers();
                let mut causal = [0; native::RESPONSE_BINS as usize];
                causal[..triggers.causal.len()].copy_from_slice(&triggers.causal);
                Self::Triggers {
                    count: triggers.count,
                    causal,
                }
            }
            Timestamps | Acknowledged | Split => Self::Bins(epoch.gaps.bins().counts),
            Modes => {
                let modes = epoch.gaps.modes();
                let used = modes.modes.iter().take_while(|mode| mode.count != 0);
                Self::Modes {
                    modes: used.map(Mode::from).collect(),
                    discarded_ns: ns(modes.discarded_time),
                }
            }
            Fixed => {
                let batches = epoch.gaps.batches();
                Self::Batches {
                    count: batches.count,
                    sum_ns: ns(batches.sum),
                }
            }
        }
    }
}

impl From<&response_mode> for Mode {
    fn from(mode: &response_mode) -> Self {
        Self {
            count: mode.count.into(),
            candidates: mode.candidates.into(),
            sum_ns: ns(mode.sum),
        }
    }
}

const TICK_NS: f64 = (1 << native::RESPONSE_TICK_SHIFT) as f64;

fn ns(ticks: u32) -> f64 {
    f64::from(ticks) * TICK_NS
}
