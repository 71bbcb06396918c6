//! What is asked of the measurement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::rtt::native;
use crate::selection::Scope;
use fathom_record::{AsValue, Nanoseconds, Type, Value};

/// A way of matching packets with their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Method {
    /// TCP timestamps: the first packet with a TSval against the first that echoes it (RFC 7323).
    Timestamp,
    /// TCP data against the acknowledgement of exactly it, for connections without timestamps.
    Sequence,
    /// SYN to SYN-ACK to ACK; for QUIC the client's first Initial to the server's first packet to
    /// the client's next.
    Handshake,
    /// ICMP and `ICMPv6` echo.
    Echo,
    /// Edges of the QUIC latency spin bit (RFC 9000, section 17.4).
    Spin,
    /// DNS query to response, over UDP and TCP.
    Dns,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 6] = [
        Self::Timestamp,
        Self::Sequence,
        Self::Handshake,
        Self::Echo,
        Self::Spin,
        Self::Dns,
    ];

    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        native::method_names()[self as usize]
    }

    /// From the number that the C side uses.
    pub(crate) fn from_number(number: u8) -> Self {
        *Self::ALL
            .get(usize::from(number))
            .unwrap_or(&Self::Timestamp)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// No method has this name.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no method \"{0}\": the methods are {known}",
    known = native::method_names().join(", ")
)]
pub struct NoMethod(String);

impl FromStr for Method {
    type Err = NoMethod;

    fn from_str(text: &str) -> Result<Self, NoMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text)
            .ok_or_else(|| NoMethod(text.to_owned()))
    }
}

impl AsValue for Method {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

/// A set of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodSet(u32);

impl MethodSet {
    /// Every method.
    pub const ALL: Self = Self((1 << Method::ALL.len()) - 1);

    /// The bits as the C side has them.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
}

impl FromIterator<Method> for MethodSet {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Self {
        Self(
            methods
                .into_iter()
                .fold(0, |bits, method| bits | 1 << method as u32),
        )
    }
}

/// How samples come to user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Each by itself.
    Single,
    /// The same, and those of TCP with the bytes that went with them. It takes as much memory as
    /// slots do.
    WithBytes,
    /// On live interfaces those of a flow come many at a time, without their times and methods: for
    /// those who put them together.
    InBatches,
}

/// What is asked of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The methods to use. A connection whose packets carry timestamps is measured by them if they
    /// are in the set, else by sequence.
    pub methods: MethodSet,
    /// Between the packets of one direction of a flow that are measured; zero: every one that can
    /// be.
    pub sample_interval: Duration,
    /// At most so many samples a smoothed round trip in each direction; 0: no limit.
    pub per_rtt: u32,
    /// Which packets are measured.
    pub scope: Scope,
    /// Packets of one direction that may wait for their answers at the same time: a power of two.
    /// In the kernel a flow holds so many from the start; over files it holds what it needs, up to
    /// this.
    pub slots: u32,
    /// Measure towards addresses of this machine too.
    pub has_near_side: bool,
    /// Report flows that open and close.
    pub has_events: bool,
    /// How samples come.
    pub samples: Samples,
}

impl Settings {
    /// Packets that wait longer for their answer are given up.
    pub const EXPIRY: Duration = Duration::from_secs(10);

    /// For a live interface: ten samples a second of each direction.
    pub fn live() -> Self {
        Self {
            methods: MethodSet::ALL,
            sample_interval: Duration::from_millis(100),
            per_rtt: 4,
            scope: Scope::live(),
            slots: 8,
            has_near_side: false,
            has_events: false,
            samples: Samples::Single,
        }
    }

    /// For capture files: every sample there is.
    pub fn files() -> Self {
        Self {
            sample_interval: Duration::ZERO,
            per_rtt: 0,
            scope: Scope::files(),
            slots: 8192,
            ..Self::live()
        }
    }

    /// What lies behind a flow of the kernel's, in entries of 16 bytes: slots, and as many marks
    /// where bytes are counted.
    pub fn pending_entries(&self) -> usize {
        native::pending_entries(self.slots as usize, self.samples == Samples::WithBytes)
    }

    /// As the C side takes them.
    pub(crate) fn to_native(&self, seed: u64, buckets: u32) -> native::rtt_config {
        native::rtt_config {
            sample_interval: Nanoseconds::from(self.sample_interval).0,
            expiry: Nanoseconds::from(Self::EXPIRY).0,
            seed,
            per_rtt: self.per_rtt,
            methods: self.methods.bits(),
            slots: self.slots,
            bucket_mask: buckets - 1,
            has_near_side: u8::from(self.has_near_side),
            has_tunnels: u8::from(self.scope.has_tunnels),
            has_events: u8::from(self.has_events),
            has_bytes: u8::from(self.samples == Samples::WithBytes),
            has_batches: u8::from(self.samples == Samples::InBatches),
            ..native::rtt_config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_the_numbers_of_the_c_side() {
        for (number, method) in Method::ALL.into_iter().enumerate() {
            assert_eq!(method as usize, number);
            assert_eq!(method.name().parse::<Method>().unwrap(), method);
            assert_eq!(Method::from_number(number as u8), method);
        }
        assert_eq!(Method::Dns.name(), "dns");
        assert!("tsval".parse::<Method>().is_err());
    }
}
