//! Flows as a writer last showed them.

use std::net::IpAddr;

use super::line::Line;
use crate::FlowKey;

/// What was written of recent flows: most records are about a flow that had one before, and copying
/// is faster than making digits.
///
/// Each flow has one slot, by its hash, which it takes from whichever flow had it.
#[derive(Debug, Clone)]
pub(super) struct ShownFlows {
    slots: Box<[Slot; SLOTS]>,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    flow: Option<FlowKey>,
    shown: Vec<u8>,
}

const SLOTS: usize = 1024;

impl Default for ShownFlows {
    fn default() -> Self {
        Self {
            slots: Box::new(std::array::from_fn(|_| Slot::default())),
        }
    }
}

impl ShownFlows {
    /// Appends what was kept of this flow; says whether there was something.
    #[inline]
    pub(super) fn put(&self, line: &mut Line, flow: &FlowKey) -> bool {
        let slot = &self.slots[hash(flow) as usize % SLOTS];
        let is_known = slot.flow.as_ref() == Some(flow);
        if is_known {
            line.any_slice(&slot.shown);
        }
        is_known
    }

    /// Keeps how the line shows this flow, from `start` to its end.
    pub(super) fn keep(&mut self, flow: &FlowKey, line: &Line, start: usize) {
        let slot = &mut self.slots[hash(flow) as usize % SLOTS];
        slot.flow = Some(*flow);
        slot.shown.clear();
        slot.shown.extend_from_slice(&line.bytes()[start..]);
    }
}

/// The upper half of a product depends on all bits of its factor.
fn hash(flow: &FlowKey) -> u64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let ports = u64::from(flow.source_port) << 16 | u64::from(flow.destination_port);
    let source = (folded(flow.source) ^ ports << 32).wrapping_mul(GOLDEN_RATIO);
    let destination = folded(flow.destination).wrapping_add(source.rotate_left(32));
    destination.wrapping_mul(GOLDEN_RATIO) >> 32
}

fn folded(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    #[test]
    fn more_flows_than_places_are_never_mistaken() {
        let mut flows = ShownFlows::default();
        let mut known = 0;
        for round in 0..2 {
            for number in 0..4 * SLOTS as u32 {
                let flow = FlowKey {
                    protocol: Protocol::TCP,
                    source: IpAddr::V4((0x0a00_0000 + number).into()),
                    source_port: 5000,
                    destination: IpAddr::V6(u128::from(number % 7).into()),
                    destination_port: 443,
                };
                let mut line = Line::default();
                for _ in 0..2 {
                    line.restart();
                    if flows.put(&mut line, &flow) {
                        known += 1;
                    } else {
                        line.slice(flow.to_string().as_bytes());
                        flows.keep(&flow, &line, 0);
                    }
                    assert_eq!(line.bytes(), flow.to_string().as_bytes(), "{round}");
                }
            }
        }
        assert!(known >= 8 * SLOTS);
    }
}
