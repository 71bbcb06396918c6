//! The words for health checks.

use serde::Deserialize;

use super::parse::Time;
use super::{Check, CheckRoute, Health, Request};

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HealthWords {
    check: Option<CheckWord>,
    way: Option<CheckRoute>,
    port: Option<u16>,
    path: Option<String>,
    host: Option<String>,
    status: Option<u16>,
    interval: Option<Time>,
    timeout: Option<Time>,
    rise: Option<u32>,
    fall: Option<u32>,
    slow_start: Option<Time>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum CheckWord {
    None,
    Tcp,
    Http,
    Https,
}

impl HealthWords {
    /// These, and where they say nothing those.
    pub(super) fn over(self, below: &Self) -> Self {
        let below = below.clone();
        Self {
            check: self.check.or(below.check),
            way: self.way.or(below.way),
            port: self.port.or(below.port),
            path: self.path.or(below.path),
            host: self.host.or(below.host),
            status: self.status.or(below.status),
            interval: self.interval.or(below.interval),
            timeout: self.timeout.or(below.timeout),
            rise: self.rise.or(below.rise),
            fall: self.fall.or(below.fall),
            slow_start: self.slow_start.or(below.slow_start),
        }
    }

    pub(super) fn health(self) -> Health {
        let default = Health::default();
        let request = || {
            let default = Request::default();
            Request {
                path: self.path.clone().unwrap_or(default.path),
                host: self.host.clone(),
                status: self.status.unwrap_or(default.status),
            }
        };
        let check = match self.check {
            None => default.check,
            Some(CheckWord::None) => Check::None,
            Some(CheckWord::Tcp) => Check::Tcp,
            Some(CheckWord::Http) => Check::Http(request()),
            Some(CheckWord::Https) => Check::Https(request()),
        };
        let time = |word: Option<Time>, default| word.map_or(default, |time| time.0);
        Health {
            check,
            route: self.way.unwrap_or(default.route),
            port: self.port,
            interval: time(self.interval, default.interval),
            timeout: time(self.timeout, default.timeout),
            rise: self.rise.unwrap_or(default.rise),
            fall: self.fall.unwrap_or(default.fall),
            slow_start: time(self.slow_start, default.slow_start),
        }
    }
}
