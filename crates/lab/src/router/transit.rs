//! What a scripted router does with a packet: a pure function of the script, the packets before and
//! this one.

use std::net::IpAddr;

use super::answer::time_exceeded;
use super::packet::{End, ICMP, ICMPV6, Packet, fold, sum};
use super::{Answers, Identity, ScriptedRouter, Translation};
use crate::link::{ICMP_ERRORS, ICMPV6_ERRORS_END};

/// Bytes of an ICMP header before the quote.
const ICMP_HEADER_BYTES: usize = 8;

/// Where a packet came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// From the client.
    Near,
    /// From the server.
    Far,
}

/// Where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To the other side.
    Forward,
    /// Nowhere, but this goes back.
    Answer(Vec<u8>),
    /// Nowhere.
    Drop,
}

/// A router at work.
#[derive(Debug)]
pub(super) struct Transit {
    script: ScriptedRouter,
    identities: [Identity; 2],
    /// Packets that expired so far.
    expired: u64,
}

impl Transit {
    pub(super) fn new(script: ScriptedRouter, identities: [Identity; 2]) -> Self {
        Self {
            script,
            identities,
            expired: 0,
        }
    }

    /// Decides about a packet and changes it to what is forwarded.
    pub(super) fn pass(&mut self, bytes: &mut [u8], side: Side) -> Verdict {
        let Some(mut packet) = Packet::new(bytes) else {
            return Verdict::Drop;
        };
        if packet.address(End::Destination).is_multicast() {
            return Verdict::Drop;
        }
        let is_v6 = packet.is_v6();
        let is_own = |identity: &&Identity| identity.own.is_ipv6() == is_v6;
        let Some(identity) = self.identities.iter().find(is_own).copied() else {
            return Verdict::Drop;
        };
        if packet.hop_limit() <= 1 {
            return self.expire(&packet, identity.own);
        }
        packet.set_hop_limit(packet.hop_limit() - 1);
        if side == Side::Near {
            self.mark(&mut packet);
        }
        if let Some(translation) = self.script.translation {
            match side {
                Side::Near => translate_out(&mut packet, translation, identity),
                Side::Far => translate_back(&mut packet, translation, identity),
            }
        }
        Verdict::Forward
    }

    fn expire(&mut self, packet: &Packet, own: IpAddr) -> Verdict {
        // Errors about errors would never end, and only the first fragment says whose it is (RFC
        // 1812 §4.3.2.7).
        if is_error(packet) || !packet.has_transport() {
            return Verdict::Drop;
        }
        let number = self.expired;
        self.expired += 1;
        let is_answered = match self.script.answers {
            Answers::Always => true,
            Answers::EveryNth(every) => number.is_multiple_of(u64::from(every.max(1))),
            Answers::Never => false,
        };
        is_answered
            .then(|| time_exceeded(&self.script, own, packet))
            .flatten()
            .map_or(Verdict::Drop, Verdict::Answer)
    }

    fn mark(&self, packet: &mut Packet) {
        let old = packet.traffic_class();
        let dscp = self.script.dscp.unwrap_or(old >> 2);
        let ecn = self.script.ecn.unwrap_or(old);
        let new = dscp << 2 | ecn & 3;
        if new != old {
            packet.set_traffic_class(new);
        }
    }
}

fn is_error(packet: &Packet) -> bool {
    let kind = packet.payload().first().copied();
    match packet.protocol() {
        ICMP => packet.has_transport() && kind.is_some_and(|kind| ICMP_ERRORS.contains(&kind)),
        ICMPV6 => kind.is_some_and(|kind| kind < ICMPV6_ERRORS_END),
        _ => false,
    }
}

fn translate_out(packet: &mut Packet, translation: Translation, identity: Identity) {
    if packet.address(End::Source) == identity.client {
        packet.set_address(End::Source, identity.outside);
        packet.shift_port(End::Source, translation.port_offset);
    }
}

