//! Options of those who have metrics.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::{positive_duration, typed};

/// As often as Prometheus asks by default.
const INTERVAL: Duration = Duration::from_secs(15);

/// Where metrics go.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsArguments {
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:9816, or at `none`; `fathom
    /// agent` by default there, others nowhere.
    #[arg(long, value_name = "ADDRESS", value_parser = place)]
    pub(crate) metrics: Option<MetricsPlace>,
    /// Send metrics to this receiver of OTLP over HTTP, such as `http://HOST:4318` or
    /// `https://HOST:4318?ca=FILE&cert=FILE&key=FILE`.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Time between two of these.
    #[arg(long, value_name = "TIME", default_value = typed(INTERVAL), value_parser = positive_duration)]
    pub(crate) otlp_interval: Duration,
}

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsPlace {
    Nowhere,
    At(SocketAddr),
    /// Unless another process has the address.
    #[cfg(feature = "live")]
    IfFree(SocketAddr),
}

impl MetricsPlace {
    /// Where nobody else reaches them.
    #[cfg(feature = "live")]
    pub(crate) const LOOPBACK: Self = Self::IfFree(SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        9816,
    ));
}

impl MetricsArguments {
    /// Nowhere.
    pub(crate) const NONE: Self = Self {
        metrics: None,
        otlp: None,
        otlp_interval: INTERVAL,
    };

    /// Nothing from now on.
    #[cfg(feature = "live")]
    pub(crate) fn leave_out(&mut self) {
        (self.metrics, self.otlp) = (None, None);
    }

    /// Are there metrics?
    #[cfg(feature = "live")]
    pub(crate) fn is_asked_for(&self) -> bool {
        let is_served = self.metrics.is_some_and(|it| it != MetricsPlace::Nowhere);
        is_served || self.otlp.is_some()
    }
}

fn place(text: &str) -> Result<MetricsPlace, String> {
    if text == "none" {
        return Ok(MetricsPlace::Nowhere);
    }
    let address = text.parse().map_err(|_| {
        "name an address and a port, as in 127.0.0.1:9816 or [::]:9816, or `none`".to_owned()
    })?;
    Ok(MetricsPlace::At(address))
}
