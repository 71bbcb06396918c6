//! MPTCP connections and their subflows, over two links between two hosts.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_lab::{Direction, PacketKind, Rule, Way, wait_until};
use fathom_tests::{Fathom, Profile};

use crate::paths::{PORT, Paths, ROUND_TRIP, address, close, upload};
use crate::stage::{Family, PATIENCE, SECOND, SEGMENT, about, timed};

/// What the deviation of the round trip counts as at least.
const DEVIATION: Duration = Duration::from_millis(200);
/// With the 20 ms of the round trip.
const TIMEOUT: Duration = Duration::from_millis(220);

/// The states and the reason of each profile.
fn states(profiles: &[Profile]) -> Vec<[&str; 3]> {
    let names = ["start_state", "end_state", "reason"];
    let states = profiles
        .iter()
        .map(|profile| names.map(|name| profile.text(name)));
    states.collect()
}

fn total(profiles: &[&[Profile]], name: &str) -> u64 {
    let profiles = profiles.iter().copied().flatten();
    profiles.map(|profile| profile.number(name).unwrap()).sum()
}

/// The same of the whole connection, whose bytes kernels before 6.5 do not count: `None`.
fn whole_total(profiles: &[Profile], name: &str) -> Option<u64> {
    profiles.iter().map(|profile| profile.number(name)).sum()
}

/// Whether what a kernel counts is what it should be.
fn agrees(counted: Option<u64>, predicted: u64) -> bool {
    counted.is_none_or(|counted| counted == predicted)
}

/// Nothing is lost: what the subflows carry is what the application has sent. The port selects the
/// whole connection too, whose socket has no address yet when the application starts to connect.
#[fathom_lab::test]
fn two_subflows() {
    for family in Family::BOTH {
        let Some((paths, mut client, mut server)) =
            Paths::open(family, &["--port", &PORT.to_string()])
        else {
            return;
        };
        upload(&mut client, &mut server, 10 * SEGMENT);
        close(client, server);
        for (host, role, [sent, received]) in [
            (&paths.client, "client", [10_000, 1]),
            (&paths.server, "server", [1, 10_000]),
        ] {
            let whole = paths.whole(host);
            let [first, second] = [1, 2].map(|number| paths.whole_subflow(host, number));
            let established = ["NEW", "ESTABLISHED", "established"];
            for profiles in [&first, &second] {
                let finished = ["ESTABLISHED", "FINISHED", "FIN"];
                assert_eq!(states(profiles), [established, finished], "{profiles:#?}");
            }
            assert_eq!(
                states(&whole),
                [
                    established,
                    ["ESTABLISHED", "UPDATE", "subflow added"],
                    ["UPDATE", "FINISHED", "FIN"]
                ]
            );
            let numbers = |name| {
                whole
                    .iter()
                    .map(|profile| profile.number(name))
                    .collect::<Vec<_>>()
            };
            // Before 6.5 the number is that of the local address, and 0 for the one that the
            // connection was opened with.
            let paths_are_numbered = whole[0].number("bytes_sent").is_some();
            let path = second[0].number("path_index");
            assert_eq!(numbers("path_index"), [None, path, None]);
            assert_eq!(numbers("subflow_count"), [Some(1), Some(2), Some(2)]);
            let connection = numbers("connection");
            assert!(
                connection.iter().all(|number| *number == connection[0]),
                "{connection:?}"
            );
            let own = std::process::id().into();
            assert!(
                numbers("pid").iter().all(|pid| *pid == Some(own)),
                "{whole:#?}"
            );
            for profile in &whole {
                let server = if role == "client" {
                    profile.remote()
                } else {
                    profile.local()
                };
                assert_eq!(server, Some(SocketAddr::new(address(family, 1, 2), PORT)));
            }
            for (name, bytes) in [
                ("bytes_sent", sent),
                ("bytes_acknowledged", sent),
                ("bytes_received", received),
            ] {
                assert!(
                    agrees(whole_total(&whole, name), bytes),
                    "{name} {whole:#?}"
                );
                assert_eq!(total(&[&first, &second], name), bytes, "{name}");
            }
            assert!(
                agrees(whole_total(&whole, "bytes_reinjected"), 0),
                "{whole:#?}"
            );
            let token = whole[0].number("mptcp_token").unwrap();
            for (number, profiles) in [(1, &first), (2, &second)] {
                for profile in profiles {
                    assert_eq!(profile.number("mptcp_token"), Some(token));
                    let path = profile.number("path_index");
                    assert!(path == Some(number) || !paths_are_numbered, "{profile:?}");
                    assert_eq!(
                        profile.text("interface"),
                        ["eth0", "eth1"][number as usize - 1]
                    );
                }
            }
            assert_eq!(numbers("mptcp_token"), [Some(token); 3]);
            assert_eq!(whole[0].text("role"), role);
            if role == "client" {
                let established = whole[0].span("establishment_ns").unwrap();
                assert!(about(ROUND_TRIP).contains(&established), "{established:?}");
            } else {
                assert!(whole[0].span("accept_queue_ns").is_some(), "{whole:#?}");
                assert!(first[0].span("accept_queue_ns").is_some(), "{first:#?}");
            }
        }
        paths.fathom.finish().unwrap();
    }
}

