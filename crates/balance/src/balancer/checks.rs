//! Health checks as they are due.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_record::Time;

use super::{Balancer, News};
use crate::config::Check;
use crate::health::{Change, Finding, Target};
use crate::record::BalanceHealth;

/// Of a server.
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
        for (index, due) in self.checks.iter_mut().enumerate() {
            let (Some(server), Some(port)) = (config.servers.get(index), config.check_port(index))
            else {
                continue;
            };
            if due.is_under_way || now < due.at || server.health.check == Check::None {
                continue;
            }
            (due.is_under_way, due.at) = (true, now + server.health.interval);
            let ticket = u64::from(self.generation) << 32 | index as u64;
            self.checker.ask(
                ticket,
                Target {
                    address: SocketAddr::new(server.address, port),
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
        let Some((due, server)) = self
            .checks
            .get_mut(index)
            .zip(self.fleet.config().servers.get(index))
        else {
            return false;
        };
        due.is_under_way = false;
        due.failure = finding.result.as_ref().err().map(ToString::to_string);
        let (name, address, failure) = (
            Arc::from(server.name.as_str()),
            server.address,
            due.failure.clone(),
        );
        let Some(change) = self.fleet.checked(index, finding.result.is_ok(), now) else {
            return false;
        };
        report(News::Health(BalanceHealth {
            time: Time::now(),
            server: name,
            address,
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
