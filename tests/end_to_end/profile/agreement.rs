//! Both sets of probes tell the same of the same connections, field by field: two measurements, one
//! with each, at the same time over all the cases.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fathom_lab::{Namespace, Process, Topology, wait_until};
use fathom_tests::{Fathom, Profile};
use serde_json::Value;

use crate::cases::{Script, perform};
use crate::endings::unacknowledged;
use crate::stage::{
    Family, MILLISECOND, NETWORKS, PATIENCE, Pair, lab, listen, slack, whole_profiles,
};
use crate::{arrivals, attempts, departures, endings, recovery, script};

const FUNCTIONS: &str = "fentry";
const SETS: [&str; 2] = ["tracepoint", FUNCTIONS];

// The ports of the cases that are no others' too.
const LATE: u16 = 5800;
const NO_ROUTE: u16 = 5802;
const EXISTING: u16 = 5804;
const NEIGHBOUR: u16 = 5806;

/// Fields whose values may lie apart as times do, and why. All others are equal.
const TIMES: [(&str, &str); 13] = {
    let clock = "either set reads the clock in its own program, one after the other";
    let jiffy = "the stack counts it in jiffies, and one may pass between the programs";
    [
        ("time", clock),
        ("start_time", clock),
        ("duration_ns", clock),
        ("establishment_ns", clock),
        ("accept_queue_ns", clock),
        ("stalled_ns", clock),
        ("total_duration_ns", clock),
        ("total_establishment_ns", clock),
        ("total_accept_queue_ns", clock),
        ("total_stalled_ns", clock),
        ("busy_ns", jiffy),
        ("window_limited_ns", jiffy),
        ("send_buffer_limited_ns", jiffy),
    ]
};

/// The first profile of a connection that was there before: either measurement starts when it does.
const SINCE_THE_START: [&str; 2] = ["start_time", "duration_ns"];

/// `connect()` that fails before a SYN is sent: only the set that sees the function return knows
/// the error.
const WITHOUT_ERROR: &str = "no route, or no free port";

/// Each may be one that makes a connection's profiles differ.
const MISSED: &str = "moments missed: the probe was at work on that CPU";

/// A measurement with either set, over the same connections.
struct Both([Fathom; 2]);

impl Both {
    /// `None` where this kernel does not take both.
    fn start(namespace: &Namespace, options: &[&str]) -> Option<Self> {
        let mut fathoms = Vec::new();
        for set in SETS {
            let options = [&["--probe-set", set][..], options].concat();
            match Fathom::profile(namespace, &options) {
                Ok(fathom) => fathoms.push(fathom),
                // This kernel may refuse probes of functions; tracepoints it must take.
                Err(error) if set == FUNCTIONS => {
                    let why = format!("{error:#}");
                    assert!(why.contains("the kernel refused"), "{why}");
                    println!("skipped: {why}");
                    return None;
                }
                Err(error) => panic!("{error:#}"),
            }
        }
        fathoms.try_into().ok().map(Self)
    }

    /// Waits until both have all profiles of the connections with these ports, at the client and,
    /// if they came to be, at the server.
    fn wait(&self, [client, server]: [&Namespace; 2], ports: &[u16]) {
        for fathom in &self.0 {
            for port in ports {
                let is_attempt = whole_profiles(fathom, client, *port).len() == 1;
                if !is_attempt {
                    whole_profiles(fathom, server, *port);
                }
            }
        }
    }

    /// Ends both and holds what they told of the connections of `hosts` against each other.
    fn compare(self, hosts: &[&Namespace]) {
        let mut comparison = Comparison::default();
        let [by_tracepoint, by_fentry] = self.0.map(|fathom| {
            let mut by_connection = BTreeMap::<u64, Vec<Profile>>::new();
            let finished = fathom.finish().unwrap();
            comparison.missed += finished.count(MISSED);
            for profile in finished.profiles() {
                if hosts.iter().any(|host| profile.is_of(host)) {
                    let connection = profile.number("connection").unwrap();
                    by_connection.entry(connection).or_default().push(profile);
                }
            }
            by_connection
        });
        let connections: BTreeSet<_> = by_tracepoint.keys().chain(by_fentry.keys()).collect();
        assert!(!connections.is_empty(), "no profiles at all");
        for connection in connections {
            let none = Vec::new();
            let [left, right] =
                [&by_tracepoint, &by_fentry].map(|told| told.get(connection).unwrap_or(&none));
            comparison.add_connection(left, right);
        }
        comparison.conclude();
    }
}

/// What was compared so far.
#[derive(Default)]
struct Comparison {
    profiles: usize,
    fields: usize,
    /// How far times lie apart, in ns, by the name of the field.
    apart_ns: BTreeMap<&'static str, Vec<u64>>,
    /// Of each connection that has some, and of times.
    differences: Vec<String>,
    /// Moments that either set knows to have missed.
    missed: u64,
}

