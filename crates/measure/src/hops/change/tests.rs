use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn router(name: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, name])
}

/// Probes each hop of `way(time, packet)` once a second, and all of them every 250 ms when asked to
/// hurry, with a round trip of 20 ms. Returns the changes, with the time at which they were told.
fn run(
    route: &mut Route,
    from: u64,
    seconds: u64,
    mut way: impl FnMut(u64, u64) -> Vec<u8>,
) -> Vec<(u64, Change)> {
    let mut changes = Vec::new();
    let mut packet = 0;
    for tick in 0..seconds * 4 {
        let sent = from + tick * 250 * MS;
        let hurried = route.is_hurried(sent);
        for ttl in 1..=6 {
            // Each hop has its own turn within the second.
            if !hurried && tick % 4 != ttl % 4 {
                continue;
            }
            packet += 1;
            if let Some(name) = way(sent, packet)
                .get(ttl as usize - 1)
                .filter(|name| **name != 0)
            {
                route.answer(ttl as u8, sent, router(*name), sent + 20 * MS);
            }
        }
        changes.extend(
            route
                .changed(sent + 30 * MS)
                .map(|change| (sent + 30 * MS, change)),
        );
    }
    changes
}

#[test]
fn a_change_is_told_once_and_within_two_seconds() {
    for moment in 0..4 {
        let at = 20 * SECOND + moment * 250 * MS;
        let mut route = Route::default();
        let changes = run(&mut route, 0, 40, |time, _| {
            if time < at {
                vec![1, 2, 3, 4]
            } else {
                vec![1, 7, 3, 4]
            }
        });
        let [(told, change)] = changes[..] else {
            panic!("{changes:?}");
        };
        assert!(told - at < 2 * SECOND, "{}", (told - at) / MS);
        assert_eq!(
            (change.ttl, change.old, change.new),
            (2, router(2), router(7))
        );
        assert_eq!(
            (change.old_length, change.new_length, change.kind),
            (4, 4, Kind::Route)
        );
        assert_eq!(route.routers()[1], Some(router(7)));
    }
}

#[test]
fn a_longer_and_a_shorter_way_are_one_change_each() {
    let mut route = Route::default();
    let changes = run(&mut route, 0, 40, |time, _| match time / SECOND {
        0..20 => vec![1, 2, 3, 4],
        _ => vec![1, 7, 8, 3, 4],
    });
    let [(_, change)] = changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (change.ttl, change.old_length, change.new_length),
        (2, 4, 5)
    );
    let changes = run(&mut route, 40 * SECOND, 20, |time, _| match time / SECOND {
        40..50 => vec![1, 7, 8, 3, 4],
        _ => vec![1, 3, 4],
    });
    let [(_, change)] = changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (change.ttl, change.old_length, change.new_length),
        (2, 5, 3)
    );
    assert_eq!(route.routers(), [1, 3, 4].map(router).map(Some));
}

#[test]
fn another_way_altogether_is_one_change_also_where_a_router_limits_its_answers() {
    // Hop 2 answers once in five seconds: just after the change, or too late to be waited for.
    for (answers, first) in [(500 * MS, 2), (2500 * MS, 3)] {
        let mut route = Route::default();
        let changes = run(&mut route, 0, 60, |time, _| {
            let mut way = vec![1, 2, 3, 4];
            if time >= 30 * SECOND {
                way = vec![1, 7, 8, 9];
            }
            if time % (5 * SECOND) != answers {
                way[1] = 0;
            }
            way
        });
        let [(_, change)] = changes[..] else {
            panic!("{changes:?}");
        };
        let expected = (first, router(first), router(first + 5));
        assert_eq!((change.ttl, change.old, change.new), expected);
        assert_eq!(route.routers(), [1, 7, 8, 9].map(router).map(Some));
    }
}

#[test]
fn a_way_that_comes_back_within_a_minute_flaps() {
    let mut route = Route::default();
    let changes = run(&mut route, 0, 250, |time, _| match time / SECOND {
        20..50 | 80..200 => vec![1, 7, 3],
        _ => vec![1, 2, 3],
    });
    let kinds: Vec<Kind> = changes.iter().map(|(_, change)| change.kind).collect();
    assert_eq!(kinds, [Kind::Route, Kind::Flap, Kind::Flap, Kind::Route]);
}

#[test]
fn routers_that_take_turns_are_no_change() {
    let mut state: u64 = 12_345;
    let mut dice = move || {
        state = state * 48_271 % 0x7fff_ffff;
        state
    };
    let mut wrong = 0;
    for number in 0..100 {
        let mut route = Route::default();
        let others = 2 + number % 3;
        let changes = run(&mut route, 0, 60, |_, _| {
            vec![1, 20 + (dice() >> 8) as u8 % others, 3]
        });
        wrong += changes.len();
        assert!(route.is_balanced(2) && !route.is_balanced(1));
        assert_eq!(route.routers(), [Some(router(1)), None, Some(router(3))]);
    }
    assert!(wrong <= 2, "{wrong} changes in 100 minutes of taking turns");
}

#[test]
fn a_single_stray_answer_is_no_change() {
    let mut route = Route::default();
    let changes = run(&mut route, 0, 60, |time, _| {
        let is_stray = (30 * SECOND..30 * SECOND + 800 * MS).contains(&time);
        vec![
            1,
            if is_stray && time % SECOND == 500 * MS {
                9
            } else {
                2
            },
            3,
        ]
    });
    assert_eq!(changes, []);
    assert_eq!(route.routers()[1], Some(router(2)));
}

#[test]
fn answers_that_were_overtaken_are_no_change() {
    let mut route = Route::default();
    for sent in 0..20 {
        route.answer(1, sent, router(1), sent);
    }
    for sent in [3, 4, 5, 6, 7] {
        route.answer(1, sent, router(2), 30);
    }
    assert!(!route.is_hurried(31));
    assert_eq!(route.changed(31 + SECOND), None);
}
