//! A row of an answer, by the names of its columns.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::clock;
use crate::lists::Column;

/// A row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) columns: &'a [Column],
    pub(super) values: &'a [Value],
    /// How long the range is that the row sums up.
    pub(super) seconds: f64,
    /// What ages are counted to.
    pub(super) now_ns: i64,
}

impl<'a> Fields<'a> {
    /// The value; null where there is none.
    pub(super) fn value(&self, name: &str) -> &'a Value {
        let place = self.columns.iter().position(|column| column.name == name);
        place
            .and_then(|place| self.values.get(place))
            .unwrap_or(&Value::Null)
    }

    /// A text; nothing where there is none.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name).as_f64()
    }

    /// A duration.
    pub(super) fn ns(&self, name: &str) -> Option<u64> {
        self.value(name).as_u64()
    }

    /// A time, since the Unix epoch.
    pub(super) fn time_ns(&self, name: &str) -> Option<i64> {
        clock::parsed(self.text(name))
    }

    /// An address and a port as `192.0.2.1:443`.
    pub(super) fn endpoint(&self, address: &str, port: &str) -> String {
        endpoint(self.text(address), self.value(port).as_u64())
    }

    /// A flow as `tcp 10.0.0.1:5000 > 192.0.2.1:443`.
    pub(super) fn flow(&self) -> String {
        format!(
            "{} {} > {}",
            self.text("protocol"),
            self.endpoint("source", "source_port"),
            self.endpoint("destination", "destination_port")
        )
    }
}

/// An address and its port, if it has one.
pub(super) fn endpoint(address: &str, port: Option<u64>) -> String {
    let port = port.and_then(|port| u16::try_from(port).ok());
    match (address.parse::<IpAddr>(), port) {
        (Ok(address), Some(port)) if port > 0 => SocketAddr::new(address, port).to_string(),
        _ => address.to_owned(),
    }
}