/// Only the network of the second link is selected: the connection is followed from its second
/// subflow on, and told with its own ends.
#[fathom_lab::test]
fn a_subflow_is_selected() {
    for family in Family::BOTH {
        let network = format!("{}/{}", address(family, 2, 0), family.prefix());
        let Some((paths, mut client, mut server)) = Paths::open(family, &["--net", &network])
        else {
            return;
        };
        upload(&mut client, &mut server, 10 * SEGMENT);
        close(client, server);
        for (host, sent) in [(&paths.client, 10_000), (&paths.server, 1)] {
            let whole = paths.whole(host);
            assert_eq!(states(&whole), [["UPDATE", "FINISHED", "FIN"]]);
            assert_eq!(whole[0].get("is_existing"), Some(&true.into()));
            assert!(
                agrees(whole_total(&whole, "bytes_sent"), sent),
                "{whole:#?}"
            );
            let ends = [whole[0].local(), whole[0].remote()].map(|end| end.unwrap().ip());
            let mut own = [address(family, 1, 1), address(family, 1, 2)];
            if sent == 1 {
                own.reverse();
            }
            assert_eq!(ends, own);
            assert_eq!(paths.subflow(host, 1), None);
        }
        paths.fathom.finish().unwrap();
    }
}

/// The connection was there before; then it has a profile each second, whatever the number of its
/// subflows, that add up to what it did.
#[fathom_lab::test]
fn existing_and_periodic() {
    for family in Family::BOTH {
        let nothing = ["--port", "1"];
        let Some((mut paths, mut client, mut server)) = Paths::open(family, &nothing) else {
            return;
        };
        let options = ["--port", &PORT.to_string(), "--active-timeout", "1s"];
        let fathom = Fathom::profile(&paths.client, &options).unwrap();
        std::mem::replace(&mut paths.fathom, fathom)
            .finish()
            .unwrap();
        upload(&mut client, &mut server, 10 * SEGMENT);
        let has_two = || paths.told(&paths.client).len() >= 2;
        wait_until(PATIENCE, "two periodic profiles", has_two).unwrap();
        close(client, server);
        let whole = paths.whole(&paths.client);
        let [first, .., last] = &whole[..] else {
            panic!("{whole:#?}");
        };
        assert_eq!(states(&whole)[0], ["ESTABLISHED", "UPDATE", "periodic"]);
        assert_eq!(last.text("end_state"), "FINISHED");
        for pair in whole.windows(2) {
            assert_eq!(pair[0].text("reason"), "periodic");
            assert!(pair[0].span("duration_ns").unwrap() >= SECOND);
            assert_eq!(pair[0].get("time"), pair[1].get("start_time"));
            assert_eq!(pair[0].number("subflow_count"), Some(2));
            assert_eq!(pair[0].number("connection"), pair[1].number("connection"));
        }
        assert_eq!(first.get("is_existing"), Some(&true.into()));
        assert!(
            agrees(whole_total(&whole, "bytes_sent"), 10_000),
            "{whole:#?}"
        );
        paths.fathom.finish().unwrap();
    }
}

