//! How much a sender may have in flight: congestion window, SACK scoreboard and retransmission
//! timeout, in whole segments.

use std::collections::VecDeque;

/// RFC 6928.
const INITIAL_WINDOW_SEGMENTS: f64 = 10.0;
/// A segment counts as lost when this many after it have arrived (RFC 6675).
const LOST_AFTER_SEGMENTS: u32 = 3;
/// The least distance between the smoothed round trip and the timeout, as in Linux.
const SHORTEST_TIMEOUT_MARGIN_NS: f64 = 200e6;
const INITIAL_TIMEOUT_NS: f64 = 1e9;

/// A segment that the window allows to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmission {
    pub(super) index: u32,
    pub(super) is_retransmission: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    /// Given up, and to be sent again.
    Lost,
    /// Sent again; only a timeout gives it up once more.
    Resent,
    Sacked,
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    sent_at_ns: u64,
    state: State,
    was_resent: bool,
}

/// `NewReno` (RFC 5681) with the pipe algorithm of RFC 6675, counting segments instead of bytes.
#[derive(Debug)]
pub(super) struct Window {
    segments: u32,
    /// Index of the first of `outstanding`: all before it are acknowledged.
    first: u32,
    outstanding: VecDeque<Outstanding>,
    /// How many of `outstanding` are believed to be in the network.
    in_flight: u32,
    has_holes: bool,
    /// The congestion window.
    allowed_segments: f64,
    slow_start_threshold: f64,
    /// While recovering, the index that ends the recovery when acknowledged.
    recovery_end: Option<u32>,
    smoothed_rtt_ns: Option<f64>,
    rtt_variation_ns: f64,
    backoff: u32,
    deadline_ns: Option<u64>,
}

impl Window {
    /// A window over segments numbered from 0 to `segments` (excluded).
    pub(super) fn new(segments: u32) -> Self {
        Self {
            segments,
            first: 0,
            outstanding: VecDeque::new(),
            in_flight: 0,
            has_holes: false,
            allowed_segments: INITIAL_WINDOW_SEGMENTS,
            slow_start_threshold: f64::INFINITY,
            recovery_end: None,
            smoothed_rtt_ns: None,
            rtt_variation_ns: 0.0,
            backoff: 0,
            deadline_ns: None,
        }
    }

    /// When the oldest segment counts as lost, if no acknowledgement comes.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Takes an acknowledgement of all segments before `next`, and of the ranges of `blocks`.
    pub(super) fn acknowledge(&mut self, now_ns: u64, next: u32, blocks: &[Option<(u32, u32)>]) {
        let newly_acknowledged = next
            .saturating_sub(self.first)
            .min(self.outstanding.len() as u32);
        let mut rtt_ns = None;
        for segment in self.outstanding.drain(..newly_acknowledged as usize) {
            // Neither Karn's ambiguity nor the wait for a hole belongs into the estimate.
            rtt_ns = (!segment.was_resent && segment.state == State::InFlight)
                .then(|| now_ns - segment.sent_at_ns);
        }
        self.first += newly_acknowledged;
        if let Some(rtt_ns) = rtt_ns {
            self.update_timeout(rtt_ns as f64);
        }
        self.mark_sacked(blocks);
        self.mark_lost();
        if newly_acknowledged > 0 {
            self.backoff = 0;
            if self.recovery_end.is_some_and(|end| self.first >= end) {
                self.recovery_end = None;
            }
            if self.recovery_end.is_none() {
                self.grow(f64::from(newly_acknowledged));
            }
            self.restart_timer(now_ns);
        }
    }

    /// The next segment to send, if the window allows one.
    pub(super) fn transmit(&mut self, now_ns: u64) -> Option<Transmission> {
        if f64::from(self.in_flight) + 1.0 > self.allowed_segments {
            return None;
        }
        let lost = self
            .has_holes
            .then(|| {
                self.outstanding
                    .iter()
                    .position(|segment| segment.state == State::Lost)
            })
            .flatten();
        let transmission = if let Some(position) = lost {
            self.outstanding[position] = Outstanding {
                sent_at_ns: now_ns,
                state: State::Resent,
                was_resent: true,
            };
            Transmission {
                index: self.first + position as u32,
                is_retransmission: true,
            }
        } else {
            let index = self.first + self.outstanding.len() as u32;
            if index >= self.segments {
                return None;
            }
            self.outstanding.push_back(Outstanding {
                sent_at_ns: now_ns,
                state: State::InFlight,
                was_resent: false,
            });
            Transmission {
                index,
                is_retransmission: false,
            }
        };
        self.in_flight += 1;
        if self.deadline_ns.is_none() {
            self.restart_timer(now_ns);
        }
        Some(transmission)
    }

    /// Gives up all that is outstanding and starts again with one segment.
    pub(super) fn timeout(&mut self, now_ns: u64) {
        self.slow_start_threshold = (f64::from(self.in_flight) / 2.0).max(2.0);
        self.allowed_segments = 1.0;
        self.recovery_end = None;
        for segment in self
            .outstanding
            .iter_mut()
            .filter(|segment| segment.state != State::Sacked)
        {
            segment.state = State::Lost;
        }
        self.in_flight = 0;
        self.has_holes = true;
        self.backoff += 1;
        self.restart_timer(now_ns);
    }

