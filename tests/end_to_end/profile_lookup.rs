//! `fathom profile --dns` and applications that wait for `getaddrinfo`: `getent` with a resolver of
//! its own, in namespaces.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fathom_lab::traffic::dns::{Server, Think};
use fathom_lab::{LinkConfig, Process, Topology, obstacle, wait_until};
use fathom_tests::{Fathom, Group, Profile, Record};

const MILLISECOND: Duration = Duration::from_millis(1);
/// How long the resolver thinks about each question.
const THINK: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `getent` so that it finds these files in /etc; in a mount namespace of its own, so that
/// nobody else does. How long it ran.
fn getent(lab: &Topology, folder: &Path, name: &str) -> Duration {
    let script = "mount --bind $0/resolv.conf /etc/resolv.conf && mount --bind $0/nsswitch.conf /etc/nsswitch.conf && exec getent ahosts $1";
    let mut command = lab.client.command("unshare");
    command.args(["--mount", "sh", "-c", script]);
    command.arg(folder).arg(name).stdout(Stdio::null());
    let start = Instant::now();
    let output = Process::start(&mut command)
        .unwrap()
        .output(PATIENCE)
        .unwrap();
    // 2: no such name.
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
    start.elapsed()
}

fn configure(folder: &Path, resolver: IpAddr) {
    let resolver = format!("nameserver {resolver}\noptions timeout:1 attempts:1\n");
    std::fs::write(folder.join("resolv.conf"), resolver).unwrap();
    std::fs::write(folder.join("nsswitch.conf"), "hosts: files dns\n").unwrap();
}

/// What was told of names, by the name.
fn lookups(fathom: &Fathom, name: &str) -> Vec<Profile> {
    let profiles = fathom
        .records_after(0)
        .into_iter()
        .filter_map(|record| match record {
            Record::LookupProfile(profile) if profile.text("query_name") == name => Some(profile),
            _ => None,
        });
    profiles.collect()
}

fn exchanges_of(fathom: &Fathom, pid: Option<u64>) -> Vec<Profile> {
    let profiles = fathom
        .records_after(0)
        .into_iter()
        .filter_map(|record| match record {
            Record::DnsProfile(profile) if profile.number("pid") == pid => Some(profile),
            _ => None,
        });
    profiles.collect()
}

/// What makes the test impossible here.
fn missing() -> Option<String> {
    let has_glibc =
        std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("/libc.so.6"));
    let has_files = ["/etc/resolv.conf", "/etc/nsswitch.conf"]
        .iter()
        .all(|file| Path::new(file).exists());
    obstacle().or_else(|| match (has_glibc, has_files) {
        (true, true) => None,
        (false, _) => Some("this machine does not run glibc".to_owned()),
        (_, false) => Some("/etc lacks the files that name resolvers".to_owned()),
    })
}

#[fathom_lab::test]
fn a_lookup_takes_as_long_as_the_application_waits() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let lab = Topology::builder()
        .wan(LinkConfig::symmetric(ROUND_TRIP / 2))
        .build()
        .unwrap();
    let address = (Topology::SERVER_V4, 53).into();
    let _server = Server::start(&lab.server, address, Think::constant(THINK)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fathom = Fathom::profile(&lab.router, &["--dns"]).unwrap();
    let names = ["answered.lab.test", "silent.lab.test", "10.77.9.9"];
    configure(folder.path(), Topology::SERVER_V4);
    let answered = getent(&lab, folder.path(), names[0]);
    let numeric = getent(&lab, folder.path(), names[2]);
    // Nothing is at this address, and nobody says so.
    configure(folder.path(), "10.77.2.99".parse().unwrap());
    let silent = getent(&lab, folder.path(), names[1]);
    let waited = wait_until(PATIENCE, "the lookups", || {
        names.iter().all(|name| !lookups(&fathom, name).is_empty())
    });
    assert!(waited.is_ok(), "{}", fathom.errors());

    // The server's answer, after its thought and over the links, and what else `getent` does.
    for (name, result, least, most) in [
        (names[0], "0", THINK + ROUND_TRIP, answered),
        (names[1], "EAI_AGAIN", Duration::from_secs(1), silent),
        (
            names[2],
            "0",
            Duration::ZERO,
            numeric.min(ROUND_TRIP + 50 * MILLISECOND),
        ),
    ] {
        let found = lookups(&fathom, name);
        assert_eq!(found.len(), 1, "{found:#?}");
        let latency = found[0].span("latency_ns").unwrap();
        assert!(least <= latency && latency <= most, "{found:#?}");
        assert_eq!(found[0].text("result"), result);
        assert_eq!(found[0].text("process"), "getent");
        assert_eq!(found[0].text("cgroup"), Group::own_path());
    }
    // It waits for both families at once, each an exchange of the same process.
    let lookup = &lookups(&fathom, names[0])[0];
    let exchanges = exchanges_of(&fathom, lookup.number("pid"));
    let mut types: Vec<_> = exchanges
        .iter()
        .map(|profile| profile.text("query_type"))
        .collect();
    types.sort_unstable();
    assert_eq!(types, ["A", "AAAA"]);
    for exchange in &exchanges {
        assert_eq!(exchange.text("end_state"), "FINISHED");
        assert!(exchange.span("latency_ns") <= lookup.span("latency_ns"));
    }
    fathom.finish().unwrap();
}
