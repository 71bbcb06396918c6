//! The records of the measurement.

use std::net::IpAddr;
use std::sync::Arc;

use fathom_record::{AsValue, FlowKey, Metric, Nanoseconds, Time, Type, Unit, Value, record};

use super::group::InGroup;
use super::totals::AtEnd;

/// Where a connection stands when a profile of it starts or ends (COP2, figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not established yet.
    New,
    /// Established, and nothing unusual since.
    Established,
    /// Established, and told of because something happened, or time passed.
    Update,
    /// Both ends have closed it in order.
    Finished,
    /// Ended by a reset, or refused.
    Broken,
    /// The peer could not be reached, or no longer.
    Unreachable,
    /// fathom has lost track of it.
    Desync,
}

impl State {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Established => "ESTABLISHED",
            Self::Update => "UPDATE",
            Self::Finished => "FINISHED",
            Self::Broken => "BROKEN",
            Self::Unreachable => "UNREACHABLE",
            Self::Desync => "DESYNC",
        }
    }
}

impl AsValue for State {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

record! {
    /// What a TCP connection of this host did since the profile before. Counters are increases
    /// since then, unless they say otherwise.
    #[record = "profile"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct TcpProfile {
        /// When the profile ends.
        #[field(ipfix = 153)]
        pub time: Time,
        /// The connection; its source is this host.
        pub flow: FlowKey,
        /// The state that the profile starts in.
        #[field(bare, own_ipfix = 100)]
        pub start_state: State,
        /// The state that it ends in.
        #[field(bare, own_ipfix = 101, metric = Metric::Outcome)]
        pub end_state: State,
        /// What ended the profile.
        #[field(bare, own_ipfix = 102)]
        pub reason: &'static str,
        /// The same in the words of IPFIX (flowEndReason): `active timeout` where the connection
        /// goes on, `end of flow`, `forced end` with the measurement, or `lack of resources`.
        #[field(absent, ipfix = 136)]
        pub flow_end_reason: &'static str,
        /// When the profile starts: the end of the one before, or the attempt to connect.
        #[field(absent, ipfix = 152)]
        pub start_time: Time,
        /// How long the profile is.
        #[field(label = "after", own_ipfix = 103)]
        pub duration_ns: Nanoseconds,
        /// A number that no other connection of this host has until it restarts (the cookie of the
        /// socket).
        #[field(absent, ipfix = 148)]
        pub connection: u64,
        /// `client` where this host opened the connection, `server` where it accepted it; absent
        /// where that is not known.
        #[field(bare, ipfix = 239, metric = Metric::Label)]
        pub role: Option<&'static str>,
        /// True when the connection was there before fathom.
        #[field(own_ipfix = 105)]
        pub is_existing: Option<bool>,
        /// From the SYN to the established state; of a server, not including the time before its
        /// SYN-ACK.
        #[field(label = "establishment", own_ipfix = 106, metric = Metric::Sample)]
        pub establishment_ns: Option<Nanoseconds>,
        /// From the established state until the application took the connection.
        #[field(label = "accept_queue", own_ipfix = 107, metric = Metric::Sample)]
        pub accept_queue_ns: Option<Nanoseconds>,
        /// In the last profile of a connection, sums of all.
        pub total: AtEnd,
        /// Packets sent, with and without payload. What the stack sends after it has forgotten the
        /// connection does not count: as a rule the acknowledgement of the peer's FIN, where this
        /// host closed first.
        #[field(unit = Unit::Packets, absent, ipfix = 2)]
        pub packets: u64,
        /// Their IP bytes, by the headers that packets with payload have: short by up to 36 for
        /// each that reports gaps (SACK), and by up to 28 for each of a subflow of MPTCP; those of
        /// IPv6 with extension headers by these.
        #[field(unit = Unit::Bytes, absent, ipfix = 1)]
        pub bytes: u64,
        /// Packets received, with and without payload, as far as the stack knew whose they are.
        #[field(unit = Unit::Packets, absent, reverse_ipfix = 2)]
        pub reverse_packets: u64,
        /// Their IP bytes, as those of packets sent; payload that waits out of order counts once it
        /// is in order.
        #[field(unit = Unit::Bytes, absent, reverse_ipfix = 1)]
        pub reverse_bytes: u64,
        /// Payload sent, also when sent again.
        #[field(unit = Unit::Bytes, label = "sent", ipfix = 401, metric = Metric::Increase)]
        pub bytes_sent: u64,
        /// Packets with payload sent, also when sent again.
        #[field(unit = Unit::Packets, absent, ipfix = 402, metric = Metric::Increase)]
        pub packets_sent: u32,
        /// Payload received in order.
        #[field(unit = Unit::Bytes, label = "received", own_ipfix = 112, metric = Metric::Increase)]
        pub bytes_received: u64,
        /// Packets with payload received, also out of order or again.
        #[field(unit = Unit::Packets, absent, reverse_ipfix = 402)]
        pub packets_received: u32,
        /// Payload that the peer acknowledged.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 114)]
        pub bytes_acknowledged: u64,
        /// Packets that the peer acknowledged, also selectively; a SYN counts.
        #[field(unit = Unit::Packets, absent, own_ipfix = 115)]
        pub packets_acknowledged: u32,
        /// Packets that the stack marked as lost, each time that it did.
        #[field(unit = Unit::Packets, label = "lost", unless_zero, own_ipfix = 116, metric = Metric::Increase)]
        pub packets_lost: u32,
        /// Payload sent again.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 117)]
        pub bytes_retransmitted: u64,
        /// Packets sent again; SYN, SYN-ACK and FIN count.
        #[field(unit = Unit::Packets, label = "retransmitted", unless_zero, own_ipfix = 118, metric = Metric::Increase)]
        pub packets_retransmitted: u32,
        /// Of them, SYN-ACKs.
        #[field(unit = Unit::Packets, absent, own_ipfix = 119)]
        pub syn_acks_retransmitted: u32,
        /// Packets received with a wrong checksum.
        #[field(unit = Unit::Packets, unless_zero, own_ipfix = 120)]
        pub checksum_errors: Option<u32>,
        /// The stack's smoothed round trip at the end of the profile (RFC 6298).
        #[field(label = "srtt", own_ipfix = 121)]
        pub srtt_ns: Option<Nanoseconds>,
        /// The least round trip of the last minutes, as the stack keeps it
        /// (net.ipv4.tcp_min_rtt_wlen).
        #[field(label = "min_rtt", own_ipfix = 217)]
        pub rtt_min_ns: Option<Nanoseconds>,
        /// Round trips in the profile: the handshake's, then one each round trip.
        #[field(absent, own_ipfix = 123)]
        pub rtt_samples: Option<u32>,
        /// Their mean.
        #[field(label = "mean_rtt", own_ipfix = 240)]
        pub rtt_mean_ns: Option<Nanoseconds>,
        /// Their variance, in microseconds squared.
        #[field(absent, own_ipfix = 125)]
        pub rtt_variance_us2: Option<f64>,
        /// The mean deviation of the round trip, as the stack smooths it (RFC 6298, RTTVAR).
        #[field(label = "jitter", own_ipfix = 126)]
        pub jitter_ns: Option<Nanoseconds>,
        /// Packets received whose payload had all been received before; keep-alives and window
        /// probes are none.
        #[field(unit = Unit::Packets, label = "duplicates", unless_zero, own_ipfix = 130)]
        pub packets_duplicate: Option<u32>,
        /// Their payload.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 131)]
        pub bytes_duplicate: Option<u64>,
        /// Packets received of whose payload a part had been received before.
        #[field(unit = Unit::Packets, absent, own_ipfix = 132)]
        pub packets_partially_duplicate: Option<u32>,
        /// The part.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 133)]
        pub bytes_partially_duplicate: Option<u64>,
        /// Packets received before others that they follow.
        #[field(unit = Unit::Packets, label = "out_of_order", unless_zero, own_ipfix = 134)]
        pub packets_out_of_order: u32,
        /// Their payload.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 135)]
        pub bytes_out_of_order: Option<u64>,
        /// Mean distance between the byte that was expected and the first of such a packet.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 136)]
        pub out_of_order_distance_mean_bytes: Option<f64>,
        /// The variance of that distance, in bytes squared.
        #[field(absent, own_ipfix = 137)]
        pub out_of_order_distance_variance: Option<f64>,
        /// The greatest such distance since the connection was established.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 138)]
        pub out_of_order_distance_max_bytes: Option<u32>,
        /// Retransmission timeouts, of a SYN, of data or of a FIN, and SYN-ACKs sent again.
        #[field(unless_zero, own_ipfix = 140)]
        pub stalls: u32,
        /// Time between a retransmission timeout and the recovery from it; for a SYN, until the
        /// connection was established.
        #[field(label = "stalled", unless_zero, own_ipfix = 141)]
        pub stalled_ns: Nanoseconds,
        /// Time with data to send that the peer's window held back.
        #[field(label = "window_limited", unless_zero, own_ipfix = 142)]
        pub window_limited_ns: Nanoseconds,
        /// Time in which the send buffer held the application back.
        #[field(label = "buffer_limited", unless_zero, own_ipfix = 143)]
        pub send_buffer_limited_ns: Nanoseconds,
        /// Time with data to send or to be acknowledged.
        #[field(absent, own_ipfix = 144)]
        pub busy_ns: Nanoseconds,
        /// Probes of a closed window or a silent peer that are unanswered at the end of the
        /// profile.
        #[field(absent, own_ipfix = 145)]
        pub unanswered_probes: u8,
        /// Packets that the peer reported to have received twice (RFC 2883): signs of spurious
        /// retransmissions.
        #[field(unit = Unit::Packets, label = "duplicates_reported", unless_zero, own_ipfix = 146)]
        pub packets_reported_duplicate: u32,
        /// Times that the stack noticed that the network reorders what it sends.
        #[field(absent, own_ipfix = 147)]
        pub reordering_seen: u32,
        /// Packets that the peer reported as marked with congestion experienced (RFC 3168).
        #[field(unit = Unit::Packets, label = "ce", unless_zero, own_ipfix = 148)]
        pub packets_congestion_experienced: u32,
        /// The name of the congestion control.
        #[field(bare, own_ipfix = 150)]
        pub congestion_control: Arc<str>,
        /// The congestion window at the end of the profile.
        #[field(unit = Unit::Packets, absent, own_ipfix = 151)]
        pub congestion_window: u32,
        /// Payload of a full packet.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 152)]
        pub mss_bytes: u32,
        /// The size of the receive buffer.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 153)]
        pub receive_buffer_bytes: u32,
        /// The size of the send buffer.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 154)]
        pub send_buffer_bytes: u32,
        /// The process that opened, accepted or closed the connection.
        #[field(own_ipfix = 155)]
        pub pid: Option<u32>,
        /// Its name.
        #[field(bare, ipfix = 96)]
        pub process: Option<Arc<str>>,
        /// The control group of the socket, and what it says of whose it is.
        pub group: InGroup,
        /// The network namespace: its inode number.
        #[field(absent, own_ipfix = 157)]
        pub network_namespace: u32,
        /// The interface that its packets leave by.
        #[field(bare, ipfix = 82, metric = Metric::Label)]
        pub interface: Option<Arc<str>>,
        /// The router that they are sent to; absent where the peer is on the same network.
        #[field(label = "via", ipfix = 15)]
        pub next_hop: Option<IpAddr>,
        /// The token of the MPTCP connection that this is a subflow of.
        #[field(own_ipfix = 158)]
        pub mptcp_token: Option<u32>,
        /// The number of the subflow.
        #[field(label = "path", own_ipfix = 159)]
        pub path_index: Option<u8>,
    }
}

