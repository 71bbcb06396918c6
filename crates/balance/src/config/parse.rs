//! The words of the file, and how they become what is meant.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use fathom_record::Network;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::check::{Line, check_health, check_server, check_service, check_whole};
use super::health::HealthWords;
use super::{Config, Encapsulation, Mode, QuicId, Server, Service, Transport};
use crate::controller::{Bounds, Policy};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    interfaces: Vec<String>,
    xdp: Option<Mode>,
    pins: Option<PathBuf>,
    socket: Option<PathBuf>,
    connections: Option<u32>,
    measured: Option<String>,
    measured_packets: Option<u32>,
    mark: Option<u32>,
    epoch: Option<Time>,
    timeout: Option<Time>,
    #[serde(default)]
    health: HealthWords,
    #[serde(default)]
    control: ControlWords,
    #[serde(default)]
    service: Vec<Spanned<ServiceWords>>,
    #[serde(default)]
    server: Vec<Spanned<ServerWords>>,
    /// Options of the command.
    #[serde(default, rename = "balance")]
    _balance: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServiceWords {
    name: String,
    address: Parsed<Network>,
    port: Option<PortWord>,
    #[serde(default)]
    protocol: Transport,
    #[serde(default)]
    quic: bool,
    servers: Option<Vec<Spanned<String>>>,
    ring: Option<u32>,
    #[serde(default)]
    control: ControlWords,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServerWords {
    name: String,
    address: IpAddr,
    weight: Option<f64>,
    #[serde(default)]
    encapsulation: EncapsulationWord,
    gue_port: Option<u16>,
    quic_id: Option<String>,
    quic_config: Option<u8>,
    #[serde(default)]
    health: HealthWords,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ControlWords {
    policy: Option<Policy>,
    interval: Option<Time>,
    floor: Option<f64>,
    step: Option<f64>,
    hysteresis: Option<f64>,
    recovery: Option<Time>,
    strength: Option<f64>,
    high: Option<f64>,
    low: Option<f64>,
    quiet: Option<u32>,
    gain: Option<f64>,
    cap: Option<f64>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum EncapsulationWord {
    #[default]
    Layer2,
    Ipip,
    Gue,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a port from 1 to 65535, or \"all\"")]
enum PortWord {
    One(std::num::NonZeroU16),
    All(AllWord),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AllWord {
    All,
}

/// As `500ms`.
#[derive(Clone, Copy)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = humantime::parse_duration(&text).map_err(|error| {
            serde::de::Error::custom(format!("{error}; write it as \"100ms\", \"5s\" or \"2m\""))
        });
        parsed.map(Self)
    }
}

/// What reads itself from text.
struct Parsed<T>(T);

impl<'de, T: std::str::FromStr<Err: std::fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

pub(super) fn parse(text: &str) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
    let line = |span: Range<usize>| Line::of(text, &span);
    let mut config = Config::default();
    config.mode = file.xdp.unwrap_or(config.mode);
    let File {
        interfaces,
        pins,
        socket,
        connections,
        epoch,
        timeout,
        measured_packets,
        mark,
        ..
    } = file;
    config.interfaces = interfaces;
    config.pins = pins.unwrap_or(config.pins);
    config.socket = socket.unwrap_or(config.socket);
    config.connections = connections.unwrap_or(config.connections);
    config.epoch = epoch.map_or(config.epoch, |time| time.0);
    config.timeout = timeout.map_or(config.timeout, |time| time.0);
    config.measured_packets = measured_packets.map_or(config.measured_packets, |most| {
        Some(most).filter(|most| *most > 0)
    });
    config.mark = mark.unwrap_or(config.mark);
    if let Some(text) = &file.measured {
        config.measured_in = part(text).ok_or_else(|| {
            format!("measured = \"{text}\": write it as in \"1/8\"; the least part is 1/1000000")
        })?;
    }
    let mut names = HashMap::new();
    for words in file.server {
        let line = line(words.span());
        let server = words.into_inner().server(&file.health);
        let server = server.map_err(|problem| format!("{line}: {problem}"))?;
        check_server(&server, &config.servers, line)?;
        check_health(&server.health, line)?;
        names.insert(server.name.clone(), config.servers.len());
        config.servers.push(server);
    }
    for words in file.service {
        let whole = line(words.span());
        let service = words.into_inner().service(&file.control, &names, &line)?;
        check_service(&service, &config.services, whole)?;
        config.services.push(service);
    }
    check_whole(&config)?;
    Ok(config)
}