impl Comparison {
    fn add_connection(&mut self, by_tracepoint: &[Profile], by_fentry: &[Profile]) {
        if by_tracepoint.len() != by_fentry.len() {
            self.differences
                .push(format!("{by_tracepoint:#?}\nbut\n{by_fentry:#?}"));
            return;
        }
        let pairs = by_tracepoint.iter().zip(by_fentry).enumerate();
        let differences: Vec<_> = pairs
            .flat_map(|(number, (left, right))| self.add_profiles(number, left, right))
            .collect();
        if !differences.is_empty() {
            self.differences.push(differences.join("\n"));
        }
    }

    /// The profiles of either set with this number of a connection's; how they differ.
    fn add_profiles(&mut self, number: usize, left: &Profile, right: &Profile) -> Vec<String> {
        let mut differences = Vec::new();
        self.profiles += 1;
        // What a set lacks on this kernel is named by whoever runs the cases there.
        let missing = std::env::var("FATHOM_TEST_WITHOUT").unwrap_or_default();
        let names: BTreeSet<&str> = [left, right]
            .into_iter()
            .flat_map(Profile::fields)
            .map(|(name, _)| name)
            .filter(|name| !missing.split(',').any(|missing| missing == *name))
            .collect();
        for name in names {
            self.fields += 1;
            let is_existing = left.get("is_existing") == Some(&Value::Bool(true));
            let is_since_the_start = number == 0 && SINCE_THE_START.contains(&name);
            if is_existing && (is_since_the_start || name == "total_duration_ns") {
                continue;
            }
            if left.get(name) == right.get(name)
                || (name == "reason" && left.text(name) == WITHOUT_ERROR && is_refusal(right))
            {
                continue;
            }
            let time = TIMES.iter().find(|(time, _)| *time == name);
            match (time, apart_ns(name, left, right)) {
                (Some((name, _)), Some(apart_ns)) => {
                    self.apart_ns.entry(name).or_default().push(apart_ns);
                }
                _ => differences.push(format!(
                    "{}: {name} is {:?} by tracepoints, {:?} by functions",
                    title(number, left),
                    left.get(name),
                    right.get(name)
                )),
            }
        }
        differences
    }

    fn conclude(&mut self) {
        println!("{} profiles, {} fields", self.profiles, self.fields);
        for (name, apart_ns) in &mut self.apart_ns {
            apart_ns.sort_unstable();
            let [median, most] = [apart_ns.len() / 2, apart_ns.len() - 1]
                .map(|index| Duration::from_nanos(apart_ns[index]));
            let why = TIMES.iter().find(|(time, _)| time == name).unwrap().1;
            let count = apart_ns.len();
            println!(
                "{name}: {count} differ, by {median:?} in the median and {most:?} at most: {why}"
            );
            // A jiffy is 10 ms at most.
            if most > slack() || median > 10 * MILLISECOND {
                self.differences.push(format!("{name} differs by {most:?}"));
            }
        }
        let (different, missed) = (self.differences.len() as u64, self.missed);
        println!("{different} connections differ, and {missed} moments were missed");
        assert!(different <= missed, "{}", self.differences.join("\n"));
    }
}

/// Which profile it is, in words.
fn title(number: usize, profile: &Profile) -> String {
    let [start, end, reason] =
        ["start_state", "end_state", "reason"].map(|name| profile.text(name));
    let ends = [profile.local(), profile.remote()];
    format!(
        "{ends:?}, profile {}, {start} > {end} ({reason})",
        number + 1
    )
}

/// Whether it tells why an attempt found no way.
fn is_refusal(profile: &Profile) -> bool {
    profile.text("end_state") == "UNREACHABLE" && profile.text("reason") == "host unreachable"
}

/// How far two values of a field with a time lie apart; `None` where one of them is absent.
fn apart_ns(name: &str, left: &Profile, right: &Profile) -> Option<u64> {
    let [left_ns, right_ns] = [left, right].map(|profile| {
        let since_epoch = profile.time(name)?.duration_since(std::time::UNIX_EPOCH);
        u64::try_from(since_epoch.ok()?.as_nanos()).ok()
    });
    let left_ns = left_ns.or_else(|| left.number(name))?;
    let right_ns = right_ns.or_else(|| right.number(name))?;
    Some(left_ns.abs_diff(right_ns))
}

/// The ports of cases, over both families.
fn ports(cases: &[(u16, Script)]) -> Vec<u16> {
    let ports = cases
        .iter()
        .flat_map(|(case, _)| Family::BOTH.map(|family| family.port(*case)));
    ports.collect()
}

/// Plays the scripts of a lab before both sets.
fn agree_in_a_lab(lab: &Topology, scripts: &[(u16, Script)]) {
    let Some(both) = Both::start(&lab.router, &NETWORKS) else {
        return;
    };
    perform(lab, scripts);
    let hosts = [&lab.client, &lab.server];
    both.wait(hosts, &ports(scripts));
    both.compare(&hosts);
}