record! {
    /// What an MPTCP connection of this host did since the profile before; its subflows have
    /// profiles of their own.
    #[record = "profile_mptcp"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct MptcpProfile {
        /// When the profile ends.
        #[field(ipfix = 153)]
        pub time: Time,
        /// The connection as the application sees it; its source is this host.
        pub flow: FlowKey,
        /// The state that the profile starts in.
        #[field(bare, own_ipfix = 100)]
        pub start_state: State,
        /// The state that it ends in.
        #[field(bare, own_ipfix = 101)]
        pub end_state: State,
        /// What ended the profile.
        #[field(bare, own_ipfix = 102)]
        pub reason: &'static str,
        /// The same in the words of IPFIX (flowEndReason): `active timeout` where the connection
        /// goes on, `end of flow`, or `forced end` with the measurement.
        #[field(absent, ipfix = 136)]
        pub flow_end_reason: &'static str,
        /// When the profile starts: the end of the one before, or the attempt to connect.
        #[field(absent, ipfix = 152)]
        pub start_time: Time,
        /// How long the profile is.
        #[field(label = "after", own_ipfix = 103)]
        pub duration_ns: Nanoseconds,
        /// A number that no other MPTCP connection of this host has until it restarts: the cookie
        /// of the socket, or of a subflow's if it existed before.
        #[field(absent, ipfix = 148)]
        pub connection: u64,
        /// `client` where this host opened the connection, `server` where it accepted it; absent
        /// where that is not known.
        #[field(bare, ipfix = 239)]
        pub role: Option<&'static str>,
        /// True when the connection was there before fathom.
        #[field(own_ipfix = 105)]
        pub is_existing: Option<bool>,
        /// The token that names the connection to its subflows (RFC 8684).
        #[field(own_ipfix = 158)]
        pub mptcp_token: u32,
        /// The subflow that was added or removed at the end of the profile: the number that its own
        /// profiles have.
        #[field(label = "path", own_ipfix = 159)]
        pub path_index: Option<u8>,
        /// From the attempt to the established state; of a server absent.
        #[field(label = "establishment", own_ipfix = 106)]
        pub establishment_ns: Option<Nanoseconds>,
        /// From the established state until the application took the connection.
        #[field(label = "accept_queue", own_ipfix = 107)]
        pub accept_queue_ns: Option<Nanoseconds>,
        /// Payload sent, once whatever the number of subflows that carried it; as all bytes here
        /// absent before Linux 6.5.
        #[field(unit = Unit::Bytes, label = "sent", ipfix = 401)]
        pub bytes_sent: Option<u64>,
        /// Payload received in order.
        #[field(unit = Unit::Bytes, label = "received", own_ipfix = 112)]
        pub bytes_received: Option<u64>,
        /// Payload that the peer acknowledged.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 114)]
        pub bytes_acknowledged: Option<u64>,
        /// Payload that was sent again because the connection timed out, as a rule over another
        /// subflow.
        #[field(unit = Unit::Bytes, label = "reinjected", unless_zero, own_ipfix = 160)]
        pub bytes_reinjected: Option<u64>,
        /// Retransmission timeouts of the connection: data waited behind a subflow that did not
        /// deliver, head-of-line blocking. Absent where functions cannot be probed.
        #[field(unless_zero, own_ipfix = 140)]
        pub stalls: Option<u32>,
        /// Established subflows at the end of the profile.
        #[field(label = "subflows", own_ipfix = 161)]
        pub subflow_count: u32,
        /// The size of the receive buffer.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 153)]
        pub receive_buffer_bytes: u32,
        /// The process that opened, accepted or closed the connection.
        #[field(own_ipfix = 155)]
        pub pid: Option<u32>,
        /// Its name.
        #[field(bare, ipfix = 96)]
        pub process: Option<Arc<str>>,
        /// The control group of the socket, and what it says of whose it is.
        pub group: InGroup,
        /// The network namespace: its inode number.
        #[field(absent, own_ipfix = 157)]
        pub network_namespace: u32,
        /// In the last profile of a connection: the time from the beginning of its first to now.
        #[field(label = "total_after", own_ipfix = 180)]
        pub total_duration_ns: Option<Nanoseconds>,
        /// In the last profile: all payload sent.
        #[field(unit = Unit::Bytes, label = "total_sent", own_ipfix = 181)]
        pub total_bytes_sent: Option<u64>,
        /// In the last profile: all payload received in order.
        #[field(unit = Unit::Bytes, label = "total_received", own_ipfix = 182)]
        pub total_bytes_received: Option<u64>,
        /// In the last profile: all payload that the peer acknowledged.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 183)]
        pub total_bytes_acknowledged: Option<u64>,
        /// In the last profile: all payload that was sent again because the connection timed out.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 195)]
        pub total_bytes_reinjected: Option<u64>,
        /// In the last profile: all stalls.
        #[field(unless_zero, own_ipfix = 193)]
        pub total_stalls: Option<u64>,
    }
}
