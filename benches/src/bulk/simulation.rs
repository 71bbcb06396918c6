//! The event loop: hosts, their links, the bottleneck, and the capture point in front of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::net::SocketAddr;

use fathom_lab::Sequence;

use super::BulkTotals;
use super::endpoint::{Host, Outgoing};
use super::sink::Sink;
use super::source::Source;
use crate::Error;
use crate::recorder::{Direction, Measured, Passing, Recorder};
use crate::wire::Segment;

const BOTTLENECK_BITS_PER_SECOND: u64 = 300_000_000;
const QUEUE_BYTES: u64 = 2_000_000;
/// The sending hosts' own links: 1 Gbit/s.
const HOST_NS_PER_BYTE: u64 = 8;
/// The longest pause of a sending host before a segment, which keeps the flows from marching in
/// step.
const HOST_PAUSE_NS: u64 = 3_000;

/// The delays of one transfer, one way, without serialisation and queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Between the sending host and the capture point.
    pub(super) near_ns: u64,
    /// Between the capture point and the receiving host.
    pub(super) far_ns: u64,
}

/// A drop-tail queue in front of a link of fixed rate.
#[derive(Debug, Default)]
struct Bottleneck {
    free_at_ns: u64,
    dropped_packets: u64,
}

impl Bottleneck {
    /// When the last bit of a packet that arrives now has left; none if the queue has no room.
    fn pass(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        let start_ns = self.free_at_ns.max(now_ns);
        let queued_bytes = (start_ns - now_ns) * BOTTLENECK_BITS_PER_SECOND / 8_000_000_000;
        if queued_bytes + bytes > QUEUE_BYTES {
            self.dropped_packets += 1;
            return None;
        }
        self.free_at_ns = start_ns + bytes * 8_000_000_000 / BOTTLENECK_BITS_PER_SECOND;
        Some(self.free_at_ns)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Where the source is.
    Left,
    /// Where the sink is.
    Right,
}

#[derive(Debug)]
enum Event {
    /// A packet comes to the capture point.
    Capture {
        transfer: usize,
        from: Side,
        frame_bytes: u64,
        passing: Passing,
    },
    /// A host has something to do.
    Wake {
        transfer: usize,
        side: Side,
        cause: Cause,
    },
}

#[derive(Debug, Clone, Copy)]
enum Cause {
    Start,
    Timer,
    Arrival {
        segment: Segment,
        measured: Measured,
    },
}

/// An event with its time; equal times keep the order in which they were scheduled.
#[derive(Debug)]
struct Scheduled {
    at_ns: u64,
    order: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

#[derive(Debug)]
struct Transfer {
    flow: usize,
    left: SocketAddr,
    source: Source,
    sink: Sink,
    path: Path,
    is_upload: bool,
    left_link_free_at_ns: u64,
    /// The earliest timer event that is scheduled, by side.
    timers_ns: [Option<u64>; 2],
}

impl Transfer {
    fn direction(&self, from: Side) -> Direction {
        if self.is_upload == (from == Side::Left) {
            Direction::ToServer
        } else {
            Direction::ToClient
        }
    }
}

/// All transfers, the bottleneck they share, and what is going to happen.
#[derive(Debug)]
pub(super) struct Simulation<'recorder, C: Write, T: Write> {
    recorder: &'recorder mut Recorder<C, T>,
    random: Sequence,
    transfers: Vec<Transfer>,
    bottleneck: Bottleneck,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled_events: u64,
    outgoing: Vec<Outgoing>,
}

impl<'recorder, C: Write, T: Write> Simulation<'recorder, C, T> {
    pub(super) fn new(recorder: &'recorder mut Recorder<C, T>, random: Sequence) -> Self {
        Self {
            recorder,
            random,
            transfers: Vec::new(),
            bottleneck: Bottleneck::default(),
            events: BinaryHeap::new(),
            scheduled_events: 0,
            outgoing: Vec::new(),
        }
    }

    /// Adds a transfer from the left address to the right one, which begins at `start_ns`.
    pub(super) fn add_transfer(
        &mut self,
        left: SocketAddr,
        right: SocketAddr,
        source: Source,
        sink: Sink,
        path: Path,
        start_ns: u64,
    ) {
        let is_upload = source.is_client();
        let (client, server) = if is_upload {
            (left, right)
        } else {
            (right, left)
        };
        let flow = self.recorder.add_flow(client, server);
        let transfer = self.transfers.len();
        let timers_ns = [None; 2];
        self.transfers.push(Transfer {
            flow,
            left,
            source,
            sink,
            path,
            is_upload,
            left_link_free_at_ns: 0,
            timers_ns,
        });
        for side in [Side::Left, Side::Right] {
            self.schedule(
                start_ns,
                Event::Wake {
                    transfer,
                    side,
                    cause: Cause::Start,
                },
            );
        }
    }

