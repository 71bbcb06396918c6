//! The records of names.

use std::sync::Arc;

use fathom_record::{FlowKey, Metric, Nanoseconds, Time, record};

use crate::profile::{InGroup, State};

record! {
    /// A DNS query of this host and what became of it, as seen on the wire at port 53.
    #[record = "profile_dns"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct DnsProfile {
        /// When the answer came, or the exchange was given up.
        #[field(ipfix = 153)]
        pub time: Time,
        /// From the socket that asked to the resolver that was asked.
        pub flow: FlowKey,
        /// `NEW`: an exchange has one profile, which starts with the query.
        #[field(bare, own_ipfix = 100)]
        pub start_state: State,
        /// `FINISHED`: answered, if only by saying that the name does not exist; `BROKEN`: the
        /// resolver failed or refused; `UNREACHABLE`: no answer in time, or an error of the
        /// network; `DESYNC`: fathom may have lost the answer; `NEW`: the measurement ended before.
        #[field(bare, own_ipfix = 101, metric = Metric::Outcome)]
        pub end_state: State,
        /// What ended the exchange.
        #[field(bare, own_ipfix = 102)]
        pub reason: &'static str,
        /// The same in the words of IPFIX (flowEndReason): `end of flow`, `lack of resources`, or
        /// `forced end` with the measurement.
        #[field(absent, ipfix = 136)]
        pub flow_end_reason: &'static str,
        /// When the query was first sent.
        #[field(absent, ipfix = 152)]
        pub start_time: Time,
        /// The name that was asked for, in the letters of the query; what is no letter, digit,
        /// hyphen or underscore is escaped as in files of zones (RFC 1035, section 5.1). Absent
        /// where names are not to be told.
        #[field(bare, own_ipfix = 175)]
        pub query_name: Option<Arc<str>>,
        /// The type of the records that were asked for: its name, or `TYPE` and its number (RFC
        /// 3597).
        #[field(bare, own_ipfix = 170)]
        pub query_type: Arc<str>,
        /// What the answer says: a name of the registry of RFC 6895. The upper bits, which EDNS
        /// has, are not looked at.
        #[field(bare, own_ipfix = 171, metric = Metric::Label)]
        pub response_code: Option<&'static str>,
        /// From the first query to the answer.
        #[field(label = "latency", own_ipfix = 172, metric = Metric::Sample)]
        pub latency_ns: Option<Nanoseconds>,
        /// Times that the same socket sent the query again; over TCP the stack does.
        #[field(own_ipfix = 173, metric = Metric::Increase)]
        pub retries: u32,
        /// The number in the message that ties answer and query together.
        #[field(absent, own_ipfix = 174)]
        pub transaction_id: u16,
        /// The process that sent the query.
        #[field(own_ipfix = 155)]
        pub pid: Option<u32>,
        /// Its name.
        #[field(bare, ipfix = 96)]
        pub process: Option<Arc<str>>,
        /// The control group of the socket, and what it says of whose it is.
        pub group: InGroup,
    }
}

record! {
    /// How long an application waited for `getaddrinfo` of its C library, whatever that did: asked
    /// over DNS, TLS or HTTPS, or found it in a file or a cache.
    #[record = "profile_lookup"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct LookupProfile {
        /// When the call returned.
        #[field(ipfix = 153)]
        pub time: Time,
        /// What was looked up, a name or an address as text, up to 255 bytes; absent where none was
        /// given, or names are not to be told.
        #[field(bare, own_ipfix = 175)]
        pub query_name: Option<Arc<str>>,
        /// What the call returned: 0, or the name of an error (RFC 3493, section 6.1).
        #[field(own_ipfix = 176, metric = Metric::Outcome)]
        pub result: &'static str,
        /// When it was called.
        #[field(absent, ipfix = 152)]
        pub start_time: Time,
        /// How long it took.
        #[field(label = "latency", own_ipfix = 172, metric = Metric::Sample)]
        pub latency_ns: Nanoseconds,
        /// The process that called.
        #[field(own_ipfix = 155)]
        pub pid: u32,
        /// Its name.
        #[field(bare, ipfix = 96)]
        pub process: Arc<str>,
        /// The control group of the process, and what it says of whose it is.
        pub group: InGroup,
    }
}