    fn mark_sacked(&mut self, blocks: &[Option<(u32, u32)>]) {
        for &(start, end) in blocks.iter().flatten() {
            let start = (start.saturating_sub(self.first) as usize).min(self.outstanding.len());
            let end = (end.saturating_sub(self.first) as usize).min(self.outstanding.len());
            for segment in self.outstanding.range_mut(start..end.max(start)) {
                segment.state = State::Sacked;
                self.has_holes = true;
            }
        }
    }

    /// Finds what is lost, counts what is in flight, and halves the window once for each round of
    /// losses.
    fn mark_lost(&mut self) {
        if !self.has_holes {
            self.in_flight = self.outstanding.len() as u32;
            return;
        }
        let (mut sacked_after, mut in_flight, mut has_new_loss) = (0, 0, false);
        self.has_holes = false;
        for segment in self.outstanding.iter_mut().rev() {
            match segment.state {
                State::InFlight if sacked_after >= LOST_AFTER_SEGMENTS => {
                    segment.state = State::Lost;
                    has_new_loss = true;
                }
                State::InFlight | State::Resent => in_flight += 1,
                State::Sacked => sacked_after += 1,
                State::Lost => {}
            }
            self.has_holes |= segment.state != State::InFlight;
        }
        if has_new_loss && self.recovery_end.is_none() {
            self.recovery_end = Some(self.first + self.outstanding.len() as u32);
            self.slow_start_threshold = (self.allowed_segments / 2.0).max(2.0);
            self.allowed_segments = self.slow_start_threshold;
        }
        self.in_flight = in_flight;
    }

    fn grow(&mut self, newly_acknowledged: f64) {
        if self.allowed_segments < self.slow_start_threshold {
            self.allowed_segments += newly_acknowledged.min(2.0);
        } else {
            self.allowed_segments += newly_acknowledged / self.allowed_segments;
        }
    }

    /// RFC 6298.
    fn update_timeout(&mut self, rtt_ns: f64) {
        match self.smoothed_rtt_ns {
            None => {
                self.smoothed_rtt_ns = Some(rtt_ns);
                self.rtt_variation_ns = rtt_ns / 2.0;
            }
            Some(smoothed_rtt_ns) => {
                self.rtt_variation_ns =
                    0.75 * self.rtt_variation_ns + 0.25 * (smoothed_rtt_ns - rtt_ns).abs();
                self.smoothed_rtt_ns = Some(0.875 * smoothed_rtt_ns + 0.125 * rtt_ns);
            }
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "a sum of positive times")]
    fn restart_timer(&mut self, now_ns: u64) {
        let timeout_ns = self
            .smoothed_rtt_ns
            .map_or(INITIAL_TIMEOUT_NS, |smoothed_rtt_ns| {
                smoothed_rtt_ns + (4.0 * self.rtt_variation_ns).max(SHORTEST_TIMEOUT_MARGIN_NS)
            });
        let timeout_ns = (timeout_ns as u64) << self.backoff.min(6);
        self.deadline_ns = (!self.outstanding.is_empty()).then(|| now_ns + timeout_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(window: &mut Window, now_ns: u64) -> Vec<Transmission> {
        std::iter::from_fn(|| window.transmit(now_ns)).collect()
    }

    #[test]
    fn slow_start_doubles_the_window() {
        let mut window = Window::new(1000);
        assert_eq!(sent(&mut window, 0).len(), 10);
        for next in (2..=10).step_by(2) {
            window.acknowledge(10_000_000, next, &[]);
        }
        assert_eq!(sent(&mut window, 10_000_000).len(), 20);
    }

    #[test]
    fn three_segments_after_a_hole_make_it_lost_once() {
        let mut window = Window::new(1000);
        sent(&mut window, 0);
        for end in 2..=10 {
            window.acknowledge(10, 0, &[Some((1, end))]);
        }
        let again = sent(&mut window, 10);
        assert_eq!(
            again[0],
            Transmission {
                index: 0,
                is_retransmission: true
            }
        );
        assert!(
            again[1..]
                .iter()
                .all(|transmission| !transmission.is_retransmission)
        );
        assert!((window.allowed_segments - 5.0).abs() < 1e-9);
        window.acknowledge(20, 10, &[]);
        assert!(window.recovery_end.is_none());
    }

    #[test]
    fn a_timeout_sends_the_first_segment_again_and_backs_off() {
        let mut window = Window::new(1000);
        sent(&mut window, 0);
        assert_eq!(window.deadline_ns(), Some(1_000_000_000));
        window.timeout(1_000_000_000);
        assert_eq!(
            sent(&mut window, 1_000_000_000),
            [Transmission {
                index: 0,
                is_retransmission: true
            }]
        );
        assert_eq!(window.deadline_ns(), Some(3_000_000_000));
    }

    #[test]
    fn nothing_is_outstanding_after_the_last_acknowledgement() {
        let mut window = Window::new(3);
        assert_eq!(sent(&mut window, 0).len(), 3);
        window.acknowledge(5, 3, &[]);
        assert_eq!(window.deadline_ns(), None);
        assert_eq!(window.transmit(5), None);
    }
}