    /// Lets everything happen, until all transfers are closed.
    pub(super) fn run(mut self) -> Result<BulkTotals, Error> {
        let mut now_ns = 0;
        while let Some(Reverse(scheduled)) = self.events.pop() {
            match scheduled.event {
                Event::Capture {
                    transfer,
                    from,
                    frame_bytes,
                    passing,
                } => {
                    now_ns = scheduled.at_ns;
                    self.capture(now_ns, transfer, from, frame_bytes, passing)?;
                }
                Event::Wake {
                    transfer,
                    side,
                    cause,
                } => self.wake(scheduled.at_ns, transfer, side, cause),
            }
        }
        Ok(BulkTotals {
            dropped_packets: self.bottleneck.dropped_packets,
            duration_ns: now_ns,
        })
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.scheduled_events += 1;
        self.events.push(Reverse(Scheduled {
            at_ns,
            order: self.scheduled_events,
            event,
        }));
    }

    /// A packet passes the capture point; towards the right it meets the queue next.
    fn capture(
        &mut self,
        now_ns: u64,
        transfer: usize,
        from: Side,
        frame_bytes: u64,
        mut passing: Passing,
    ) -> Result<(), Error> {
        let path = self.transfers[transfer].path;
        let (at, transit_ns) = match from {
            Side::Left => {
                let departure_ns = self.bottleneck.pass(now_ns, frame_bytes);
                (
                    Side::Right,
                    departure_ns.map(|departure_ns| departure_ns - now_ns + path.far_ns),
                )
            }
            Side::Right => (Side::Left, Some(path.near_ns)),
        };
        passing.transit_ns = transit_ns;
        let measured = self.recorder.record(now_ns, &passing)?;
        if let Some(transit_ns) = transit_ns {
            self.schedule(
                now_ns + transit_ns,
                Event::Wake {
                    transfer,
                    side: at,
                    cause: Cause::Arrival {
                        segment: passing.segment,
                        measured,
                    },
                },
            );
        }
        Ok(())
    }

    /// Lets a host act, and sends what it wants to send.
    fn wake(&mut self, now_ns: u64, index: usize, side: Side, cause: Cause) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let transfer = &mut self.transfers[index];
        let host: &mut dyn Host = match side {
            Side::Left => &mut transfer.source,
            Side::Right => &mut transfer.sink,
        };
        match cause {
            Cause::Start => host.start(now_ns, &mut outgoing),
            Cause::Timer => {
                transfer.timers_ns[side as usize] = None;
                // A deadline may have moved on since its timer was scheduled.
                if host
                    .deadline_ns()
                    .is_some_and(|deadline_ns| deadline_ns <= now_ns)
                {
                    host.timeout(now_ns, &mut outgoing);
                }
            }
            Cause::Arrival { segment, measured } => {
                host.receive(now_ns, &segment, measured, &mut outgoing);
            }
        }
        let deadline_ns = host.deadline_ns();
        for packet in outgoing.drain(..) {
            self.send(now_ns, index, side, packet);
        }
        self.outgoing = outgoing;
        self.update_timer(index, side, deadline_ns);
    }

    fn send(&mut self, now_ns: u64, index: usize, from: Side, packet: Outgoing) {
        let Outgoing {
            segment,
            is_retransmission,
            answers,
        } = packet;
        let pause_ns = if segment.payload_bytes > 0 {
            self.random.below(HOST_PAUSE_NS)
        } else {
            0
        };
        let transfer = &mut self.transfers[index];
        let frame_bytes = segment.frame_bytes(transfer.left.ip()) as u64;
        let at_ns = match from {
            Side::Left => {
                let start_ns = transfer.left_link_free_at_ns.max(now_ns);
                transfer.left_link_free_at_ns =
                    start_ns + frame_bytes * HOST_NS_PER_BYTE + pause_ns;
                transfer.left_link_free_at_ns + transfer.path.near_ns
            }
            Side::Right => now_ns + transfer.path.far_ns,
        };
        let passing = Passing {
            flow: transfer.flow,
            direction: transfer.direction(from),
            segment,
            is_retransmission,
            sent_at_ns: now_ns,
            transit_ns: None,
            answers,
        };
        self.schedule(
            at_ns,
            Event::Capture {
                transfer: index,
                from,
                frame_bytes,
                passing,
            },
        );
    }

    fn update_timer(&mut self, index: usize, side: Side, deadline_ns: Option<u64>) {
        let Some(deadline_ns) = deadline_ns else {
            return;
        };
        let timer_ns = &mut self.transfers[index].timers_ns[side as usize];
        if timer_ns.is_none_or(|timer_ns| deadline_ns < timer_ns) {
            *timer_ns = Some(deadline_ns);
            let event = Event::Wake {
                transfer: index,
                side,
                cause: Cause::Timer,
            };
            self.schedule(deadline_ns, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_holds_two_megabytes_and_drains_at_its_rate() {
        let mut bottleneck = Bottleneck::default();
        let mut last_ns = 0;
        let mut accepted = 0;
        while let Some(departure_ns) = bottleneck.pass(0, 1500) {
            assert_eq!(departure_ns - last_ns, 40_000);
            last_ns = departure_ns;
            accepted += 1;
        }
        assert_eq!(accepted, QUEUE_BYTES / 1500);
        assert_eq!(bottleneck.dropped_packets, 1);
        assert_eq!(bottleneck.pass(40_000, 1500), Some(last_ns + 40_000));
    }
}
