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
            Some(anonymity) => put(&Hidden { record, anonymity }),
        }
    }
}

/// A record whose addresses are cut.
struct Hidden<'a> {
    record: &'a dyn Record,
    anonymity: Anonymity,
}

impl Hidden<'_> {
    fn cut<'a>(&self, value: Value<'a>) -> Value<'a> {
        match value {
            Value::Address(address) => Value::Address(self.anonymity.cut(address)),
            value => value,
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
}

impl Record for Hidden<'_> {
    fn schema(&self) -> &'static Schema {
        self.record.schema()
    }

    fn value(&self, index: usize) -> Value<'_> {
        self.cut(self.record.value(index))
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
