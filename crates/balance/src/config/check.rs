//! What cannot be meant, though each word of it is right.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::{Check, CheckRoute, Config, Health, Server, Service};
use crate::controller::Bounds;
use crate::maglev::is_prime;

/// Servers, and services, at most: what the tables of the data plane have room for.
pub(crate) const MOST: usize = 4096;

/// The bits of marks that are the number of a server.
const MARK_NUMBERS: u32 = 0x3fff;

/// A line of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line(usize);

impl Line {
    pub(super) fn of(text: &str, span: &Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or_default();
        Self(before.matches('\n').count() + 1)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}", self.0)
    }
}

/// Says no unless something holds.
fn require(holds: bool, line: Line, sentence: impl FnOnce() -> String) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("{line}: {}", sentence()))
    }
}

fn check_name(what: &str, name: &str, line: Line) -> Result<(), String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    require(
        !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain),
        line,
        || {
            format!(
                "the name of the {what} is \"{name}\": write letters, digits, `.`, `_` and `-`, 64 at most"
            )
        },
    )
}

pub(super) fn check_server(server: &Server, before: &[Server], line: Line) -> Result<(), String> {
    check_name("server", &server.name, line)?;
    let name = &server.name;
    require(before.iter().all(|other| other.name != *name), line, || {
        format!("there are two servers \"{name}\": give one of them another name")
    })?;
    let same = before.iter().find(|other| other.address == server.address);
    require(same.is_none(), line, || {
        let other = same.map(|other| other.name.as_str()).unwrap_or_default();
        format!(
            "servers \"{other}\" and \"{name}\" have the same address {}: a server is known by it, so list it once and name it in all its services",
            server.address
        )
    })?;
    require(
        server.weight.is_finite() && (0.001..=1000.0).contains(&server.weight),
        line,
        || {
            format!(
                "server \"{name}\" has the weight {}: it is from 0.001 to 1000; to have no new flows on it, use `fathom balance drain {name}`",
                server.weight
            )
        },
    )?;
    require(
        !server.address.is_unspecified() && !server.address.is_multicast(),
        line,
        || {
            format!(
                "server \"{name}\" has the address {}: it is the address of one machine",
                server.address
            )
        },
    )?;
    let twin = |other: &&Server| server.quic_id.is_some() && other.quic_id == server.quic_id;
    require(!before.iter().any(|other| twin(&other)), line, || {
        format!("server \"{name}\" has the same quic-id as another: each is of one server")
    })?;
    let length = |server: &Server| {
        server
            .quic_id
            .as_ref()
            .map(|id| (id.config, id.bytes.len()))
    };
    let differs = |other: &Server| match (length(other), length(server)) {
        (Some(other), Some(own)) => other.0 == own.0 && other.1 != own.1,
        _ => false,
    };
    require(!before.iter().any(differs), line, || {
        format!(
            "server \"{name}\" has a quic-id of another length than others with the same quic-config"
        )
    })
}

pub(super) fn check_health(health: &Health, line: Line) -> Result<(), String> {
    let least = Duration::from_millis(10);
    require(
        health.interval >= least && health.timeout >= least,
        line,
        || "interval and timeout of health checks are 10ms at least".to_owned(),
    )?;
    require(
        (1..=100).contains(&health.rise) && (1..=100).contains(&health.fall),
        line,
        || "rise and fall of health checks are from 1 to 100".to_owned(),
    )?;
    require(health.port != Some(0), line, || {
        "the port of health checks is from 1 to 65535".to_owned()
    })?;
    match &health.check {
        Check::Http(request) | Check::Https(request) => require(
            request.path.starts_with('/') && (100..600).contains(&request.status),
            line,
            || {
                "the path of a health check begins with a slash, its status is from 100 to 599"
                    .to_owned()
            },
        ),
        Check::None | Check::Tcp => Ok(()),
    }
}

