//! "Do this to the Nth such packet": impairments aimed at particular packets.

use std::collections::HashMap;
use std::time::Duration;

use super::header::{FlowId, PacketHeader, TcpFlags, Transport};

/// Flows whose packets one rule counts separately; flows beyond are not touched.
const MAXIMUM_FLOWS: usize = 65_536;

/// A kind of packet a rule can aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// Every packet, also those that cannot be parsed.
    Any,
    /// TCP with payload.
    Data,
    /// TCP with SYN and without ACK.
    Syn,
    /// TCP with SYN and ACK.
    SynAck,
    /// TCP with ACK and nothing else: no payload, no SYN, FIN or RST.
    Ack,
    /// TCP with FIN.
    Fin,
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 echo request or reply.
    Echo,
    /// ICMP or ICMPv6 error.
    IcmpError,
}

impl PacketKind {
    fn includes(self, header: Option<&PacketHeader>) -> bool {
        if self == Self::Any {
            return true;
        }
        let Some(header) = header else { return false };
        match header.transport {
            Transport::Tcp { flags, .. } => match self {
                Self::Data => header.payload_length > 0,
                Self::Syn => flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK),
                Self::SynAck => flags.contains(TcpFlags::SYN | TcpFlags::ACK),
                Self::Ack => {
                    header.payload_length == 0
                        && flags.contains(TcpFlags::ACK)
                        && !flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
                }
                Self::Fin => flags.contains(TcpFlags::FIN),
                Self::Any | Self::Udp | Self::Echo | Self::IcmpError => false,
            },
            Transport::Udp { .. } => self == Self::Udp,
            Transport::Echo { .. } => self == Self::Echo,
            Transport::IcmpError { .. } => self == Self::IcmpError,
            Transport::Other => false,
        }
    }
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The packet vanishes.
    Drop,
    /// The packet comes so much later; others may pass it.
    Delay(Duration),
    /// The packet is delivered twice.
    Duplicate,
    /// One bit of the packet's payload is flipped.
    Corrupt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    EachFlow,
    Port(u16),
}

/// An impairment of the Nth packet (or of several in a row) of a kind, counted from one since the
/// direction was put in force.
///
/// # Examples
/// ```
/// use fathom_lab::{PacketKind, Rule};
/// let lose_the_first_two_syns_of_each_flow = Rule::nth(1, PacketKind::Syn).times(2).in_each_flow().drop();
/// ```
#[derive(Debug, Clone)]
pub struct Rule {
    kind: PacketKind,
    first: u64,
    times: u64,
    scope: Scope,
    action: Action,
}

impl Rule {
    /// Aims at the `number`th packet of `kind`, from one; without another action it is dropped.
    pub fn nth(number: u64, kind: PacketKind) -> Self {
        Self {
            kind,
            first: number,
            times: 1,
            scope: Scope::All,
            action: Action::Drop,
        }
    }

    /// Aims at so many packets in a row.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Counts each flow (protocol, addresses, ports) by itself.
    #[must_use]
    pub fn in_each_flow(mut self) -> Self {
        self.scope = Scope::EachFlow;
        self
    }

    /// Counts only packets with `port` on either side.
    #[must_use]
    pub fn on_port(mut self, port: u16) -> Self {
        self.scope = Scope::Port(port);
        self
    }

    /// Drops the packet.
    #[must_use]
    pub fn drop(self) -> Self {
        self.action(Action::Drop)
    }

    /// Delays the packet by `delay` more than its direction does.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.action(Action::Delay(delay))
    }

    /// Delivers the packet twice.
    #[must_use]
    pub fn duplicate(self) -> Self {
        self.action(Action::Duplicate)
    }

    /// Damages the packet.
    #[must_use]
    pub fn corrupt(self) -> Self {
        self.action(Action::Corrupt)
    }

    fn action(mut self, action: Action) -> Self {
        self.action = action;
        self
    }
}

/// A rule with its counts.
#[derive(Debug)]
pub(crate) struct RuleState {
    rule: Rule,
    seen: u64,
    seen_by_flow: HashMap<FlowId, u64>,
}

impl RuleState {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            seen: 0,
            seen_by_flow: HashMap::new(),
        }
    }

    /// Counts a packet and says what happens to it.
    pub(crate) fn on_packet(&mut self, header: Option<&PacketHeader>) -> Option<Action> {
        if !self.rule.kind.includes(header) {
            return None;
        }
        let seen = match self.rule.scope {
            Scope::All => &mut self.seen,
            Scope::Port(port) => {
                let header = header?;
                if header.source_port != port && header.destination_port != port {
                    return None;
                }
                &mut self.seen
            }
            Scope::EachFlow => {
                let flow = header?.flow();
                if self.seen_by_flow.len() >= MAXIMUM_FLOWS
                    && !self.seen_by_flow.contains_key(&flow)
                {
                    return None;
                }
                self.seen_by_flow.entry(flow).or_default()
            }
        };
        *seen += 1;
        let last = self.rule.first.saturating_add(self.rule.times);
        (self.rule.first..last)
            .contains(seen)
            .then_some(self.rule.action)
    }
}
