//! Every answered probe against the times of its own two packets, at every hop, of every protocol,
//! in both families.

use fathom_lab::traffic::tools;
use fathom_lab::{Chain, Family, Passed, Tap, Transport};
use fathom_tests::{Fathom, Probe, ProbeOutcome, was_away};

use crate::stage::{Application, MILLISECOND, alone, chain, wait_for_answers};

const ROUTERS: usize = 8;
/// Answers of each hop of each flow.
const ANSWERS: usize = 20;
/// A probe of a hop is sent each 50 ms; the times of the hook and the tap differ by much less,
/// unless a processor was away between them.
const CLOSE_NS: u64 = 25_000_000;

/// The most that a hop's round trips may be off, 19 of 20 of them: 200 us and 1 %.
fn bound_ns(truth_ns: u64) -> u64 {
    200_000 + truth_ns / 100
}

/// The most that any may be: an answer has its time when it arrives, and passes the hook when the
/// kernel gets to it, which on a busy machine may be later.
fn limit_ns(truth_ns: u64) -> u64 {
    1_000_000 + truth_ns / 50
}

#[fathom_lab::test]
fn every_round_trip_is_that_of_the_probe_and_its_answer() {
    let _turn = alone();
    let chain = chain(ROUTERS, |link| MILLISECOND * link / 2)
        .build()
        .unwrap();
    let tap = Tap::start(&chain.client, Chain::HOST_INTERFACE).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &["--rate", "20"]).unwrap();
    let applications = Family::BOTH.map(|family| {
        [
            Application::tcp(&chain, family, 3000),
            Application::udp(&chain, family, true),
        ]
    });
    std::thread::scope(|scope| {
        for family in Family::BOTH {
            let server = chain.server_address(family);
            let client = &chain.client;
            scope.spawn(move || tools::ping(client, server, 600, 10 * MILLISECOND).unwrap());
        }
        for protocol in [6, 17, 1, 58] {
            for ttl in 1..=ROUTERS as u8 {
                let families = if matches!(protocol, 6 | 17) { 2 } else { 1 };
                wait_for_answers(&fathom, families * ANSWERS, |probe| {
                    probe.flow.protocol == protocol && probe.ttl == ttl
                });
            }
        }
    });
    drop(applications);
    let finished = fathom.finish().unwrap();
    let passed = tap.finish().unwrap();
    let probes = finished.probes();
    let answered: Vec<_> = probes
        .iter()
        .filter(|probe| probe.outcome == ProbeOutcome::Answered)
        .collect();
    for probe in &answered {
        let family = Family::BOTH[usize::from(probe.flow.source.is_ipv6())];
        let responder = chain.responder(probe.ttl.into(), family);
        assert_eq!(probe.responder, Some(responder), "{probe:?}");
    }
    let mut wrong = Vec::new();
    for protocol in [6, 17, 1, 58] {
        for ttl in 1..=ROUTERS as u8 {
            let here = answered
                .iter()
                .filter(|probe| probe.flow.protocol == protocol && probe.ttl == ttl);
            let compared: Vec<_> = here
                .filter_map(|probe| Compared::new(probe, &passed))
                .collect();
            assert!(compared.len() >= ANSWERS / 2, "{}", compared.len());
            let mut errors_ns: Vec<_> = compared.iter().map(Compared::error_ns).collect();
            errors_ns.sort_unstable();
            println!(
                "protocol {protocol} hop {ttl}: {} round trips of {:.1} ms, off by {} us at the median and {} us at most",
                compared.len(),
                compared[0].truth_ns() as f64 / 1e6,
                errors_ns[errors_ns.len() / 2] / 1000,
                errors_ns[errors_ns.len() - 1] / 1000,
            );
            let close = compared.iter().filter(|one| one.is_close()).count();
            assert!(close * 20 >= compared.len() * 19, "{compared:#?}");
            wrong.extend(compared.into_iter().filter(|one| !one.is_right()));
            // What links add, and nothing less.
            let least_ns = (1..=u64::from(ttl)).sum::<u64>() * 1_000_000;
            let minimum = answered
                .iter()
                .filter(|probe| probe.ttl == ttl)
                .filter_map(|probe| probe.rtt_ns)
                .min();
            assert!(minimum.unwrap() >= least_ns, "hop {ttl}: {minimum:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A round trip as printed, and the times of its packets.
#[derive(Debug)]
struct Compared<'a> {
    probe: &'a Probe,
    sent_ns: u64,
    answered_ns: u64,
}

impl<'a> Compared<'a> {
    /// `None` when a processor was away for so long that the times do not tell which packets they
    /// were.
    fn new(probe: &'a Probe, passed: &[Passed]) -> Option<Self> {
        let rtt_ns = probe.rtt_ns.unwrap();
        let flow = &probe.flow;
        let sent = passed.iter().filter(|packet| {
            let header = &packet.header;
            packet.is_outgoing
                && header.hop_limit == probe.ttl
                && header.protocol == flow.protocol
                && header.destination == flow.destination
                && (matches!(header.transport, Transport::Echo { identifier, .. } if identifier == flow.source_port)
                    || header.source_port == flow.source_port)
        });
        let answers = passed.iter().filter(|packet| {
            let Transport::IcmpError {
                quote: Some(quote), ..
            } = packet.header.transport
            else {
                return false;
            };
            let quoted_port = if matches!(flow.protocol, 1 | 58) {
                (quote.word >> 16) as u16
            } else {
                quote.source_port
            };
            !packet.is_outgoing
                && Some(packet.header.source) == probe.responder
                && quote.protocol == flow.protocol
                && quoted_port == flow.source_port
        });
        let times_ns = [probe.time_ns, probe.time_ns + rtt_ns];
        let seen = nearest(sent, times_ns[0]).zip(nearest(answers, times_ns[1]));
        assert!(
            seen.is_some() || was_away(times_ns, CLOSE_NS),
            "its packets were not seen to pass: {probe:?}"
        );
        seen.map(|(sent_ns, answered_ns)| Self {
            probe,
            sent_ns,
            answered_ns,
        })
    }

    fn truth_ns(&self) -> u64 {
        self.answered_ns - self.sent_ns
    }

    fn error_ns(&self) -> u64 {
        self.probe.rtt_ns.unwrap().abs_diff(self.truth_ns())
    }

    /// Not farther off, or a processor was away between the hook and the tap.
    fn is_within(&self, bound_ns: u64) -> bool {
        self.error_ns() <= bound_ns || was_away([self.sent_ns, self.answered_ns], self.error_ns())
    }

    fn is_close(&self) -> bool {
        self.is_within(bound_ns(self.truth_ns()))
    }

    fn is_right(&self) -> bool {
        self.is_within(limit_ns(self.truth_ns()))
    }
}

fn nearest<'a>(packets: impl Iterator<Item = &'a Passed>, time_ns: u64) -> Option<u64> {
    packets
        .map(|packet| packet.time_ns)
        .min_by_key(|at| at.abs_diff(time_ns))
        .filter(|at| at.abs_diff(time_ns) < CLOSE_NS)
}
