use std::net::IpAddr;

use super::super::Outcome;
use super::*;

const SECOND: u64 = 1_000_000_000;
const END: u64 = 100 * SECOND;

/// A generator of Lehmer's, so that runs are the same.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 as f64 / f64::from(0x7fff_ffff)
    }
}

/// Hops probed at `rate` a second for 30 s; `is_answered(ttl, probe time)`.
fn hops(ttls: u8, rate: u64, mut is_answered: impl FnMut(u8, u64) -> bool) -> Vec<Hop> {
    let mut hops: Vec<Hop> = (0..ttls).map(|_| Hop::default()).collect();
    for number in 0..30 * rate {
        let sent = END - 30 * SECOND + number * SECOND / rate;
        for ttl in 1..=ttls {
            let hop = &mut hops[usize::from(ttl) - 1];
            if is_answered(ttl, sent) {
                let router = IpAddr::from([10, 0, 0, ttl]);
                hop.answer(sent, 1_000_000, router, 64, Outcome::Answered);
            } else {
                hop.lose(sent);
            }
        }
    }
    hops
}

/// Linux: `icmp_ratelimit` 1000 ms, up to six at a time.
struct Bucket {
    credit_ns: u64,
    filled: u64,
}

impl Bucket {
    fn new() -> Self {
        Self {
            credit_ns: 6 * SECOND,
            filled: END - 30 * SECOND,
        }
    }

    fn admits(&mut self, now: u64) -> bool {
        self.credit_ns = (self.credit_ns + now - self.filled).min(6 * SECOND);
        self.filled = now;
        let is_admitted = self.credit_ns >= SECOND;
        self.credit_ns -= if is_admitted { SECOND } else { 0 };
        is_admitted
    }
}

fn application(packets: u64, retransmitted: u64) -> Application {
    let mut application = Application::default();
    for (time, share) in [(END - 29 * SECOND, 0), (END - SECOND, 1)] {
        let counted = Traffic {
            packets: 1000 + share * packets,
            retransmitted: share * retransmitted,
        };
        application.take(time, counted);
    }
    application
}

fn names(hops: &[Hop], application: &Application) -> Vec<Option<&'static str>> {
    let mut limits = Limits::default();
    limits.learn([hops].into_iter(), END);
    names_within(&limits, hops, application)
}

fn names_within(
    limits: &Limits,
    hops: &[Hop],
    application: &Application,
) -> Vec<Option<&'static str>> {
    (0..hops.len())
        .map(|index| silence(hops, index, application, limits, END).map(Silence::name))
        .collect()
}

#[test]
fn the_default_limit_of_linux_is_called_that_at_all_rates() {
    for rate in 2..=10 {
        for limited in 1..=3 {
            let mut bucket = Bucket::new();
            let hops = hops(3, rate, |ttl, sent| ttl != limited || bucket.admits(sent));
            let mut expected = [None; 3];
            expected[usize::from(limited) - 1] = Some("rate limited");
            let silent = names(&hops, &application(10_000, 0));
            assert_eq!(silent, expected, "rate {rate}, hop {limited}");
        }
    }
    let mut bucket = Bucket::new();
    let hops = hops(3, 1, |ttl, sent| ttl != 2 || bucket.admits(sent));
    assert_eq!(names(&hops, &application(10, 0)), [None; 3]);
}

#[test]
fn a_router_that_loses_a_little_is_limited_if_the_others_lose_nothing() {
    // 4 of 30, and 0 of 90 behind it, where 12 were to be expected.
    let mut number = 0;
    let hops = hops(4, 1, |ttl, _| {
        number += u32::from(ttl == 1);
        ttl != 1 || !matches!(number, 3 | 4 | 17 | 29)
    });
    let silent = names(&hops, &Application::default());
    assert_eq!(silent, [Some("rate limited"), None, None, None]);
}

#[test]
fn a_loss_that_nobody_else_had_yet_is_not_explained() {
    // 1 of 30, and 0 of 60 behind it, where 2 were to be expected.
    let mut number = 0;
    let hops = hops(3, 1, |ttl, _| {
        number += u32::from(ttl == 1);
        ttl != 1 || number != 9
    });
    let silent = names(&hops, &application(10_000, 0));
    assert_eq!(silent, [Some("loss"), None, None]);
}

