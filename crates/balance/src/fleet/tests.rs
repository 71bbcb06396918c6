//! Shares, overrides and states of a fleet.

use fathom_record::Time;

use super::*;
use crate::controller::Latency;
use crate::health::probes;

fn config(servers: &[&str]) -> Config {
    let server =
        |address: &&str| format!("[[server]]\nname = \"s{address}\"\naddress = \"{address}\"\n");
    let mut text: String = servers.iter().map(server).collect();
    text += "[[service]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\nring = 1021\n";
    Config::parse(&text).unwrap()
}

/// Servers are checked at their own addresses: the number of a check is that of the server.
fn fleet(servers: &[&str]) -> Fleet {
    let mut fleet = Fleet::new(config(servers));
    fleet.set_probes(probes(fleet.config(), |_| false));
    fleet
}

fn ring(fleet: &mut Fleet, service: usize, now: Duration) -> Vec<usize> {
    fleet.redistribute(service, now).unwrap().ring()
}

fn shares(fleet: &mut Fleet, now: u64) -> Vec<f64> {
    let ring = ring(fleet, 0, Duration::from_secs(now));
    let count = |server: usize| ring.iter().filter(|entry| **entry == server).count();
    (0..fleet.config.servers.len())
        .map(|server| count(server) as f64 / 1021.0)
        .collect()
}

fn measured(ms: f64) -> Measurement {
    let latency = Latency {
        mean_ns: ms * 1e6,
        error: 0.0,
        responses: 100,
    };
    Measurement {
        latency: Some(latency),
        ..Measurement::default()
    }
}

const THREE: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];

#[test]
fn a_server_that_falls_has_no_place_and_returns_slowly() {
    let mut fleet = fleet(&THREE);
    let at = Duration::from_secs;
    fleet.checked(1, true, at(0));
    for _ in 0..3 {
        fleet.checked(1, false, at(1));
    }
    assert!(shares(&mut fleet, 1)[1] <= 0.0);
    assert_eq!(fleet.state(1, at(1)), State::Unhealthy);
    for _ in 0..2 {
        fleet.checked(1, true, at(2));
    }
    let grown = shares(&mut fleet, 7)[1];
    assert!((0.1..0.3).contains(&grown), "{grown}");
    assert!((shares(&mut fleet, 12)[1] - 1.0 / 3.0).abs() < 0.01);
}

#[test]
fn when_all_fall_all_serve() {
    let mut fleet = fleet(&THREE);
    for server in 0..3 {
        fleet.checked(server, false, Duration::ZERO);
    }
    assert!(shares(&mut fleet, 0).iter().all(|share| *share > 0.3));
    for server in 0..3 {
        fleet.set_override(
            server,
            Override {
                is_drained: true,
                weight: None,
            },
        );
    }
    assert!(ring(&mut fleet, 0, Duration::ZERO).is_empty());
}

#[test]
fn overrides_come_before_the_configuration_and_survive_it() {
    let mut fleet = fleet(&THREE);
    fleet.set_override(
        0,
        Override {
            is_drained: false,
            weight: Some(2.0),
        },
    );
    fleet.set_override(
        2,
        Override {
            is_drained: true,
            weight: None,
        },
    );
    assert!((shares(&mut fleet, 0)[0] - 2.0 / 3.0).abs() < 0.01);
    fleet.reload(config(&["10.0.0.9", "10.0.0.3", "10.0.0.1"]));
    let shares = shares(&mut fleet, 0);
    assert!(
        shares[1] <= 0.0 && (shares[2] - 2.0 / 3.0).abs() < 0.01,
        "{shares:?}"
    );
}

#[test]
fn a_ring_that_is_there_tells_the_weights_that_were() {
    let mut before = Fleet::new(config(&THREE));
    for _ in 0..3 {
        before.decide(
            0,
            &[measured(2.0), measured(2.0), measured(20.0)],
            Duration::ZERO,
        );
    }
    let ring = ring(&mut before, 0, Duration::ZERO);
    let mut entries = HashMap::new();
    for server in ring {
        *entries.entry(server).or_insert(0) += 1;
    }
    let mut after = Fleet::new(config(&THREE));
    after.recall(0, &entries, Duration::ZERO);
    for (one, other) in shares(&mut before, 0).iter().zip(shares(&mut after, 0)) {
        assert!((one - other).abs() < 0.005, "{one} {other}");
    }
    let decision = after.decisions().next().unwrap();
    assert_eq!(decision.records(Time(0)).count(), 3);
}

/// One of its two services lacks its address: only that one leaves it.
#[test]
fn a_server_may_fail_for_one_of_its_services() {
    let servers = THREE
        .map(|address| format!("[[server]]\nname = \"s{address}\"\naddress = \"{address}\"\n"));
    let services = [("web", "192.0.2.1"), ("mail", "192.0.2.2")].map(|(name, address)| {
        format!("[[service]]\nname = \"{name}\"\naddress = \"{address}\"\nport = 80\nring = 1021\n")
    });
    let text = servers.concat() + &services.concat();
    let mut fleet = Fleet::new(Config::parse(&text).unwrap());
    fleet.set_probes(probes(fleet.config(), |_| true));
    let probe = |fleet: &Fleet| {
        let mut probes = fleet.probes().iter();
        probes
            .position(|probe| probe.server == 1 && probe.services == [1])
            .unwrap()
    };
    fleet.checked(probe(&fleet), false, Duration::ZERO);
    assert!(shares(&mut fleet, 0)[1] > 0.3);
    let other = ring(&mut fleet, 1, Duration::ZERO);
    assert!(!other.contains(&1));
    assert_eq!(fleet.state(1, Duration::ZERO), State::Unhealthy);
    let mut state = |service| {
        let decision = fleet.redistribute(service, Duration::ZERO).unwrap();
        decision.records(Time(0)).nth(1).unwrap().state
    };
    assert_eq!((state(0), state(1)), (State::Unknown, State::Unhealthy));
    // Checked elsewhere, it is what it was until a check says something else.
    fleet.set_probes(probes(fleet.config(), |service| service == 0));
    assert_eq!(fleet.state(1, Duration::ZERO), State::Unhealthy);
    let back = probe(&fleet);
    for _ in 0..2 {
        fleet.checked(back, true, Duration::ZERO);
    }
    assert_eq!(fleet.state(1, Duration::ZERO), State::SlowStart);
}

#[test]
fn a_ring_is_made_anew_when_shares_have_changed() {
    let mut fleet = fleet(&THREE);
    let weigh = |fleet: &mut Fleet, weight: f32| {
        let weight = Some(weight);
        fleet.set_override(
            1,
            Override {
                weight,
                ..Override::default()
            },
        );
    };
    let changes = |fleet: &mut Fleet| {
        let decision = fleet.redistribute(0, Duration::ZERO).unwrap();
        decision.changes_ring.then(|| decision.ring().len())
    };
    assert_eq!(changes(&mut fleet), Some(1021));
    assert_eq!(changes(&mut fleet), None);
    weigh(&mut fleet, 1.001);
    assert_eq!(changes(&mut fleet), None);
    weigh(&mut fleet, 1.1);
    assert!(changes(&mut fleet).is_some());
    let is_drained = true;
    for server in 0..3 {
        let value = Override {
            is_drained,
            ..Override::default()
        };
        fleet.set_override(server, value);
    }
    assert_eq!(changes(&mut fleet), Some(0));
    assert_eq!(changes(&mut fleet), None);
    // What is written is another's after that.
    fleet.reload(config(&THREE));
    assert!(changes(&mut fleet).is_some());
}