impl ServerWords {
    fn server(self, health: &HealthWords) -> Result<Server, String> {
        let encapsulation = match self.encapsulation {
            EncapsulationWord::Layer2 => Encapsulation::Layer2,
            EncapsulationWord::Ipip => Encapsulation::Ipip,
            EncapsulationWord::Gue => {
                Encapsulation::Gue(self.gue_port.unwrap_or(Encapsulation::GUE_PORT))
            }
        };
        if self.gue_port.is_some() && self.encapsulation != EncapsulationWord::Gue {
            return Err(format!(
                "server \"{}\" has a gue-port, but its encapsulation is {}: leave one of them out",
                self.name,
                encapsulation.name()
            ));
        }
        let quic_id = match &self.quic_id {
            Some(text) => Some(quic_id(text, self.quic_config).ok_or_else(|| {
                format!(
                    "server \"{}\" has the quic-id \"{text}\": write 1 to 8 bytes in hexadecimal, as \"00a1\"; its quic-config is from 0 to 6",
                    self.name
                )
            })?),
            None => None,
        };
        Ok(Server {
            name: self.name,
            address: self.address.to_canonical(),
            weight: self.weight.unwrap_or(Server::WEIGHT),
            encapsulation,
            quic_id,
            health: self.health.over(health).health(),
        })
    }
}

impl ServiceWords {
    fn service(
        self,
        control: &ControlWords,
        names: &HashMap<String, usize>,
        line: &impl Fn(Range<usize>) -> Line,
    ) -> Result<Service, String> {
        let servers = match self.servers {
            None => (0..names.len()).collect(),
            Some(servers) => {
                let find = |name: &Spanned<String>| {
                    let known = names.get(name.get_ref()).copied();
                    known.ok_or_else(|| {
                        format!(
                            "{}: service \"{}\" names a server \"{}\", which is none of the [[server]] tables",
                            line(name.span()),
                            self.name,
                            name.get_ref()
                        )
                    })
                };
                servers.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        Ok(Service {
            name: self.name,
            network: self.address.0,
            port: match self.port {
                None | Some(PortWord::All(AllWord::All)) => None,
                Some(PortWord::One(port)) => Some(port.get()),
            },
            protocol: self.protocol,
            is_quic: self.quic,
            servers,
            ring: self.ring.unwrap_or(Service::RING),
            policy: self.control.policy.or(control.policy).unwrap_or_default(),
            bounds: self.control.bounds(control.bounds(Bounds::default())),
        })
    }
}

impl ControlWords {
    /// What these change of those.
    fn bounds(&self, below: Bounds) -> Bounds {
        let time = |word: Option<Time>, below| word.map_or(below, |time| time.0);
        Bounds {
            interval: time(self.interval, below.interval),
            floor: self.floor.unwrap_or(below.floor),
            step: self.step.unwrap_or(below.step),
            hysteresis: self.hysteresis.unwrap_or(below.hysteresis),
            recovery: time(self.recovery, below.recovery),
            strength: self.strength.unwrap_or(below.strength),
            high: self.high.unwrap_or(below.high),
            low: self.low.unwrap_or(below.low),
            quiet: self.quiet.unwrap_or(below.quiet),
            gain: self.gain.unwrap_or(below.gain),
            cap: self.cap.unwrap_or(below.cap),
        }
    }
}

/// Reads bytes in hexadecimal.
fn quic_id(text: &str, config: Option<u8>) -> Option<QuicId> {
    let config = config.unwrap_or(0);
    let is_sound = text.len().is_multiple_of(2) && (2..=16).contains(&text.len()) && config <= 6;
    if !is_sound || !text.is_ascii() {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes = (0..text.len())
        .step_by(2)
        .map(byte)
        .collect::<Option<_>>()?;
    Some(QuicId { config, bytes })
}

/// Reads `1/8`.
fn part(text: &str) -> Option<u32> {
    let count = text.strip_prefix("1/")?.parse().ok()?;
    (1..=1_000_000).contains(&count).then_some(count)
}
