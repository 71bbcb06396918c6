//! Which way packets take through a chain, also while they do.

use std::fmt::Write;
use std::net::IpAddr;

use super::plan::{Detour, Family, MAIN, Place};
use super::{Branch, Chain};
use crate::{Error, Namespace, Result, Way};

impl Chain {
    /// Leads the traffic of both families and directions past router `router` by `branches` of it,
    /// 0 being the router itself. Several spread the flows by a hash of addresses and ports.
    /// Packets on their way go on where they are.
    ///
    /// # Errors
    /// [`Error::Arrangement`] when a branch is none of this router's, [`Error::Command`] when a
    /// route cannot be set.
    pub fn reroute(&self, router: usize, branches: &[usize]) -> Result<()> {
        self.reroute_way(router, Way::Forward, branches)?;
        self.reroute_way(router, Way::Backward, branches)
    }

    /// As [`Chain::reroute`], for one direction only.
    ///
    /// # Errors
    /// As [`Chain::reroute`].
    pub fn reroute_way(&self, router: usize, way: Way, branches: &[usize]) -> Result<()> {
        let detours = branches
            .iter()
            .map(|branch| self.detour(router, *branch))
            .collect::<Result<Vec<_>>>()?;
        if detours.is_empty() {
            return Err(Error::Arrangement {
                what: format!("no way past router {router} was named"),
            });
        }
        for family in Family::BOTH {
            let (turning, destination, hops) = match way {
                Way::Forward => (
                    router - 1,
                    "default".to_owned(),
                    hops(&detours, |detour| detour.first().far(family)),
                ),
                Way::Backward => (
                    router + 1,
                    client(family),
                    hops(&detours, |detour| detour.last().near(family)),
                ),
            };
            replace(
                self.router(turning)?,
                family,
                &destination,
                Place::main(turning).far(family),
                &hops,
            )?;
        }
        Ok(())
    }

    fn detour(&self, router: usize, branch: usize) -> Result<Detour> {
        let has_branches = |branch: &Branch| branch.detour.router == router;
        let found = match branch {
            MAIN if self.branches.iter().any(has_branches) => Some(Detour::main(router)),
            MAIN => None,
            number => self
                .branches
                .get(number - 1)
                .filter(|branch| has_branches(branch))
                .map(|branch| branch.detour),
        };
        found.ok_or_else(|| Error::Arrangement {
            what: format!("branch {branch} does not lead past router {router}"),
        })
    }

    /// Sets the routes of the main way and of those within branches.
    pub(super) fn set_routes(&self) -> Result<()> {
        let last = Place::main(self.routers.len() + 1);
        for family in Family::BOTH {
            let gateways = [
                (&self.client, Place::main(1).far(family)),
                (&self.server, last.near(family)),
            ];
            for (host, gateway) in gateways {
                host.add_route("default", &gateway.to_string())?;
            }
            for (number, router) in self.forwarding_routers() {
                pass_on(router, family, Place::main(number), Place::main(number + 1))?;
            }
            for Branch {
                routers, detour, ..
            } in &self.branches
            {
                let links = detour.links().zip(detour.links().skip(1));
                for (router, (before, behind)) in routers.iter().zip(links) {
                    pass_on(router, family, before, behind)?;
                }
            }
            for script in self.scripts.iter().filter(|script| script.translates) {
                self.lead_back(script.number, family)?;
            }
        }
        Ok(())
    }

    /// Leads packets back to what router `translator` translates the client to.
    fn lead_back(&self, translator: usize, family: Family) -> Result<()> {
        let outside = Place::main(translator + 1).near(family);
        let destination = format!("{outside}/{}", family.host_bits());
        // The router right behind has the address on a link.
        let behind = translator + 2;
        for (number, router) in self.forwarding_routers().filter(|(it, _)| *it >= behind) {
            let place = Place::main(number);
            let hop = format!(" via {}", place.near(family));
            replace(router, family, &destination, place.far(family), &hop)?;
        }
        Ok(())
    }

    /// The numbers of the routers that are not scripted, and they.
    fn forwarding_routers(&self) -> impl Iterator<Item = (usize, &Namespace)> {
        let is_scripted = |number| self.scripts.iter().any(|script| script.number == number);
        (1..)
            .zip(&self.routers)
            .filter(move |(number, _)| !is_scripted(*number))
    }
}

/// The prefix of the client's address alone: IPv6 limits ICMP errors as documented only towards
/// host routes.
fn client(family: Family) -> String {
    let address = Place::main(1).near(family);
    format!("{address}/{}", family.host_bits())
}

/// Leads packets of a router between the links `before` and `behind` it.
fn pass_on(router: &Namespace, family: Family, before: Place, behind: Place) -> Result<()> {
    let own = before.far(family);
    let client_hop = if before == Place::main(1) {
        format!(" dev {}", before.interface())
    } else {
        format!(" via {}", before.near(family))
    };
    replace(router, family, &client(family), own, &client_hop)?;
    let server_hop = format!(" via {}", behind.far(family));
    replace(router, family, "default", own, &server_hop)
}

/// Sets a route whose packets of the router itself, its ICMP errors, come from `own`.
fn replace(
    router: &Namespace,
    family: Family,
    destination: &str,
    own: IpAddr,
    hops: &str,
) -> Result<()> {
    let option = family.option();
    router.run(&format!(
        "ip {option} route replace {destination} src {own}{hops}"
    ))?;
    Ok(())
}

/// One gateway, or several with equal weights.
fn hops(detours: &[Detour], gateway: impl Fn(&Detour) -> IpAddr) -> String {
    match detours {
        [only] => format!(" via {}", gateway(only)),
        several => several.iter().fold(String::new(), |mut hops, detour| {
            // Writing to a string cannot fail.
            let _ = write!(hops, " nexthop via {} weight 1", gateway(detour));
            hops
        }),
    }
}
