//! What operators say of servers.

use super::Balancer;
use crate::Error;
use crate::fleet::Order;
use crate::record::BalanceServer;

/// An order that was carried out.
#[derive(Debug)]
pub struct Obeyed {
    /// What was done, for people.
    pub sentence: String,
    /// How the server stands now.
    pub server: BalanceServer,
}

impl Balancer {
    /// Takes new flows away from a server, or gives them back; what it has, it keeps. `None`: there is no such server.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be kept for the next process.
    pub fn drain(&mut self, server: &str, is_drained: bool) -> Result<Option<Obeyed>, Error> {
        self.give_order(server, |order| order.is_drained = is_drained)
    }

    /// Gives a server another weight, or with `None` that which is configured. `None`: there is no such server.
    ///
    /// # Errors
    /// As [`Balancer::drain`].
    pub fn set_weight(
        &mut self,
        server: &str,
        weight: Option<f32>,
    ) -> Result<Option<Obeyed>, Error> {
        self.give_order(server, |order| order.weight = weight)
    }

    fn give_order(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Order),
    ) -> Result<Option<Obeyed>, Error> {
        let Some(server) = self.fleet.config().server(name) else {
            return Ok(None);
        };
        let before = self.fleet.order_of(server);
        let mut order = before;
        change(&mut order);
        self.live.write_order(server, order)?;
        self.fleet.order(server, order);
        self.write_rings();
        let standing = self.server(server)?;
        Ok(Some(Obeyed {
            sentence: format!(
                "server {name} {}: it gets {}",
                said(&standing, before, order),
                self.parts(server)
            ),
            server: standing,
        }))
    }

    /// What a server gets of the new connections of its services.
    fn parts(&self, server: usize) -> String {
        let services = self.fleet.config().services.iter().enumerate();
        let own = services.filter(|(_, service)| service.servers.contains(&server));
        let part = |(index, service): (usize, &crate::config::Service)| {
            let share = self.fleet.share(index, server);
            let mut all = service.servers.iter();
            let then = if all.all(|other| self.fleet.share(index, *other) <= 0.0) {
                ", which has no server left and drops them"
            } else {
                ""
            };
            let percent = 100.0 * share;
            format!(
                "{percent:.1} % of the new connections of {}{then}",
                service.name
            )
        };
        let parts: Vec<_> = own.map(part).collect();
        if parts.is_empty() {
            return "nothing: it is of no service".to_owned();
        }
        parts.join(", ")
    }
}

/// What is another than before, or what is as it was.
fn said(standing: &BalanceServer, before: Order, now: Order) -> String {
    let is_drained = |order: Order| match (order.is_drained, standing.connections) {
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
