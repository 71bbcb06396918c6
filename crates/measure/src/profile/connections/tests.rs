//! From moments to profiles.

use std::time::Duration;

use super::super::TcpProfile;
use super::super::ending::SYN_SENT;
use super::*;

pub(super) fn connections() -> Connections {
    connections_with(&Options {
        active_timeout: Duration::ZERO,
        ..Options::default()
    })
}

fn connections_with(options: &Options) -> Connections {
    let capabilities = Capabilities {
        missing: Vec::new(),
        jiffy_ns: 4_000_000,
    };
    Connections::new(capabilities, Names::default(), options)
}

/// How many records `work` makes.
pub(super) fn told(work: impl FnOnce(Report<'_>)) -> u32 {
    let mut count = 0;
    work(&mut |_told: ProfileRecord| count += 1);
    count
}

/// The last profile of each connection has the sums of all.
#[test]
fn the_last_profile_has_totals() {
    let mut connections = connections();
    let mut profiles = Vec::new();
    let mut report = |told: ProfileRecord| match told {
        ProfileRecord::Tcp(profile) => profiles.push(profile),
        other => panic!("{other:?} is of no connection"),
    };
    let mut at = |moment: u32, time: u64, bytes_sent: u64| {
        let mut snapshot = profile_snapshot {
            bytes_sent,
            packets_sent: (bytes_sent / 1_000) as u32,
            segments_out: 1 + (bytes_sent / 1_000) as u32,
            ..profile_snapshot::default()
        };
        snapshot.of.connection = 5;
        (snapshot.of.moment, snapshot.of.time) = (moment as u8, time);
        connections.snapshot(&snapshot, &mut report);
    };
    at(native::PROFILE_ESTABLISHED, 10, 0);
    at(native::PROFILE_LOSSY, 20, 3_000);
    at(native::PROFILE_RECOVERED, 35, 5_000);
    at(native::PROFILE_CLOSED, 60, 6_000);
    assert_eq!(profiles.len(), 4);
    let (last, others) = profiles.split_last().unwrap();
    assert!(others.iter().all(|profile| profile.total.0.is_none()));
    let total = last.total.0.as_ref().unwrap();
    assert_eq!((last.bytes_sent, total.total_bytes_sent), (1_000, 6_000));
    assert_eq!(total.total_packets_sent, 6);
    assert_eq!(total.total_duration_ns.0, 50);
    assert!(others[0].establishment_ns.is_some());
    assert_eq!(total.total_establishment_ns, others[0].establishment_ns);
    let sum =
        |of: fn(&TcpProfile) -> u64| -> u64 { profiles.iter().map(|profile| of(profile)).sum() };
    assert_eq!(total.total_packets, sum(|profile| profile.packets));
    assert_eq!(total.total_bytes, sum(|profile| profile.bytes));
}

/// Of a connection that ends at `end_ns`: its profiles.
fn profiles_of(options: &Options, syns_again: u32, end_ns: u64) -> Vec<TcpProfile> {
    let mut connections = connections_with(options);
    let mut profiles = Vec::new();
    let mut report = |told: ProfileRecord| match told {
        ProfileRecord::Tcp(profile) => profiles.push(*profile),
        other => panic!("{other:?} is of no connection"),
    };
    let mut opened = at(native::PROFILE_CONNECT, 10);
    opened.of.process[0] = b'c'.cast_signed();
    connections.note(&opened.of, &mut report);
    let mut now = profile_snapshot {
        segments_out: 2 + syns_again,
        segments_in: 1,
        packets_retransmitted: syns_again,
        bytes_acknowledged: 1,
        round_trip: 40_000,
        header_bytes: 32,
        ..at(native::PROFILE_ESTABLISHED, 40_000_010)
    };
    connections.snapshot(&now, &mut report);
    connections.look_back(now.of.time + 1, &[], &mut report);
    now = profile_snapshot {
        bytes_sent: 3_000,
        packets_sent: 3,
        segments_out: now.segments_out + 4,
        segments_in: 4,
        bytes_acknowledged: 3_002,
        bytes_received: 51,
        has_fin: 1,
        ..now
    };
    now.round_trips.count = 2;
    (now.round_trips.sum, now.round_trips.squares) = (90_000, 4_100_000_000);
    (now.of.moment, now.of.time) = (native::PROFILE_CLOSED as u8, end_ns);
    connections.look_back(end_ns, &[], &mut report);
    connections.snapshot(&now, &mut report);
    profiles
}

/// One profile has what two would have had.
#[test]
fn a_short_connection_has_one_profile_where_that_is_wanted() {
    const END_NS: u64 = 100_000_000;
    let two = Options::default();
    let one = Options {
        coalesces: true,
        ..Options::default()
    };
    let apart = profiles_of(&two, 0, END_NS);
    let [first, last] = &apart[..] else {
        panic!("{apart:?}")
    };
    let together = profiles_of(&one, 0, END_NS);
    let [only] = &together[..] else {
        panic!("{together:?}")
    };
    assert_eq!(only.total, last.total);
    assert_eq!(only.start_state, first.start_state);
    assert_eq!(only.start_time, first.start_time);
    assert_eq!(only.establishment_ns, Some(Nanoseconds(40_000_000)));
    assert_eq!(only.process, first.process);
    assert_eq!(only.process.as_deref(), Some("c"));
    assert_eq!((only.end_state, only.time), (last.end_state, last.time));
    let of = |of: fn(&TcpProfile) -> u64| {
        assert_eq!(of(only), of(first) + of(last));
        of(only)
    };
    assert_eq!(of(|it| it.duration_ns.0), END_NS - 10);
    assert_eq!(of(|it| it.packets), 6);
    assert_eq!(of(|it| it.bytes), 3_000 + 6 * (40 + 32) + 2 * 8);
    assert_eq!(of(|it| it.reverse_packets), 4);
    assert_eq!(of(|it| it.reverse_bytes), 50 + 4 * (40 + 32) + 8);
    assert_eq!(of(|it| it.bytes_acknowledged), 3_000);
    assert_eq!(of(|it| u64::from(it.rtt_samples.unwrap())), 3);
    // 40, 40 and 50 ms, as `spread` has it of them.
    assert_eq!(only.rtt_mean_ns, Some(Nanoseconds(43_333_333)));
    assert!((only.rtt_variance_us2.unwrap() - 2e8 / 9.0).abs() < 1.0);

    // It is not short, or something went wrong before it was established.
    assert_eq!(profiles_of(&one, 0, 40_000_010 + 200_000_000).len(), 2);
    assert_eq!(profiles_of(&one, 1, END_NS), profiles_of(&two, 1, END_NS));
    assert_eq!(profiles_of(&one, 1, END_NS).len(), 2);
}

/// Its SYN was not told of. If that was sent again, it is not known when it was first.
#[test]
fn a_client_is_one_though_its_syn_was_missed() {
    for packets_retransmitted in [0, 1] {
        let mut profiles = Vec::new();
        let mut connections = connections();
        let mut snapshot = profile_snapshot {
            packets_retransmitted,
            round_trip: 3,
            ..profile_snapshot::default()
        };
        snapshot.of.moment = native::PROFILE_ESTABLISHED as u8;
        (snapshot.of.old_state, snapshot.of.time) = (SYN_SENT, 10_000);
        connections.snapshot(&snapshot, &mut |told| {
            if let ProfileRecord::Tcp(profile) = told {
                profiles.push(profile);
            }
        });
        assert_eq!(profiles.len(), 1);
        assert_eq!(profiles[0].role, Some("client"));
        let establishment = (packets_retransmitted == 0).then_some(Nanoseconds(3_000));
        assert_eq!(profiles[0].establishment_ns, establishment);
    }
}

/// A look before the last profile, or one that comes later than what it saw, has nothing new.
#[test]
fn the_end_does_not_go_back_to_an_older_look() {
    let mut connections = connections();
    let mut durations = Vec::new();
    let mut report = |told: ProfileRecord| match told {
        ProfileRecord::Tcp(profile) => durations.push(profile.duration_ns.0),
        other => panic!("{other:?} is of no connection"),
    };
    for (moment, time) in [
        (native::PROFILE_ESTABLISHED, 10),
        (native::PROFILE_SEEN, 20),
        (native::PROFILE_LOSSY, 30),
        (native::PROFILE_SEEN, 25),
    ] {
        connections.snapshot(&at(moment, time), &mut report);
    }
    connections.finish(&[], &mut report);
    assert_eq!(durations, [0, 20, 0]);
}

/// It ends as it was last seen. Of one that is only about to be opened nothing is known.
#[test]
fn a_connection_whose_end_was_missed_has_a_last_profile() {
    let mut connections = connections();
    let mut ends = Vec::new();
    let mut report = |told: ProfileRecord| match told {
        ProfileRecord::Tcp(profile) => {
            ends.push((profile.end_state, profile.reason, profile.duration_ns.0));
        }
        other => panic!("{other:?} is of no connection"),
    };
    for (moment, time) in [
        (native::PROFILE_ESTABLISHED, 10),
        (native::PROFILE_RECOVERED, 15),
        (native::PROFILE_SEEN, 20),
    ] {
        connections.snapshot(&at(moment, time), &mut report);
    }
    let mut opened = at(native::PROFILE_CONNECT, 5).of;
    opened.connection = 6;
    connections.note(&opened, &mut report);
    let before = |ns| move |latest: &profile_snapshot| latest.of.time < ns;
    assert_eq!(connections.end_gone(before(20), &mut report), [0; 0]);
    assert_eq!(connections.end_gone(before(21), &mut report), [5]);
    let expected = [
        (State::Established, "established", 0),
        (State::Update, "recovered", 5),
        (State::Desync, "its end was missed", 5),
    ];
    assert_eq!(ends, expected);
}

fn at(moment: u32, time: u64) -> profile_snapshot {
    let mut snapshot = profile_snapshot::default();
    snapshot.of.connection = 5;
    (snapshot.of.moment, snapshot.of.time) = (moment as u8, time);
    snapshot
}