/// Plays the cases against a script before both sets.
fn agree_with_a_script(cases: &[(u16, script::Play)]) {
    let peer = script::prepare();
    let Some(both) = Both::start(peer.namespace(), &script::NETWORKS) else {
        return;
    };
    for port in script::perform(&peer, cases) {
        for fathom in &both.0 {
            whole_profiles(fathom, peer.namespace(), port);
        }
    }
    both.compare(&[peer.namespace()]);
}

/// Lost SYNs and SYN-ACKs, tail losses, fast recovery, reordering, duplicates, damage.
#[fathom_lab::test]
fn of_recovery() {
    agree_in_a_lab(&recovery::prepare(), &recovery::SCRIPTS);
}

/// Resets, silence, half and simultaneous closes, keep-alives, connections that nobody accepts.
#[fathom_lab::test]
fn of_endings() {
    agree_in_a_lab(&endings::prepare(), &endings::SCRIPTS);
}

/// Refused, unreachable, unanswered, given up.
#[fathom_lab::test]
fn of_attempts() {
    agree_in_a_lab(&attempts::prepare(), &attempts::SCRIPTS);
}

/// Duplicates whole and partial, in and out of order, old timestamps, probes, wrong checksums.
#[fathom_lab::test]
fn of_arrivals() {
    agree_with_a_script(&arrivals::CASES);
}

/// Closed windows, lost FINs, sequence numbers that wrap, SYNs that cross.
#[fathom_lab::test]
fn of_departures() {
    agree_with_a_script(&departures::CASES);
}

/// The server's application takes its time.
fn accept_late(lab: &Topology, address: SocketAddr) {
    let listener = listen(&lab.server, address);
    let connect = || TcpStream::connect(address);
    let client = lab.client.enter(connect).unwrap().unwrap();
    let connected = Instant::now();
    wait_until(PATIENCE, "a late accept", || {
        connected.elapsed() >= 200 * MILLISECOND
    })
    .unwrap();
    let (server, _) = listener.accept().unwrap();
    Pair { client, server }.close();
}

/// The client's own table of routes says no.
fn find_no_route(lab: &Topology, address: SocketAddr) {
    let nowhere = if address.is_ipv4() {
        "10.77.88.1"
    } else {
        "fd77:88::1"
    };
    let remote = SocketAddr::new(nowhere.parse().unwrap(), address.port());
    let connect = || TcpStream::connect(remote);
    assert!(lab.client.enter(connect).unwrap().is_err());
}

/// To a router of the client's own network, and back.
fn meet_the_neighbour(lab: &Topology, address: SocketAddr) {
    let neighbour = if address.is_ipv4() {
        Topology::LAN_V4
    } else {
        Topology::LAN_V6
    };
    let address = SocketAddr::new(neighbour, address.port());
    let listener = listen(&lab.router, address);
    let connect = || TcpStream::connect(address);
    let client = lab.client.enter(connect).unwrap().unwrap();
    let (server, _) = listener.accept().unwrap();
    Pair { client, server }.close();
}

/// Time in the accept queue, no route, and nothing to route over.
#[fathom_lab::test]
fn of_circumstances() {
    let lab = lab(Vec::new(), Vec::new());
    for command in [
        "ip -4 route add unreachable 10.77.88.0/24",
        "ip -6 route add unreachable fd77:88::/64",
    ] {
        lab.client.run(command).unwrap();
    }
    let Some(both) = Both::start(&lab.router, &NETWORKS) else {
        return;
    };
    let scripts: [(u16, Script); 3] = [
        (LATE, accept_late),
        (NO_ROUTE, find_no_route),
        (NEIGHBOUR, meet_the_neighbour),
    ];
    perform(&lab, &scripts);
    let [late, no_route, neighbour] = scripts.map(|case| ports(&[case]));
    let (client, server, router) = (&lab.client, &lab.server, &lab.router);
    both.wait([client, server], &[late, no_route].concat());
    both.wait([client, router], &neighbour);
    both.compare(&[client, server, router]);
}

/// What was open before either measurement.
#[fathom_lab::test]
fn of_existing_connections() {
    let lab = lab(Vec::new(), Vec::new());
    // A process by which the namespace can be found.
    let _inhabitant = Process::start(lab.server.command("sleep").arg("60")).unwrap();
    let pairs = Family::BOTH.map(|family| {
        let address = SocketAddr::from((family.server(), family.port(EXISTING)));
        let mut pair = Pair::open(&lab, address);
        pair.upload(2);
        wait_until(PATIENCE, "the last acknowledgement", || {
            unacknowledged(&pair.server) == 0
        })
        .unwrap();
        pair
    });
    let options = [&NETWORKS[..], &["--all-namespaces"]].concat();
    let Some(both) = Both::start(&lab.client, &options) else {
        return;
    };
    for mut pair in pairs {
        pair.upload(3);
        pair.close();
    }
    let ports = Family::BOTH.map(|family| family.port(EXISTING));
    for fathom in &both.0 {
        for host in [&lab.client, &lab.server] {
            for port in ports {
                whole_profiles(fathom, host, port);
            }
        }
    }
    both.compare(&[&lab.client, &lab.server]);
}
