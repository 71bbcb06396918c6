//! A DNS exchange, and the record that comes of it.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_record::{FlowKey, Nanoseconds, Protocol, Time};

use super::codes::{response_name, type_name};
use super::record::DnsProfile;
use crate::flow::address;
use crate::profile::ending::flow_end_reason;
use crate::profile::names::Names;
use crate::profile::native::dns_event;
use crate::profile::{InGroup, State};

/// Names of types that are remembered; a host has no reason to ask for more.
const TYPES_MAX: usize = 256;

/// A query that waits.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) flow: FlowKey,
    pub(super) name: Option<Arc<str>>,
    pub(super) query_type: u16,
    pub(super) id: u16,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) retries: u32,
    /// When the socket learnt of an error of which nothing is known.
    pub(super) error_ns: Option<u64>,
    pub(super) process: Option<(u32, Arc<str>)>,
    pub(super) group: InGroup,
}

/// How an exchange ended.
pub(super) struct End {
    pub(super) state: State,
    pub(super) reason: &'static str,
    pub(super) response_code: Option<&'static str>,
    pub(super) time_ns: u64,
}

impl End {
    pub(super) fn of(event: &dns_event) -> Self {
        let message = &event.message;
        // Failures of the resolver are none of the network; that a name does not exist is none at
        // all.
        let (state, reason) = match message.response_code {
            0 | 3 if message.is_truncated != 0 => (State::Finished, "truncated answer"),
            0 | 3 => (State::Finished, "answer"),
            _ => (State::Broken, "failure of the resolver"),
        };
        Self {
            state,
            reason,
            response_code: Some(response_name(message.response_code)),
            time_ns: event.time,
        }
    }

    pub(super) fn without_answer(state: State, reason: &'static str, time_ns: u64) -> Self {
        Self {
            state,
            reason,
            response_code: None,
            time_ns,
        }
    }
}

/// Makes records.
#[derive(Debug, Default)]
pub(super) struct ProfileBuilder {
    /// What makes the kernel's time that of the wall clock.
    pub(super) offset_ns: u64,
    names: Names,
    types: HashMap<u16, Arc<str>>,
}

impl ProfileBuilder {
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    pub(super) fn exchange(&mut self, event: &dns_event, name: Option<String>) -> Exchange {
        let process = self.names.text(&event.process);
        Exchange {
            flow: FlowKey {
                protocol: Protocol(event.protocol),
                source: address(&event.local),
                source_port: event.local_port,
                destination: address(&event.remote),
                destination_port: event.remote_port,
            },
            name: name.map(Arc::from),
            query_type: event.message.query_type,
            id: event.message.id,
            first_ns: event.time,
            last_ns: event.time,
            retries: 0,
            error_ns: None,
            process: process.map(|name| (event.process_id, name)),
            group: self.names.group(event.cgroup),
        }
    }

    pub(super) fn profile(&mut self, exchange: Exchange, end: &End) -> DnsProfile {
        let latency_ns = end.time_ns.saturating_sub(exchange.first_ns);
        let (pid, process) = exchange.process.unzip();
        DnsProfile {
            time: self.time(end.time_ns),
            flow: exchange.flow,
            start_state: State::New,
            end_state: end.state,
            reason: end.reason,
            flow_end_reason: flow_end_reason(end.state, end.reason),
            start_time: self.time(exchange.first_ns),
            query_name: exchange.name,
            query_type: self.query_type(exchange.query_type),
            response_code: end.response_code,
            latency_ns: end.response_code.map(|_| Nanoseconds(latency_ns)),
            retries: exchange.retries,
            transaction_id: exchange.id,
            pid,
            process,
            group: exchange.group,
        }
    }

    fn time(&self, kernel_ns: u64) -> Time {
        Time(kernel_ns.wrapping_add(self.offset_ns))
    }

    fn query_type(&mut self, number: u16) -> Arc<str> {
        if self.types.len() >= TYPES_MAX {
            self.types.clear();
        }
        let known = self.types.entry(number);
        let name = known.or_insert_with(|| match type_name(number) {
            Some(name) => name.into(),
            None => format!("TYPE{number}").into(),
        });
        Arc::clone(name)
    }
}
