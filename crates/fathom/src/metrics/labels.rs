//! What names the series that a record belongs to.

use fathom_record::format::ValueText;
use fathom_record::{Metric, Network, NetworkNames, Protocol, Record, Schema, Value};

use super::family::Labels;

/// What the label says of a record that has no series of its own any more.
const OTHER: &str = "other";
/// Networks have so many bits of an address of IPv4, and of IPv6.
const PREFIXES: [u8; 2] = [24, 48];
/// Systems take ports from here on for the end that asks (Linux: 32768, IANA: 49152).
const FIRST_EPHEMERAL: u16 = 32_768;
/// Between values, in which it cannot be: they are texts for people.
const SEPARATOR: char = '\u{1f}';

/// Where the labels of a kind of record come from.
pub(super) struct LabelPlan {
    /// In the order of their names.
    sources: Vec<(&'static str, Source)>,
}

/// Where a label comes from: the positions of fields.
enum Source {
    Field(usize),
    /// The first that the record has.
    Network(Vec<usize>),
    Service(Vec<usize>),
}

impl LabelPlan {
    pub(super) fn of(schema: &'static Schema) -> Self {
        let fields = || schema.fields.iter().enumerate();
        let all = |role| {
            let of_role = fields().filter(|(_, field)| field.metric == Some(role));
            of_role.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let mut sources = Vec::new();
        for (index, field) in fields() {
            if matches!(field.metric, Some(Metric::Label | Metric::Outcome)) {
                sources.push((field.name, Source::Field(index)));
            }
        }
        let networks = all(Metric::Network);
        if !networks.is_empty() {
            sources.push(("network", Source::Network(networks)));
        }
        let services = all(Metric::Service);
        if !services.is_empty() {
            sources.push(("service", Source::Service(services)));
        }
        sources.sort_by_key(|&(name, _)| name);
        Self { sources }
    }

    /// The names of the labels.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.sources.iter().map(|&(name, _)| name)
    }

    /// Writes the values of a record's labels into a text, by which its series is found.
    /// `text` makes texts of values.
    pub(super) fn write(
        &self,
        record: &dyn Record,
        names: &NetworkNames,
        text: &mut ValueText,
        key: &mut String,
    ) {
        key.clear();
        for (_, source) in &self.sources {
            match source {
                Source::Field(index) => write_value(record.value(*index), text, key),
                Source::Network(fields) => {
                    let mut values = fields.iter().map(|&index| record.value(index));
                    values.find(|&value| write_network(value, names, text, key));
                }
                Source::Service(fields) => write_service(record, fields, text, key),
            }
            key.push(SEPARATOR);
        }
    }

    /// The labels of such a text; those without a value are left out.
    pub(super) fn read(&self, key: &str) -> Labels {
        let names = self.names().zip(key.split(SEPARATOR));
        let given = names.filter(|(_, value)| !value.is_empty());
        given
            .map(|(name, value)| (name.into(), value.to_owned()))
            .collect()
    }

    /// The text of those that have no room. `keeps`: the labels that stay as they are.
    pub(super) fn other(&self, key: &str, keeps: impl Fn(&str) -> bool) -> String {
        let mut other = String::new();
        for (name, value) in self.names().zip(key.split(SEPARATOR)) {
            let is_kept = keeps(name) || value.is_empty();
            other.push_str(if is_kept { value } else { OTHER });
            other.push(SEPARATOR);
        }
        other
    }
}

/// Writes the name of a network, or its prefix. `false`: there is none.
fn write_network(
    value: Value<'_>,
    names: &NetworkNames,
    text: &mut ValueText,
    key: &mut String,
) -> bool {
    let network = match value {
        Value::Network(network) => Some(network),
        Value::Address(address) => {
            if let Some(name) = names.of(address) {
                key.push_str(name);
                return true;
            }
            let [v4, v6] = PREFIXES;
            let bits = if address.is_ipv4() { v4 } else { v6 };
            Network::new(address, bits).ok()
        }
        _ => None,
    };
    let Some(network) = network else { return false };
    key.push_str(text.of(Value::Network(network)));
    true
}

/// `tcp/443`. The port is that of the destination, which is the server where that is known; of
/// packets to a client it is that of the source.
fn write_service(record: &dyn Record, fields: &[usize], text: &mut ValueText, key: &mut String) {
    let (mut protocol, mut ports) = (None, [None; 2]);
    for &index in fields {
        match (record.value(index), record.schema().fields[index].name) {
            (Value::Protocol(found), _) => protocol = Some(found),
            (Value::Port(port), "source_port") => ports[0] = Some(port),
            (Value::Port(port), _) => ports[1] = Some(port),
            _ => {}
        }
    }
    let Some(protocol) = protocol else { return };
    key.push_str(text.of(Value::Protocol(protocol)));
    if !matches!(protocol, Protocol::TCP | Protocol::UDP) {
        return;
    }
    let [source, destination] = ports;
    let of_source = source.filter(|&port| port < FIRST_EPHEMERAL);
    let port = match destination {
        Some(port) if port >= FIRST_EPHEMERAL => of_source.or(destination),
        known => known,
    };
    if let Some(port) = port {
        key.push('/');
        key.push_str(text.of(Value::Port(port)));
    }
}

fn write_value(value: Value<'_>, text: &mut ValueText, key: &mut String) {
    match value {
        Value::Text(text) => key.extend(text.chars().map(|letter| match letter {
            SEPARATOR => ' ',
            letter => letter,
        })),
        Value::Address(address) => key.push_str(text.of(Value::Address(address.to_canonical()))),
        Value::Unsigned(_) | Value::Boolean(_) => key.push_str(text.of(value)),
        _ => {}
    }
}
