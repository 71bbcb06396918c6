//! What a script knows of the kernel's side of a connection.

use super::options::TcpOptions;
use super::segment::Segment;

/// What the kernel told on one connection.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Its ISS.
    pub(super) initial_sequence: u32,
    /// The options of its SYN.
    pub(super) offered: TcpOptions,
    /// All sequence numbers before were received.
    pub(super) next: u32,
    /// Starts and ends of what was received beyond a gap.
    beyond: Vec<(u32, u32)>,
    /// The latest TSval.
    pub(super) clock: u32,
}

impl Kernel {
    /// What a SYN tells.
    pub(super) fn new(syn: &Segment) -> Self {
        Self {
            initial_sequence: syn.sequence,
            offered: syn.options.clone(),
            next: syn.sequence,
            beyond: Vec::new(),
            clock: 0,
        }
    }

    /// The place of a sequence number in the kernel's payload.
    pub(super) fn offset(&self, sequence: u32) -> u32 {
        sequence.wrapping_sub(self.initial_sequence.wrapping_add(1))
    }

    /// Takes note of another segment, or of the SYN.
    pub(super) fn observe(&mut self, segment: &Segment) {
        if let Some(timestamps) = segment.options.timestamps {
            self.clock = timestamps.value;
        }
        let (from, to) = (segment.sequence, segment.sequence_end());
        if from != to {
            self.beyond.push((from, to));
        }
        let touching = |beyond: &[(u32, u32)], next| {
            let ends = beyond.iter().filter(|(from, _)| !is_after(*from, next));
            ends.map(|(_, to)| *to).find(|to| is_after(*to, next))
        };
        while let Some(end) = touching(&self.beyond, self.next) {
            self.next = end;
        }
        self.beyond.retain(|(_, to)| is_after(*to, self.next));
    }
}

/// Whether `sequence` comes after `other` (RFC 9293 §3.4).
pub(super) fn is_after(sequence: u32, other: u32) -> bool {
    sequence.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::TcpFlags;
    use proptest::prelude::*;

    fn segment(flags: TcpFlags, sequence: u32, length: usize) -> Segment {
        Segment {
            source: "10.78.0.1:80".parse().unwrap(),
            destination: "10.78.0.2:4000".parse().unwrap(),
            sequence,
            acknowledgement: 0,
            flags,
            window: 0,
            options: TcpOptions::default(),
            payload: vec![0; length],
            has_right_checksum: true,
        }
    }

    proptest! {
        #[test]
        fn any_order_with_duplicates_is_received_whole(
            initial_sequence: u32,
            order in Just((0..20_u32).chain(5..15).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut kernel = Kernel::new(&segment(TcpFlags::SYN, initial_sequence, 0));
            let mut arrived = [false; 20];
            kernel.observe(&segment(TcpFlags::SYN, initial_sequence, 0));
            for place in order {
                // Each overlaps the one after by half.
                let sequence = initial_sequence.wrapping_add(1 + place * 50);
                kernel.observe(&segment(TcpFlags::ACK, sequence, 100));
                arrived[place as usize] = true;
                let mut end = 0;
                for start in (0..20).filter(|start| arrived[*start as usize]) {
                    if start * 50 <= end {
                        end = start * 50 + 100;
                    }
                }
                prop_assert_eq!(kernel.offset(kernel.next), end);
            }
            prop_assert!(kernel.beyond.is_empty());
        }
    }
}
