//! Early signals between epochs: flows whose last request has been unanswered for long.

use std::collections::HashMap;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};

use super::ResponseWait;
use super::engine::waiting;
use crate::flow::{flow_of, tags};
use crate::native::flow_key;
use crate::replay::Interfaces;
use crate::response::native::response_flow;

/// Waits that were reported.
#[derive(Debug, Default)]
pub(super) struct Waits {
    told: HashMap<flow_key, ReportedWait>,
}

/// The last report of a flow.
#[derive(Debug, Clone, Copy)]
struct ReportedWait {
    /// When the request passed that is unanswered.
    since: u64,
    /// The wait at which it is reported again.
    next_ns: u64,
}

/// A scan of all flows.
pub(super) struct WaitScan<'a> {
    waits: &'a mut Waits,
    /// Earlier reports: only flows that still wait are remembered.
    before: HashMap<flow_key, ReportedWait>,
    limit_ns: u64,
    now: u64,
    offset: u64,
}

impl Waits {
    /// Begins one, at `now`; `offset` makes that the time since 1970.
    pub(super) fn look(&mut self, limit: Duration, now: u64, offset: u64) -> WaitScan<'_> {
        WaitScan {
            before: std::mem::take(&mut self.told),
            waits: self,
            limit_ns: Nanoseconds::from(limit).0,
            now,
            offset,
        }
    }
}

impl WaitScan<'_> {
    /// A flow, and what is kept of it.
    pub(super) fn at(
        &mut self,
        key: &flow_key,
        flow: &response_flow,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(ResponseWait),
    ) {
        let Some(wait) = waiting(key, flow, self.now).filter(|wait| wait.0 >= self.limit_ns) else {
            return;
        };
        let before = self.before.get(key).copied();
        let told = before.filter(|told| told.since == flow.last && wait.0 < told.next_ns);
        if told.is_none() {
            let (vlan, inner_vlan) = tags(key.vlan());
            report(ResponseWait {
                time: Time(self.now.wrapping_add(self.offset)),
                flow: flow_of(key, flow.direction()),
                waiting_ns: wait,
                vlan,
                inner_vlan,
                tunnel: (key.tunnel != 0).then_some(key.tunnel),
                interface: interfaces.name(key.interface),
            });
        }
        let now_told = ReportedWait {
            since: flow.last,
            next_ns: wait.0 * 2,
        };
        self.waits.told.insert(*key, told.unwrap_or(now_told));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::native::{response_state, response_tcp};

    struct Names;

    impl Interfaces for Names {
        fn name(&self, _: u32) -> &'static str {
            "eth0"
        }
    }

    /// The records at these times, in ms, of a flow that asked at `last` ms and was answered if
    /// `pure_age` is not 0.
    fn told(waits: &mut Waits, protocol: u32, last: u64, pure_age: u32, times: &[u64]) -> Vec<u64> {
        let mut key = flow_key::default();
        key.set_protocol(protocol);
        let flow = response_flow {
            last: last * 1_000_000,
            state: response_state {
                tcp: response_tcp {
                    pure_age,
                    ..response_tcp::default()
                },
            },
            ..response_flow::default()
        };
        let mut told = Vec::new();
        for time in times {
            let mut look = waits.look(Duration::from_millis(50), time * 1_000_000, 0);
            look.at(&key, &flow, &Names, &mut |wait| {
                told.push(wait.waiting_ns.0 / 1_000_000);
            });
        }
        told
    }

    #[test]
    fn a_wait_is_told_of_when_it_is_long_and_when_it_has_doubled() {
        let mut waits = Waits::default();
        let times = [20, 60, 80, 100, 120, 130, 250];
        assert_eq!(told(&mut waits, 6, 0, 0, &times), [60, 120, 250]);
        assert_eq!(told(&mut waits, 6, 300, 0, &[340, 360, 400]), [60]);
    }

    #[test]
    fn answered_requests_and_those_without_acknowledgements_are_no_waits() {
        assert!(told(&mut Waits::default(), 6, 0, 1, &[100, 200]).is_empty());
        assert!(told(&mut Waits::default(), 17, 0, 0, &[100, 200]).is_empty());
    }
}
