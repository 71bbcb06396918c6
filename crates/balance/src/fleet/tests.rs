//! Shares, orders and standings of a fleet.

use fathom_record::Time;

use super::*;
use crate::controller::Latency;
use crate::health::aims;

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
    fleet.aim(aims(fleet.config(), |_| false));
    fleet
}

fn shares(fleet: &mut Fleet, now: u64) -> Vec<f64> {
    let ring = fleet.ring(0, Duration::from_secs(now)).unwrap_or_default();
    let count = |server: usize| ring.iter().filter(|place| **place == server).count();
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
    assert_eq!(fleet.state(1, at(1)), "unhealthy");
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
        fleet.order(
            server,
            Order {
                is_drained: true,
                weight: None,
            },
        );
    }
    assert_eq!(fleet.ring(0, Duration::ZERO), None);
}

#[test]
fn orders_come_before_the_configuration_and_survive_it() {
    let mut fleet = fleet(&THREE);
    fleet.order(
        0,
        Order {
            is_drained: false,
            weight: Some(2.0),
        },
    );
    fleet.order(
        2,
        Order {
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
    let ring = before.ring(0, Duration::ZERO).unwrap();
    let mut places = HashMap::new();
    for server in ring {
        *places.entry(server).or_insert(0) += 1;
    }
    let mut after = Fleet::new(config(&THREE));
    after.recall(0, &places, Duration::ZERO);
    for (one, other) in shares(&mut before, 0).iter().zip(shares(&mut after, 0)) {
        assert!((one - other).abs() < 0.005, "{one} {other}");
    }
    let records = after.records(0, Time(0), Duration::ZERO);
    assert_eq!(records.len(), 3);
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
    fleet.aim(aims(fleet.config(), |_| true));
    let aim = |fleet: &Fleet| {
        let mut aims = fleet.aims().iter();
        aims.position(|aim| aim.server == 1 && aim.services == [1])
            .unwrap()
    };
    fleet.checked(aim(&fleet), false, Duration::ZERO);
    assert!(shares(&mut fleet, 0)[1] > 0.3);
    let other = fleet.ring(1, Duration::ZERO).unwrap();
    assert!(!other.contains(&1));
    assert_eq!(fleet.state(1, Duration::ZERO), "unhealthy");
    let states = |service: usize| fleet.records(service, Time(0), Duration::ZERO)[1].state;
    assert_eq!((states(0), states(1)), ("unknown", "unhealthy"));
    // Checked elsewhere, it is what it was until a check says something else.
    fleet.aim(aims(fleet.config(), |service| service == 0));
    assert_eq!(fleet.state(1, Duration::ZERO), "unhealthy");
    let back = aim(&fleet);
    for _ in 0..2 {
        fleet.checked(back, true, Duration::ZERO);
    }
    assert_eq!(fleet.state(1, Duration::ZERO), "slow start");
}

#[test]
fn a_ring_is_made_anew_when_shares_have_changed() {
    let mut fleet = fleet(&THREE);
    let weigh = |fleet: &mut Fleet, weight: f32| {
        let weight = Some(weight);
        fleet.order(
            1,
            Order {
                weight,
                ..Order::default()
            },
        );
    };
    assert!(
        matches!(fleet.changed_ring(0, Duration::ZERO), Some(Some(ring)) if ring.len() == 1021)
    );
    assert_eq!(fleet.changed_ring(0, Duration::ZERO), None);
    weigh(&mut fleet, 1.001);
    assert_eq!(fleet.changed_ring(0, Duration::ZERO), None);
    weigh(&mut fleet, 1.1);
    assert!(fleet.changed_ring(0, Duration::ZERO).is_some());
    let is_drained = true;
    for server in 0..3 {
        let order = Order {
            is_drained,
            ..Order::default()
        };
        fleet.order(server, order);
    }
    assert_eq!(fleet.changed_ring(0, Duration::ZERO), Some(None));
    assert_eq!(fleet.changed_ring(0, Duration::ZERO), None);
    // What is written is another's after that.
    fleet.reload(config(&THREE));
    assert!(fleet.changed_ring(0, Duration::ZERO).is_some());
}
