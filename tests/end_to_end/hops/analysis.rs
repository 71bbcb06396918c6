//! What hops mean: limits of answers, changes of route, balanced ways.

use std::time::Duration;

use fathom_lab::{Chain, Family, LinkConfig, Way as Heading, wait_until};
use fathom_record::Time;
use fathom_tests::{Fathom, Record, RouteChange, Way};

use crate::stage::{
    Application, MILLISECOND, PATIENCE, SECOND, alone, beside_others, chain, wait_for_answers,
    wait_for_probes,
};

const RATE: [&str; 2] = ["--rate", "10"];

fn changes(records: &[Record]) -> Vec<RouteChange> {
    let changes = records.iter().filter_map(|record| match record {
        Record::RouteChange(change) => Some(change.clone()),
        _ => None,
    });
    changes.collect()
}

#[fathom_lab::test]
fn a_change_of_route_is_told_once_and_a_router_that_limits_its_answers_is_called_so() {
    let _turn = beside_others();
    let faster = [LinkConfig::symmetric(MILLISECOND), LinkConfig::default()];
    let chain = chain(3, |_| MILLISECOND).branch(2, faster).build().unwrap();
    chain.limit_icmp(1).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &RATE).unwrap();
    let _flow = Application::tcp(&chain, Family::V4, 100);
    wait_for_answers(&fathom, 40, |probe| probe.ttl == 2);
    let rerouted = Time::now().0;
    chain.reroute(2, &[1]).unwrap();
    let told = || changes(&fathom.records_after(0));
    wait_until(PATIENCE, "the change", || !told().is_empty()).unwrap();
    let late = Duration::from_nanos(Time::now().0 - rerouted);
    assert!(late < 2 * SECOND, "{late:?}");
    wait_for_probes(&fathom, 6 * SECOND);
    let finished = fathom.finish().unwrap();
    let [change] = &changes(&finished.records)[..] else {
        panic!("{:#?}", changes(&finished.records));
    };
    assert_eq!((change.ttl, change.change.as_str()), (2, "route"));
    assert_eq!(change.old, chain.path(0, Family::V4)[1]);
    assert_eq!(change.new, chain.path(1, Family::V4)[1]);
    let hops = finished.hops();
    let lossy = hops.iter().filter(|hop| hop.ttl <= 3 && hop.lost > 0);
    let told: Vec<_> = lossy.map(|hop| (hop.ttl, hop.silence.as_deref())).collect();
    assert!(told.contains(&(1, Some("rate limited"))), "{told:?}");
    let is_wrong = |name: Option<&str>| name.is_some_and(|name| name.ends_with(" loss"));
    assert!(!told.iter().any(|(_, name)| is_wrong(*name)), "{told:?}");
}

#[fathom_lab::test]
fn balanced_ways_are_found_and_the_slower_one_is_named() {
    let _turn = alone();
    let way = |delay: u32| {
        [
            LinkConfig::symmetric(delay * MILLISECOND),
            LinkConfig::symmetric(MILLISECOND),
        ]
    };
    let chain = chain(3, |_| MILLISECOND)
        .branch(2, way(1))
        .branch(2, way(6))
        .branch(2, way(1))
        .build()
        .unwrap();
    chain.reroute(2, &[0, 1, 2, 3]).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &RATE).unwrap();
    // That none of four ways is chosen by any of them happens once in a thousand.
    let flows: Vec<Application> = (0..28)
        .map(|_| Application::tcp_every(40 * MILLISECOND, &chain, Family::V4, 100))
        .collect();
    let ways = |records: Vec<Record>| -> Vec<Way> {
        let ways = records.into_iter().filter_map(|record| match record {
            Record::Way(way) => Some(way),
            _ => None,
        });
        ways.collect()
    };
    // After ten intervals.
    wait_until(PATIENCE, "the comparison", || {
        !ways(fathom.records_after(0)).is_empty()
    })
    .unwrap();
    drop(flows);
    let told = ways(fathom.finish().unwrap().records);
    let slow = chain.path(2, Family::V4)[1].to_string();
    let found: Vec<_> = told.iter().take(4).collect();
    let mut middles: Vec<_> = found.iter().map(|way| way.path.split(' ').nth(1)).collect();
    middles.sort_unstable();
    middles.dedup();
    assert_eq!(middles.len(), 4, "{told:#?}");
    for way in found {
        let is_slow = way.path.contains(&slow);
        assert_eq!(
            way.verdict.as_deref() == Some("slower"),
            is_slow,
            "{told:#?}"
        );
        assert!(way.p_value.as_ref().unwrap().as_f64() < Some(0.01));
    }
}

#[fathom_lab::test]
fn a_longer_way_back_is_marked() {
    let _turn = beside_others();
    let link = LinkConfig::symmetric(MILLISECOND);
    let chain = chain(3, |_| MILLISECOND)
        .branch(2, [link.clone(), link.clone(), link])
        .build()
        .unwrap();
    chain.reroute_way(2, Heading::Backward, &[1]).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &[]).unwrap();
    let flows = Family::BOTH.map(|family| Application::tcp(&chain, family, 100));
    for is_ipv6 in [false, true] {
        wait_for_answers(&fathom, 1, |probe| {
            probe.ttl == 3 && probe.flow.source.is_ipv6() == is_ipv6
        });
    }
    let hops = fathom.finish().unwrap().hops();
    drop(flows);
    for hop in hops.iter().filter(|hop| hop.lost < hop.sent) {
        let told = (hop.routers_back, hop.marks.as_deref());
        let expected = match hop.ttl {
            // Two routers of the branch, and the first.
            3 => (Some(3), Some("asymmetric")),
            _ => (None, None),
        };
        assert_eq!(told, expected, "{hop:?}");
    }
    assert!(hops.iter().any(|hop| hop.ttl == 3));
}
