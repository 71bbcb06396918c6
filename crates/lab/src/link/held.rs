//! Packets on their way through the link, in order of release.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most packets one direction holds: two seconds at 100,000 packets a second.
const MAXIMUM_HELD: usize = 200_000;

/// A packet that waits for its release; the order of the fields is the order of release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due_ns: u64,
    order: u64,
    packet: Packet,
}

/// A packet in a slot of [`Held`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packet {
    slot: u32,
    length_bytes: u32,
    pub(crate) record: Option<u32>,
    pub(crate) is_duplicated: bool,
}

/// A priority queue of packets whose buffers are allocated once and used again.
#[derive(Debug)]
pub(crate) struct Held {
    queue: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Box<[u8]>>,
    free: Vec<u32>,
    /// The slot the next packet is read into.
    incoming: u32,
    slot_bytes: usize,
    order: u64,
}

impl Held {
    /// An empty queue of packets of at most `slot_bytes`.
    pub(crate) fn new(slot_bytes: usize) -> Self {
        Self {
            queue: BinaryHeap::new(),
            slots: vec![vec![0; slot_bytes].into()],
            free: Vec::new(),
            incoming: 0,
            slot_bytes,
            order: 0,
        }
    }

    /// Where to read the next packet to; it stays there until [`Held::hold`].
    pub(crate) fn incoming(&mut self) -> &mut [u8] {
        &mut self.slots[self.incoming as usize]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MAXIMUM_HELD
    }

    /// Keeps the packet of `length_bytes` in the incoming slot until `due_ns`.
    pub(crate) fn hold(
        &mut self,
        length_bytes: usize,
        due_ns: u64,
        record: Option<u32>,
        is_duplicated: bool,
    ) {
        let packet = Packet {
            slot: self.incoming,
            length_bytes: length_bytes as u32,
            record,
            is_duplicated,
        };
        self.order += 1;
        self.queue.push(Reverse(Entry {
            due_ns,
            order: self.order,
            packet,
        }));
        self.incoming = self.free.pop().unwrap_or_else(|| {
            self.slots.push(vec![0; self.slot_bytes].into());
            (self.slots.len() - 1) as u32
        });
    }

    /// When the next packet is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.queue.peek().map(|entry| entry.0.due_ns)
    }

    /// Takes the next packet if it is due; its bytes are valid until [`Held::release`].
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Packet> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.queue.pop().map(|entry| entry.0.packet)
    }

    pub(crate) fn bytes(&self, packet: Packet) -> &[u8] {
        &self.slots[packet.slot as usize][..packet.length_bytes as usize]
    }

    /// Gives the slot of a taken packet back.
    pub(crate) fn release(&mut self, packet: Packet) {
        self.free.push(packet.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_out_by_time_then_arrival(dues in prop::collection::vec(0_u64..20, 0..100)) {
            let mut held = Held::new(4);
            for (number, due_ns) in dues.iter().enumerate() {
                held.incoming().copy_from_slice(&(number as u32).to_be_bytes());
                held.hold(4, *due_ns, None, false);
            }
            let mut released = Vec::new();
            for now_ns in 0..20 {
                while let Some(packet) = held.take_due(now_ns) {
                    let number = u32::from_be_bytes(held.bytes(packet).try_into().unwrap());
                    prop_assert_eq!(dues[number as usize], now_ns);
                    released.push((now_ns, number));
                    held.release(packet);
                }
            }
            prop_assert_eq!(released.len(), dues.len());
            prop_assert!(released.is_sorted());
        }
    }

    #[test]
    fn slots_are_used_again() {
        let mut held = Held::new(1);
        for _ in 0..100 {
            held.hold(1, 0, None, false);
            let packet = held.take_due(0).unwrap();
            held.release(packet);
        }
        assert!(held.slots.len() <= 2);
    }
}
