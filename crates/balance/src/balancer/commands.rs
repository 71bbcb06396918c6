//! What operators say of servers.

use super::Balancer;
use crate::Error;
use crate::fleet::{Decision, Override};
use crate::record::BalanceServer;

/// A command that was carried out.
#[derive(Debug)]
pub struct CommandResult {
    /// What was done, for people.
    pub sentence: String,
    /// How the server stands now.
    pub server: BalanceServer,
}

impl Balancer {
    /// Takes new flows away from a server, or gives them back; what it has, it keeps. `None`: there
    /// is no such server.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be kept for the next process.
    pub fn drain(
        &mut self,
        server: &str,
        is_drained: bool,
    ) -> Result<Option<CommandResult>, Error> {
        self.set_override(server, |value| value.is_drained = is_drained)
    }

    /// Gives a server another weight, or with `None` that which is configured. `None`: there is no
    /// such server.
    ///
    /// # Errors
    /// As [`Balancer::drain`].
    pub fn set_weight(
        &mut self,
        server: &str,
        weight: Option<f32>,
    ) -> Result<Option<CommandResult>, Error> {
        self.set_override(server, |value| value.weight = weight)
    }

    fn set_override(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Override),
    ) -> Result<Option<CommandResult>, Error> {
        let Some(server) = self.fleet.config().server(name) else {
            return Ok(None);
        };
        let before = self.fleet.override_of(server);
        let mut value = before;
        change(&mut value);
        self.datapath.write_override(server, value)?;
        self.fleet.set_override(server, value);
        self.redistribute();
        let standing = self.server(server)?;
        Ok(Some(CommandResult {
            sentence: format!(
                "server {name} {}: it gets {}",
                said(&standing, before, value),
                self.parts(server)
            ),
            server: standing,
        }))
    }

    /// What a server gets of the new connections of its services.
    fn parts(&self, server: usize) -> String {
        let part = |decision: &Decision| {
            let mut members = decision.members.iter();
            let own = members.clone().find(|member| member.server == server)?;
            let then = if members.all(|member| member.share <= 0.0) {
                ", which has no server left and drops them"
            } else {
                ""
            };
            let percent = 100.0 * own.share;
            Some(format!(
                "{percent:.1} % of the new connections of {}{then}",
                decision.name
            ))
        };
        let parts: Vec<_> = self.fleet.decisions().filter_map(part).collect();
        if parts.is_empty() {
            return "nothing: it is of no service".to_owned();
        }
        parts.join(", ")
    }
}

/// What is another than before, or what is as it was.
fn said(standing: &BalanceServer, before: Override, now: Override) -> String {
    let is_drained = |value: Override| match (value.is_drained, standing.connections) {
        (true, 1) => "drained, and keeps its connection".to_owned(),
        (true, open) => format!("drained, and keeps its {open} connections"),
        (false, _) => "not drained".to_owned(),
    };
    let weight = (standing.weight * 1e3).round() / 1e3;
    let whose = if now.weight.is_none() {
        ", as configured"
    } else {
        ""
    };
    match (before.is_drained, now.is_drained) {
        (false, true) => format!("is {}", is_drained(now)),
        (true, false) => "is drained no more".to_owned(),
        _ if before.weight != now.weight => format!("has the weight {weight}{whose} now"),
        _ => format!(
            "stays as it was, {}, with the weight {weight}{whose}",
            is_drained(now)
        ),
    }
}