fn translate_back(packet: &mut Packet, translation: Translation, identity: Identity) {
    if packet.address(End::Destination) != identity.outside {
        return;
    }
    packet.set_address(End::Destination, identity.client);
    if is_error(packet) {
        if translation.restores_quotes {
            restore_quote(packet, translation, identity);
        }
    } else {
        let offset = translation.port_offset.wrapping_neg();
        packet.shift_port(End::Destination, offset);
    }
}

/// Puts the client into what an error quotes, but leaves the quoted transport checksum alone, as
/// many translators do: what a tool can see them by.
fn restore_quote(error: &mut Packet, translation: Translation, identity: Identity) {
    let before = sum(error.payload());
    let offset = translation.port_offset.wrapping_neg();
    let quote = error.payload_mut().get_mut(ICMP_HEADER_BYTES..);
    let Some(mut quote) = quote.and_then(Packet::new) else {
        return;
    };
    if quote.address(End::Source) != identity.outside {
        return;
    }
    quote.restore_source(identity.client, offset);
    let after = sum(error.payload());
    let Some(field) = error.payload_mut().get_mut(2..4) else {
        return;
    };
    let checksum = u16::from_be_bytes([field[0], field[1]]);
    let kept = u32::from(!checksum) + u32::from(!fold(before));
    let mended = !fold(kept + u32::from(fold(after)));
    field.copy_from_slice(&mended.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetHeaders, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    const TRANSLATION: Translation = Translation {
        port_offset: 40_000,
        restores_quotes: true,
    };

    fn identity(is_v6: bool) -> Identity {
        let [own, outside, client] = if is_v6 {
            ["fd78:2::2", "fd78:3::1", "fd78:1::1"]
        } else {
            ["10.78.2.2", "10.78.3.1", "10.78.1.1"]
        };
        Identity {
            own: own.parse().unwrap(),
            outside: outside.parse().unwrap(),
            client: client.parse().unwrap(),
        }
    }

    fn transit(script: ScriptedRouter) -> Transit {
        Transit::new(script, [false, true].map(identity))
    }

    /// A packet of the client, or one back if `is_back`.
    fn packet(is_v6: bool, is_tcp: bool, is_back: bool, hops: u8, payload: &[u8]) -> Vec<u8> {
        let builder = if is_v6 {
            let (client, server) = ([0xfd78, 1, 0, 0, 0, 0, 0, 1], [0xfd78, 4, 0, 0, 0, 0, 0, 2]);
            let octets = |words: [u16; 8]| std::net::Ipv6Addr::from(words).octets();
            let outside = octets([0xfd78, 3, 0, 0, 0, 0, 0, 1]);
            let (from, to) = if is_back {
                (octets(server), outside)
            } else {
                (octets(client), octets(server))
            };
            PacketBuilder::ipv6(from, to, hops)
        } else if is_back {
            PacketBuilder::ipv4([10, 78, 4, 2], [10, 78, 3, 1], hops)
        } else {
            PacketBuilder::ipv4([10, 78, 1, 1], [10, 78, 4, 2], hops)
        };
        let mut bytes = Vec::new();
        if is_tcp {
            let segment = builder.tcp(50_000, 50_001, 7, 1000);
            segment.write(&mut bytes, payload).unwrap();
        } else {
            let datagram = builder.udp(50_000, 50_001);
            datagram.write(&mut bytes, payload).unwrap();
        }
        bytes
    }

    /// Builds the packet again from its parsed headers, with the checksums computed afresh.
    fn rebuilt(bytes: &[u8]) -> Vec<u8> {
        let headers = etherparse::PacketHeaders::from_ip_slice(bytes).unwrap();
        let payload = headers.payload.slice();
        let mut transport = headers.transport.unwrap();
        let mut out = Vec::new();
        match headers.net.unwrap() {
            NetHeaders::Ipv4(mut ip, _) => {
                transport.update_checksum_ipv4(&ip, payload).unwrap();
                ip.header_checksum = ip.calc_header_checksum();
                ip.write(&mut out).unwrap();
            }
            NetHeaders::Ipv6(ip, _) => {
                transport.update_checksum_ipv6(&ip, payload).unwrap();
                ip.write(&mut out).unwrap();
            }
            NetHeaders::Arp(_) => panic!("not IP"),
        }
        transport.write(&mut out).unwrap();
        out.extend(payload);
        out
    }

    fn ports(bytes: &[u8]) -> (u16, u16) {
        match SlicedPacket::from_ip(bytes).unwrap().transport {
            Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
            Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn checksums_stay_right(
            is_v6: bool,
            is_tcp: bool,
            is_back: bool,
            hops in 2_u8..,
            payload in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut transit = transit(ScriptedRouter {
                dscp: Some(46),
                ecn: Some(1),
                translation: Some(TRANSLATION),
                ..ScriptedRouter::default()
            });
            let side = if is_back { Side::Far } else { Side::Near };
            let mut bytes = packet(is_v6, is_tcp, is_back, hops, &payload);
            prop_assert_eq!(transit.pass(&mut bytes, side), Verdict::Forward);
            prop_assert_eq!(&rebuilt(&bytes), &bytes);
            let expected = if is_back { (50_000, 10_001) } else { (24_464, 50_001) };
            prop_assert_eq!(ports(&bytes), expected);
            let packet = Packet::new(&mut bytes).unwrap();
            prop_assert_eq!(packet.hop_limit(), hops - 1);
            prop_assert_eq!(packet.traffic_class(), if is_back { 0 } else { 46 << 2 | 1 });
            let translated = match side {
                Side::Near => packet.address(End::Source) == identity(is_v6).outside,
                Side::Far => packet.address(End::Destination) == identity(is_v6).client,
            };
            prop_assert!(translated);
        }

        #[test]
        fn garbage_never_panics(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120), version in prop::sample::select(vec![0x45_u8, 0x60, 0x4f, 0]),
            is_back: bool,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            let mut transit = transit(ScriptedRouter {
                translation: Some(TRANSLATION),
                ..ScriptedRouter::default()
            });
            transit.pass(&mut bytes, if is_back { Side::Far } else { Side::Near });
        }
    }

    #[test]
    fn quotes_come_back_as_the_client_knows_them() {
        for is_v6 in [false, true] {
            let mut router = transit(ScriptedRouter {
                translation: Some(TRANSLATION),
                ..ScriptedRouter::default()
            });
            let sent = packet(is_v6, false, false, 2, b"hello");
            let mut forwarded = sent.clone();
            router.pass(&mut forwarded, Side::Near);
            let mut behind = transit(ScriptedRouter::default());
            let Verdict::Answer(mut answer) = behind.pass(&mut forwarded, Side::Near) else {
                panic!("no answer");
            };
            assert_eq!(router.pass(&mut answer, Side::Far), Verdict::Forward);
            assert_eq!(rebuilt(&answer), answer);
            let mut quoted = Packet::new(&mut answer).unwrap().payload()[8..].to_vec();
            let mut expected = sent;
            assert_ne!(quoted, expected);
            // All but what was left of the TTL and the transport checksum.
            for bytes in [&mut quoted, &mut expected] {
                let mut packet = Packet::new(bytes).unwrap();
                packet.set_hop_limit(0);
                packet.payload_mut()[6..8].fill(0);
            }
            assert_eq!(quoted, expected);
        }
    }

    #[test]
    fn only_every_third_is_answered() {
        let mut transit = transit(ScriptedRouter {
            answers: Answers::EveryNth(3),
            ..ScriptedRouter::default()
        });
        let mut pass = || transit.pass(&mut packet(true, true, false, 1, b""), Side::Near);
        let answered: Vec<_> = (0..6).map(|_| pass() != Verdict::Drop).collect();
        assert_eq!(answered, [true, false, false, true, false, false]);
    }

    #[test]
    fn errors_are_never_answered() {
        let mut transit = transit(ScriptedRouter::default());
        let mut probe = packet(false, false, false, 1, b"");
        let Verdict::Answer(mut answer) = transit.pass(&mut probe, Side::Near) else {
            panic!("no answer");
        };
        Packet::new(&mut answer).unwrap().set_hop_limit(1);
        assert_eq!(transit.pass(&mut answer, Side::Far), Verdict::Drop);
    }
}