pub(super) fn check_service(
    service: &Service,
    before: &[Service],
    line: Line,
) -> Result<(), String> {
    check_name("service", &service.name, line)?;
    let name = &service.name;
    require(before.iter().all(|other| other.name != *name), line, || {
        format!("there are two services \"{name}\": give one of them another name")
    })?;
    let end = |service: &Service| (service.network, service.port, service.protocol);
    let same = before.iter().find(|other| end(other) == end(service));
    require(same.is_none(), line, || {
        let other = same.map(|other| other.name.as_str()).unwrap_or_default();
        format!("services \"{other}\" and \"{name}\" have the same address, port and protocol")
    })?;
    require(!service.servers.is_empty(), line, || {
        format!(
            "service \"{name}\" has no server: add a [[server]] table, or name some in `servers`"
        )
    })?;
    let distinct: HashSet<_> = service.servers.iter().collect();
    require(distinct.len() == service.servers.len(), line, || {
        format!("service \"{name}\" names a server twice")
    })?;
    require(
        is_prime(service.ring) && (61..=1_048_583).contains(&service.ring),
        line,
        || {
            format!(
                "service \"{name}\" has a ring of {}: it is a prime from 61 to 1048583, as 4093, 16381 or 65537",
                service.ring
            )
        },
    )?;
    require(
        service.ring as usize >= 10 * service.servers.len(),
        line,
        || {
            format!(
                "service \"{name}\" has {} servers on a ring of {}: make it 10 times as large as there are servers, better 100 times",
                service.servers.len(),
                service.ring
            )
        },
    )?;
    require(
        !service.is_quic || service.protocol == super::Transport::Udp,
        line,
        || format!("service \"{name}\" is QUIC, but its protocol is tcp: write protocol = \"udp\""),
    )?;
    check_bounds(&service.bounds, line)
}

fn check_bounds(bounds: &Bounds, line: Line) -> Result<(), String> {
    let within = |number: f64, least: f64, most: f64| (least..=most).contains(&number);
    for (holds, sentence) in [
        (
            bounds.interval >= Duration::from_millis(100),
            "interval is 100ms at least",
        ),
        (
            within(bounds.floor, 0.001, 1.0),
            "floor is from 0.001 to 1, a part of the configured weight",
        ),
        (
            within(bounds.step, 1.01, 100.0),
            "step is from 1.01 to 100, a factor",
        ),
        (
            within(bounds.hysteresis, 0.0, 10.0),
            "hysteresis is from 0 to 10, a part of the latency",
        ),
        (
            bounds.recovery >= bounds.interval,
            "recovery is not shorter than interval",
        ),
        (
            within(bounds.strength, 0.01, 2.0),
            "strength is from 0.01 to 2, an exponent",
        ),
        (
            within(bounds.low, 1.0, 100.0) && bounds.low <= bounds.high,
            "low is from 1 to 100, and not above high",
        ),
        (bounds.high <= 100.0, "high is 100 at most"),
        (
            within(bounds.gain, 0.01, 1.0) && within(bounds.cap, 0.01, 1.0),
            "gain and cap are from 0.01 to 1",
        ),
    ] {
        require(holds, line, || format!("in `control`: {sentence}"))?;
    }
    Ok(())
}

pub(super) fn check_whole(config: &Config) -> Result<(), String> {
    let epoch = Duration::from_millis(100)..=Duration::from_secs(10);
    let timeout = Duration::from_millis(1)..=Duration::from_secs(10);
    for (holds, sentence) in [
        (epoch.contains(&config.epoch), "epoch is from 100ms to 10s"),
        (
            timeout.contains(&config.timeout),
            "timeout is from 1ms to 10s",
        ),
        (
            (1024..=67_108_864).contains(&config.connections),
            "connections are from 1024 to 67108864",
        ),
        (
            config.servers.len() <= MOST && config.services.len() <= MOST,
            "there are 4096 servers and 4096 services at most",
        ),
        (
            config.mark != 0 && config.mark & MARK_NUMBERS == 0,
            "mark is a number whose low 14 bits are 0: there are the numbers of servers",
        ),
        (
            config.pins.is_absolute() && config.socket.is_absolute(),
            "pins and socket are absolute paths",
        ),
    ] {
        if !holds {
            return Err(sentence.to_owned());
        }
    }
    for (index, server) in config.servers.iter().enumerate() {
        let is_used = config
            .services
            .iter()
            .any(|service| service.servers.contains(&index));
        if server.health.route == CheckRoute::Tunnel
            && server.health.check != Check::None
            && let Some(service) = config.services.iter().find(|service| {
                service.servers.contains(&index) && service.check_target(&server.health).is_none()
            })
        {
            return Err(format!(
                "service \"{}\" is for all ports, and checks of server \"{}\" go through the tunnel to its address: say in [health], or in the table [server.health], which `port` is checked",
                service.name, server.name
            ));
        }
        if is_used && server.health.check != Check::None && config.check_port(index).is_none() {
            return Err(format!(
                "server \"{}\" is of services for all ports only: say in its table [server.health] which `port` is checked, or check = \"none\"",
                server.name
            ));
        }
    }
    Ok(())
}