#[test]
fn losses_that_all_share_are_of_the_direction_that_the_application_feels() {
    for (seed, share, lost) in [(7, 0.1, 100), (8, 0.3, 300), (9, 0.5, 500)] {
        let mut dice = Dice(seed);
        let hops = hops(4, 10, |ttl, _| ttl == 1 || dice.share() >= share);
        let packets = 1000;
        let named = |name| [None, Some(name), Some(name), Some(name)];
        let told = names(&hops, &application(packets, lost));
        assert_eq!(told, named("forward loss"), "{share}");
        let told = names(&hops, &application(packets, 0));
        assert_eq!(told, named("reverse loss"), "{share}");
        let told = names(&hops, &application(5, 0));
        assert_eq!(told, named("loss"), "{share}: too few packets");
        let told = names(&hops, &Application::default());
        assert_eq!(told, named("loss"), "{share}: no replies");
    }
}

#[test]
fn a_limit_shows_above_loss() {
    let mut dice = Dice(5);
    let mut bucket = Bucket::new();
    let hops = hops(3, 10, |ttl, sent| {
        dice.share() >= 0.1 && (ttl != 2 || bucket.admits(sent))
    });
    let told = names(&hops, &application(1000, 100));
    assert_eq!(
        told,
        ["forward loss", "rate limited", "forward loss"].map(Some)
    );
}

#[test]
fn who_never_answers_is_silent() {
    let hops = hops(3, 1, |ttl, _| ttl == 2);
    let told = names(&hops, &Application::default());
    assert_eq!(told, [Some("silent"), None, Some("silent")]);
    assert_eq!(
        silence(
            &[Hop::default()],
            0,
            &Application::default(),
            &Limits::default(),
            END
        ),
        None
    );
}

#[test]
fn who_stops_answering_is_silent_if_packets_pass() {
    let mut stopped = hops(2, 1, |ttl, sent| ttl == 1 || sent < END - 29 * SECOND);
    for fate in &mut stopped[1].fates {
        fate.rtt_ns = None;
    }
    let told = names(&stopped, &application(10, 0));
    assert_eq!(told, [None, Some("silent")]);
    let told = names(&stopped, &Application::default());
    assert_eq!(told, [None, Some("loss")]);
}

#[test]
fn a_pace_is_steady_only_if_it_is() {
    let mut dice = Dice(11);
    for share in [0.2, 0.5, 0.8] {
        let wrong = (0..100)
            .filter(|_| {
                super::super::limits::is_steady(&hops(1, 10, |_, _| dice.share() < share)[0], END)
            })
            .count();
        assert!(wrong <= 2, "{share}: {wrong} of 100");
    }
}

#[test]
fn the_application_is_remembered_for_the_window_only() {
    let mut application = Application::default();
    for second in 0..200 {
        let counted = Traffic {
            packets: 10 * second,
            retransmitted: second,
        };
        application.take(second * SECOND, counted);
    }
    let traffic = application.before(200 * SECOND).unwrap();
    assert_eq!((traffic.packets, traffic.retransmitted), (310, 31));
    assert!(application.samples.len() <= 33);
    assert_eq!(application.before(240 * SECOND), None);
}

#[test]
fn flows_through_one_router_share_what_they_know_of_it() {
    // Each flow alone has seen too little: 3 of 30, and 0 of 30 behind it. Of three of them nobody
    // could say so by chance.
    let flow = |first: u64| {
        let losses = [first, first + 9, first + 17];
        hops(2, 1, move |ttl, sent| {
            ttl != 1 || !losses.contains(&((sent + 30 * SECOND - END) / SECOND))
        })
    };
    let flows = [flow(1), flow(4), flow(8)];
    let traffic = application(10_000, 2_000);
    let alone = Some("loss");
    assert_eq!(names(&flows[0], &traffic), [alone, None]);
    let mut limits = Limits::default();
    limits.learn(flows.iter().map(Vec::as_slice), END);
    for hops in &flows {
        assert_eq!(
            names_within(&limits, hops, &traffic),
            [Some("rate limited"), None]
        );
    }
}

/// What flows lose before they meet is no reason to blame a router that they share, at whatever
/// rates they are probed.
#[test]
fn flows_that_lose_differently_do_not_blame_a_router() {
    let mut dice = Dice(17);
    let mut blamed = 0;
    for _ in 0..200 {
        let mut flow = |rate: u64, lost: f64| hops(2, rate, |_, _| dice.share() >= lost);
        let flows = [flow(1, 0.0), flow(10, 0.05), flow(4, 0.3)];
        let mut limits = Limits::default();
        limits.learn(flows.iter().map(Vec::as_slice), END);
        blamed += u32::from(limits.has(IpAddr::from([10, 0, 0, 1]), END));
    }
    assert!(blamed <= 2, "{blamed}");
}
