//! What a writer works out once for each kind of record.

use super::clock::Clock;
use super::line::Line;
use crate::{Protocol, Schema, Value};

/// Something prepared for each kind of record a writer has met. There are as many kinds as
/// declarations: few.
#[derive(Debug, Clone)]
pub(super) struct PerSchema<T> {
    kinds: Vec<(&'static Schema, T)>,
    last: usize,
}

impl<T> Default for PerSchema<T> {
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            last: 0,
        }
    }
}

impl<T> PerSchema<T> {
    /// What was prepared for this kind, and whether that was just now.
    #[inline]
    pub(super) fn get(
        &mut self,
        schema: &'static Schema,
        prepare: impl FnOnce(&'static Schema) -> T,
    ) -> (&T, bool) {
        let is_same = |kind: &(&'static Schema, T)| std::ptr::eq(kind.0, schema);
        let mut is_new = false;
        if !self.kinds.get(self.last).is_some_and(is_same) {
            self.last = self.kinds.iter().position(is_same).unwrap_or_else(|| {
                is_new = true;
                self.kinds.push((schema, prepare(schema)));
                self.kinds.len() - 1
            });
        }
        (&self.kinds[self.last].1, is_new)
    }
}

/// Appends a value in the form that JSON (between quotes, where need be) and CSV share; nothing for
/// those they treat each their own way: missing values, text and floating-point numbers; and for
/// histograms, which lines do not have.
#[inline]
pub(super) fn put_plain(line: &mut Line, clock: &mut Clock, value: Value<'_>) {
    match value {
        Value::Unsigned(number) | Value::Duration(number) => line.unsigned(number),
        Value::Port(port) => line.unsigned(port.into()),
        Value::Boolean(answer) => line.slice(if answer { b"true" } else { b"false" }),
        Value::Time(ns) => clock.put_date_and_time(line, ns),
        Value::Address(address) => line.address(address),
        Value::Protocol(protocol) => put_protocol(line, protocol),
        Value::Network(network) => {
            line.address(network.address());
            line.byte(b'/');
            line.unsigned(network.prefix_length().into());
        }
        Value::CommunityId(id) => id.with_text(|text| line.slice(text.as_bytes())),
        Value::Missing | Value::Text(_) | Value::Float(_) | Value::Histogram(_) => {}
    }
}

/// The name of a protocol, or its number.
pub(super) fn put_protocol(line: &mut Line, protocol: Protocol) {
    match protocol.name() {
        Some(name) => line.slice(name.as_bytes()),
        None => line.unsigned(protocol.0.into()),
    }
}
