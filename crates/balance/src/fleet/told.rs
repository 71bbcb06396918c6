//! What is told of a fleet.

use std::time::Duration;

use fathom_record::Time;

use super::{Fleet, Member};
use crate::controller::{Latency, Measurement, Policy};
use crate::record::BalanceWeight;

impl Fleet {
    /// What was measured in the last interval of the controller, and decided, for the servers of a service.
    pub fn records(&self, service: usize, time: Time, now: Duration) -> Vec<BalanceWeight> {
        let steered = self.services.get(service);
        let members = steered.map_or(&[][..], |steered| &steered.members);
        let record = |member: &Member| {
            self.record(service, member.server, member.measured.latency, time, now)
        };
        members.iter().filter_map(record).collect()
    }

    /// What was decided for a server of a service (indexes in the configuration), and the latency that was measured of it.
    pub fn record(
        &self,
        service: usize,
        server: usize,
        latency: Option<Latency>,
        time: Time,
        now: Duration,
    ) -> Option<BalanceWeight> {
        let steered = self.services.get(service)?;
        let member = self.member(service, server)?;
        let measured = Measurement {
            latency,
            ..member.measured
        };
        let has_policy = self.config.services.get(service)?.policy != Policy::Static;
        Some(BalanceWeight::new(
            time,
            (&steered.name, &member.name, member.address),
            member.share,
            has_policy.then_some(member.factor),
            &measured,
            self.state_for(service, server, now),
            member.verdict.why,
        ))
    }

    fn member(&self, service: usize, server: usize) -> Option<&Member> {
        let members = &self.services.get(service)?.members;
        members.iter().find(|member| member.server == server)
    }

    /// The part of new flows that a server of a service has, 0 to 1.
    pub fn share(&self, service: usize, server: usize) -> f64 {
        self.member(service, server)
            .map_or(0.0, |member| member.share)
    }
}
