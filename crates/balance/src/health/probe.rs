//! Where servers are checked: at the addresses of their services, by the route of clients' packets,
//! or at their own.

use std::net::SocketAddr;

use crate::config::{Check, CheckRoute, Config};

/// A check that is made again and again, and whose new flows hang on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Index into the servers of the configuration.
    pub server: usize,
    /// What is talked to.
    pub target: SocketAddr,
    /// Does it take the route of clients' packets?
    pub is_tunnelled: bool,
    /// Indexes of the services whose new flows the server gets no more when it fails.
    pub services: Vec<usize>,
}

/// All checks of a configuration. `can_leave`: do packets to the address of this service leave this
/// machine, and get the headers for their server? A server whose checks must, and cannot, has none.
pub fn probes(config: &Config, can_leave: impl Fn(usize) -> bool) -> Vec<Probe> {
    let mut probes: Vec<Probe> = Vec::new();
    for server in 0..config.servers.len() {
        for service in 0..config.services.len() {
            let Some((target, is_tunnelled)) = target(config, server, service, &can_leave) else {
                continue;
            };
            // Services of TCP and UDP, and all services at the server's own address, may have one
            // check in common.
            let same = probes
                .iter_mut()
                .rev()
                .take_while(|probe| probe.server == server)
                .find(|probe| probe.target == target);
            match same {
                Some(probe) => probe.services.push(service),
                None => probes.push(Probe {
                    server,
                    target,
                    is_tunnelled,
                    services: vec![service],
                }),
            }
        }
    }
    probes
}

fn target(
    config: &Config,
    server: usize,
    service: usize,
    can_leave: impl Fn(usize) -> bool,
) -> Option<(SocketAddr, bool)> {
    let (configured, of) = (config.servers.get(server)?, config.services.get(service)?);
    let health = &configured.health;
    if health.check == Check::None || !of.servers.contains(&server) {
        return None;
    }
    let own = || {
        let port = config.check_port(server)?;
        Some((SocketAddr::new(configured.address, port), false))
    };
    let through = || Some((of.check_target(health)?, true)).filter(|_| can_leave(service));
    match health.route {
        CheckRoute::Address => own(),
        CheckRoute::Tunnel => through(),
        CheckRoute::Auto => through().or_else(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(way: &str) -> Config {
        Config::parse(&format!(
            r#"
            [health]
            way = "{way}"
            [[server]]
            name = "a"
            address = "10.0.0.1"
            [[server]]
            name = "b"
            address = "10.0.0.2"
            health = {{ check = "none" }}
            [[service]]
            name = "web"
            address = "192.0.2.1"
            port = 443
            [[service]]
            name = "quic"
            address = "192.0.2.1"
            port = 443
            protocol = "udp"
            [[service]]
            name = "dns"
            address = "2001:db8::53"
            port = 53
            protocol = "udp"
            "#
        ))
        .unwrap()
    }

    fn probe(target: &str, is_tunnelled: bool, services: &[usize]) -> Probe {
        Probe {
            server: 0,
            target: target.parse().unwrap(),
            is_tunnelled,
            services: services.to_vec(),
        }
    }

    #[test]
    fn each_address_and_port_is_checked_once() {
        let through = [
            probe("192.0.2.1:443", true, &[0, 1]),
            probe("[2001:db8::53]:53", true, &[2]),
        ];
        assert_eq!(probes(&config("tunnel"), |_| true), through);
        assert_eq!(probes(&config("auto"), |_| true), through);
        let own = [probe("10.0.0.1:443", false, &[0, 1, 2])];
        assert_eq!(probes(&config("address"), |_| true), own);
        assert_eq!(probes(&config("auto"), |_| false), own);
    }

    #[test]
    fn what_cannot_leave_is_not_checked_through_the_tunnel() {
        let v4 = |service| service < 2;
        assert_eq!(
            probes(&config("tunnel"), v4),
            [probe("192.0.2.1:443", true, &[0, 1])]
        );
        assert_eq!(
            probes(&config("auto"), v4),
            [
                probe("192.0.2.1:443", true, &[0, 1]),
                probe("10.0.0.1:443", false, &[2])
            ]
        );
    }
}
