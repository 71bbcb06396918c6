//! What leaves fathom: connections of which processes, and how much of their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fathom_record::{Record, Schema, Value, Visitor};

use crate::arguments::{Anonymity, ProfileArguments};

/// Decides about records by the names of their fields.
pub(super) struct Filter {
    processes: Vec<String>,
    anonymity: Option<Anonymity>,
}

impl Filter {
    pub(super) fn new(arguments: &ProfileArguments) -> Self {
        Self {
            processes: arguments.selection.process.clone(),
            anonymity: arguments.output.anonymize,
        }
    }

    /// Is it of a process that is wanted?
    pub(super) fn admits(&self, record: &dyn Record) -> bool {
        if self.processes.is_empty() {
            return true;
        }
        let process = record
            .schema()
            .position("process")
            .map(|index| record.value(index));
        match process {
            Some(Value::Text(name)) => self.processes.iter().any(|wanted| wanted == name),
            _ => false,
        }
    }

    /// Hands the record on as it may be seen.
    pub(super) fn hide(&self, record: &dyn Record, mut put: impl FnMut(&dyn Record)) {
        match self.anonymity {
            None => put(record),
            Some(anonymity) => put(&Hidden::new(record, anonymity)),
        }
    }
}

/// A record whose addresses are cut.
struct Hidden<'a> {
    record: &'a dyn Record,
    anonymity: Anonymity,
    /// The field that applications fill in, and its text cut: somebody may have asked for the name of an address.
    name: Option<(usize, String)>,
}

impl<'a> Hidden<'a> {
    fn new(record: &'a dyn Record, anonymity: Anonymity) -> Self {
        let position = record.schema().position("name");
        let name = position.and_then(|index| match record.value(index) {
            Value::Text(name) => Some((index, anonymity.cut_text(name)?)),
            _ => None,
        });
        Self {
            record,
            anonymity,
            name,
        }
    }
}

impl Anonymity {
    /// The network of an address.
    fn cut(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.v4_bits))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.v6_bits))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    /// The network of an address that stands in a text, with or without its zone; `None` for any other text.
    fn cut_text(self, text: &str) -> Option<String> {
        let (address, zone) = text.split_once('%').unwrap_or((text, ""));
        let cut = self.cut(address.parse().ok()?);
        let mark = if zone.is_empty() { "" } else { "%" };
        Some(format!("{cut}{mark}{zone}"))
    }
}

impl Record for Hidden<'_> {
    fn schema(&self) -> &'static Schema {
        self.record.schema()
    }

    fn value(&self, index: usize) -> Value<'_> {
        match (self.record.value(index), &self.name) {
            (Value::Address(address), _) => Value::Address(self.anonymity.cut(address)),
            (Value::Text(_), Some((position, name))) if *position == index => Value::Text(name),
            (value, _) => value,
        }
    }

    fn visit(&self, visitor: &mut dyn Visitor) {
        for index in 0..self.schema().fields.len() {
            match self.value(index) {
                Value::Missing => {}
                value => visitor.value(index, value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_addresses_are_cut() {
        let anonymity = Anonymity {
            v4_bits: 24,
            v6_bits: 64,
        };
        let cut = |text: &str| anonymity.cut_text(text);
        assert_eq!(cut("192.0.2.7").as_deref(), Some("192.0.2.0"));
        assert_eq!(cut("2001:db8::1:2").as_deref(), Some("2001:db8::"));
        assert_eq!(cut("fe80::7%eth0").as_deref(), Some("fe80::%eth0"));
        for name in ["", "www.example.com", "192.0.2.7.example", "1.2.3"] {
            assert_eq!(cut(name), None);
        }
    }
}
