//! The records of the balancer.

use std::net::IpAddr;
use std::sync::Arc;

use fathom_record::{
    AsValue, Metric, Nanoseconds, Network, Port, Protocol, Time, Type, Unit, Value, record,
};

use crate::controller::{Measurement, Reason};
use crate::health::State;

impl AsValue for Reason {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.text())
    }
}

impl AsValue for State {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.text())
    }
}

record! {
    /// How a server of a service stands, and what was measured of it since its record before (in
    /// `status`: in the last interval of the controller).
    #[record = "balance"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct BalanceWeight {
        /// When that was.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The service.
        #[field(bare, own_ipfix = 300, metric = Metric::Label)]
        pub service: Arc<str>,
        /// The server, by its name.
        #[field(bare, own_ipfix = 301, metric = Metric::Label)]
        pub server: Arc<str>,
        /// Its address.
        #[field(bare, own_ipfix = 302)]
        pub address: IpAddr,
        /// Its part of new flows, 0 to 1.
        #[field(own_ipfix = 303, metric = Metric::Gauge)]
        pub share: f64,
        /// That in relation to what is configured, the average of all servers being 1.
        #[field(own_ipfix = 304)]
        pub factor: Option<f64>,
        /// What clients waited for its responses, on average; absent when there was no estimate.
        #[field(label = "latency", own_ipfix = 172, metric = Metric::Gauge)]
        pub latency_ns: Option<Nanoseconds>,
        /// The standard error of that, in relation to it.
        #[field(own_ipfix = 305)]
        pub error: Option<f64>,
        /// Responses that it is the average of.
        #[field(own_ipfix = 306)]
        pub responses: u64,
        /// Flows whose last request is not answered yet.
        #[field(unless_zero, own_ipfix = 307, metric = Metric::Gauge)]
        pub waiting_flows: u64,
        /// How long these have waited up to now, on average.
        #[field(label = "waiting", own_ipfix = 287)]
        pub waiting_ns: Option<Nanoseconds>,
        /// Flows that sent a request in the last interval of the controller.
        #[field(own_ipfix = 233)]
        pub flows: u64,
        /// healthy, unhealthy, slow start, drained, or unknown.
        #[field(bare, own_ipfix = 308)]
        pub state: State,
        /// Why its weight is what it is.
        #[field(own_ipfix = 309)]
        pub why: Reason,
    }
}

record! {
    /// A server is there again, or is there no more.
    #[record = "balance_health"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct BalanceHealth {
        /// When it was found.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The server, by its name.
        #[field(bare, own_ipfix = 301)]
        pub server: Arc<str>,
        /// Its address.
        #[field(bare, own_ipfix = 302)]
        pub address: IpAddr,
        /// The address and port that were checked: the service's, if it was checked through the
        /// tunnel, else its own.
        #[field(own_ipfix = 310)]
        pub target: String,
        /// healthy or unhealthy.
        #[field(bare, own_ipfix = 308)]
        pub state: State,
        /// What the last check found, if it failed.
        #[field(own_ipfix = 311)]
        pub failure: Option<String>,
    }
}

record! {
    /// A service, and what passed to it since forwarding began.
    #[record = "balance_service"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct BalanceService {
        /// When it was read.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The service.
        #[field(bare, own_ipfix = 300, metric = Metric::Label)]
        pub service: Arc<str>,
        /// Its address or network.
        #[field(bare, own_ipfix = 230)]
        pub network: Network,
        /// Its port; absent: all.
        #[field(own_ipfix = 312)]
        pub port: Option<Port>,
        /// tcp or udp.
        #[field(bare, ipfix = 4)]
        pub protocol: Protocol,
        /// How its weights follow from measurements.
        #[field(own_ipfix = 313)]
        pub policy: &'static str,
        /// Packets.
        #[field(unit = Unit::Packets, ipfix = 86, metric = Metric::Counter)]
        pub packets: u64,
        /// Bytes of IP.
        #[field(unit = Unit::Bytes, label = "bytes", ipfix = 85, metric = Metric::Counter)]
        pub bytes: u64,
        /// New connections.
        #[field(own_ipfix = 314, metric = Metric::Counter)]
        pub connections: u64,
        /// Packets whose connection was in the table.
        #[field(own_ipfix = 315, metric = Metric::Counter)]
        pub hits: u64,
        /// Packets of no connection in the table that began none.
        #[field(own_ipfix = 316, metric = Metric::Counter)]
        pub misses: u64,
    }
}

record! {
    /// A server, and what was sent to it since forwarding began.
    #[record = "balance_server"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct BalanceServer {
        /// When it was read.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The server, by its name.
        #[field(bare, own_ipfix = 301, metric = Metric::Label)]
        pub server: Arc<str>,
        /// Its address.
        #[field(bare, own_ipfix = 302, metric = Metric::Label)]
        pub address: IpAddr,
        /// How packets get there.
        #[field(bare, own_ipfix = 317)]
        pub encapsulation: &'static str,
        /// healthy, unhealthy, slow start, drained, unreachable, or unknown.
        #[field(bare, own_ipfix = 308)]
        pub state: State,
        /// How it is checked: whether at the address of a service, through the tunnel, or at its
        /// own; or why it is not.
        #[field(own_ipfix = 318)]
        pub check: Option<String>,
        /// Its weight: what an operator said, else what is configured.
        #[field(own_ipfix = 319, metric = Metric::Gauge)]
        pub weight: f64,
        /// Connections in the table that are not closing.
        #[field(own_ipfix = 314, metric = Metric::Gauge)]
        pub connections: u64,
        /// Packets.
        #[field(unit = Unit::Packets, ipfix = 86, metric = Metric::Counter)]
        pub packets: u64,
        /// Bytes of IP, without the headers that were put in front.
        #[field(unit = Unit::Bytes, label = "bytes", ipfix = 85, metric = Metric::Counter)]
        pub bytes: u64,
        /// What is wrong with it: the last check that failed, or why it cannot be reached.
        #[field(own_ipfix = 320)]
        pub problem: Option<String>,
    }
}

impl BalanceWeight {
    /// Of a server: names of service and server, and its address.
    pub(crate) fn new(
        time: Time,
        (service, server, address): (&Arc<str>, &Arc<str>, IpAddr),
        share: f64,
        factor: Option<f64>,
        measured: &Measurement,
        state: State,
        why: Reason,
    ) -> Self {
        let latency = measured.latency;
        Self {
            time,
            service: Arc::clone(service),
            server: Arc::clone(server),
            address,
            share: rounded(share),
            factor: factor.map(rounded),
            latency_ns: latency.map(|latency| nanoseconds(latency.mean_ns)),
            error: latency.map(|latency| rounded(latency.error)),
            responses: latency.map_or(0, |latency| latency.responses),
            waiting_flows: measured.waiting.map_or(0, |waiting| waiting.flows.into()),
            waiting_ns: measured.waiting.map(|waiting| nanoseconds(waiting.mean_ns)),
            flows: measured.flows.into(),
            state,
            why,
        }
    }
}

/// More digits would say nothing.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[expect(clippy::cast_sign_loss, reason = "no time is negative")]
fn nanoseconds(number: f64) -> Nanoseconds {
    Nanoseconds(number.round() as u64)
}