/// The second link swallows data while the connection is used: its subflow times out as any
/// connection does, at 220 ms, 440 ms later and, 880 ms after that, for good (see
/// `black_hole_in_the_middle`). What it had not delivered goes over the first link too, so that the
/// application loses nothing.
#[fathom_lab::test]
fn a_subflow_dies() {
    for family in Family::BOTH {
        let Some((paths, mut client, mut server)) =
            Paths::open(family, &["--port", &PORT.to_string()])
        else {
            return;
        };
        upload(&mut client, &mut server, 10 * SEGMENT);
        let lose = Rule::nth(1, PacketKind::Any).times(u64::from(u32::MAX));
        let dead = Direction::delayed(ROUND_TRIP / 2).rule(lose);
        paths.second.reconfigure(Way::Forward, dead);
        let mut uploaded = 10 * SEGMENT;
        // Until the scheduler gives the dead subflow something.
        let is_stalled = || {
            let profiles = paths.subflow(&paths.client, 2).unwrap_or_default();
            profiles
                .iter()
                .any(|profile| profile.text("reason") == "lossy")
        };
        wait_until(PATIENCE, "the second subflow to stall", || {
            upload(&mut client, &mut server, 500 * SEGMENT);
            uploaded += 500 * SEGMENT;
            is_stalled()
        })
        .unwrap();
        let subflow = paths.whole_subflow(&paths.client, 2);
        close(client, server);
        let whole = paths.whole(&paths.client);
        let [.., last] = &subflow[..] else {
            unreachable!()
        };
        assert_eq!(
            states(&subflow).last(),
            Some(&["UPDATE", "UNREACHABLE", "timeout"])
        );
        // It is given up when it has not recovered for 600 ms after the first timeout: at the
        // third, or at the second where a slow machine has made the round trip, and so the
        // timeouts, longer.
        let timeout = DEVIATION + last.span("srtt_ns").unwrap();
        let stalls = if timeout < Duration::from_millis(300) {
            2
        } else {
            1
        };
        assert_eq!(last.number("stalls"), Some(stalls), "{timeout:?}");
        let stalled = last.span("stalled_ns").unwrap();
        let span = TIMEOUT * (if stalls == 2 { 6 } else { 2 });
        assert!(timed(span).contains(&stalled), "{stalled:?}");
        let uploaded = uploaded as u64;
        let acknowledged = whole_total(&whole, "bytes_acknowledged");
        assert!(agrees(acknowledged, uploaded), "{whole:#?}");
        let reinjected = whole_total(&whole, "bytes_reinjected");
        assert!(reinjected.is_none_or(|bytes| bytes > 0), "{whole:#?}");
        // Where functions can be probed the connection stalls behind the subflow, and recovers.
        let mut told = states(&whole);
        told.retain(|[_, _, reason]| !["lossy", "recovered"].contains(reason));
        let reasons: Vec<_> = told.iter().map(|[_, _, reason]| *reason).collect();
        assert_eq!(
            reasons,
            ["established", "subflow added", "subflow removed", "FIN"]
        );
        let removed = whole
            .iter()
            .find(|profile| profile.text("reason") == "subflow removed");
        let removed = removed.unwrap();
        assert_eq!(removed.number("path_index"), last.number("path_index"));
        assert_eq!(removed.number("subflow_count"), Some(1));
        let [removal, end] = [removed, last].map(|profile| profile.time("time").unwrap());
        assert!(removal.duration_since(end).unwrap() < SECOND / 10);
        let finished = whole.last().unwrap();
        assert_eq!(finished.text("end_state"), "FINISHED");
        assert_eq!(finished.number("subflow_count"), Some(1));
        if let Some(stalls) = whole_total(&whole, "stalls") {
            let count = |reason| {
                let reasons = whole.iter().map(|profile| profile.text("reason"));
                reasons.filter(|found| *found == reason).count()
            };
            let lossy = count("lossy");
            assert!(lossy > 0 && stalls >= lossy as u64, "{whole:#?}");
            assert_eq!(count("recovered"), lossy, "{whole:#?}");
        }
        let at_server = paths.whole(&paths.server);
        assert!(agrees(whole_total(&at_server, "bytes_received"), uploaded));
        paths.fathom.finish().unwrap();
    }
}
