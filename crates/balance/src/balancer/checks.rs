//! Health checks as they are due.

use std::sync::Arc;
use std::time::Duration;

use fathom_record::Time;

use super::{Balancer, News};
use crate::health::{Change, Finding, Target};
use crate::record::BalanceHealth;

/// Of one of the aims.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckDue {
    pub(super) at: Duration,
    pub(super) is_under_way: bool,
    pub(super) failure: Option<String>,
}

impl Balancer {
    /// Begins checks that are due, and takes in those that are done.
    pub(super) fn check(&mut self, now: Duration, report: &mut impl FnMut(News)) {
        let findings: Vec<_> = self.checker.findings().collect();
        let mut has_changed = false;
        for finding in findings {
            has_changed |= self.take_finding(&finding, now, report);
        }
        if has_changed {
            self.write_rings();
        }
        let config = self.fleet.config();
        let aims = self.fleet.aims().iter().enumerate();
        for (due, (index, aim)) in self.checks.iter_mut().zip(aims) {
            let server = &config.servers[aim.server];
            if due.is_under_way || now < due.at {
                continue;
            }
            let number = self.live.number(aim.server).unwrap_or_default();
            (due.is_under_way, due.at) = (true, now + server.health.interval);
            let ticket = u64::from(self.generation) << 32 | index as u64;
            self.checker.ask(
                ticket,
                Target {
                    address: aim.target,
                    mark: aim.is_tunnelled.then_some(config.mark | u32::from(number)),
                    check: server.health.check.clone(),
                    timeout: server.health.timeout,
                },
            );
        }
    }

    /// Returns whether a server has risen or fallen.
    fn take_finding(
        &mut self,
        finding: &Finding,
        now: Duration,
        report: &mut impl FnMut(News),
    ) -> bool {
        let index = (finding.ticket & u64::from(u32::MAX)) as usize;
        if finding.ticket >> 32 != u64::from(self.generation) {
            return false;
        }
        let Some((due, aim)) = self.checks.get_mut(index).zip(self.fleet.aims().get(index)) else {
            return false;
        };
        let server = &self.fleet.config().servers[aim.server];
        due.is_under_way = false;
        due.failure = finding.result.as_ref().err().map(ToString::to_string);
        let (name, address, failure) = (
            Arc::from(server.name.as_str()),
            server.address,
            due.failure.clone(),
        );
        let target = aim.target;
        let Some(change) = self.fleet.checked(index, finding.result.is_ok(), now) else {
            return false;
        };
        report(News::Health(BalanceHealth {
            time: Time::now(),
            server: name,
            address,
            target: target.to_string(),
            state: if change == Change::Rose {
                "healthy"
            } else {
                "unhealthy"
            },
            failure,
        }));
        true
    }
}
