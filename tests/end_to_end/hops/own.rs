//! A host that nothing is sent to until fathom does, and the destination of any flow.

use std::net::{IpAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fathom_lab::{Chain, Family, LinkConfig, Process, Way, wait_until};
use fathom_tests::{Fathom, Finished, Hop, Record, binary};
use nix::sys::signal::Signal;

use crate::stage::{Application, MILLISECOND, PATIENCE, alone, beside_others, chain};

const ROUTERS: usize = 3;
const DELAY: Duration = Duration::from_millis(5);
/// What the links delay a packet to the destination and its answer together.
const ROUND_TRIP_NS: u64 = 2 * (ROUTERS as u64 + 1) * DELAY.as_nanos() as u64;
/// Of a round trip over user space's links, on a busy machine.
const ERROR_NS: u64 = 4_000_000;

fn option_of(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

/// `fathom hops` at the client.
fn command(chain: &Chain, options: &[&str]) -> Command {
    let mut command = chain.client.command(binary().unwrap().to_str().unwrap());
    command
        .arg("hops")
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn output(chain: &Chain, options: &[&str]) -> Output {
    let process = Process::start(&mut command(chain, options)).unwrap();
    process.output(PATIENCE).unwrap()
}

/// What it tells of hops, and its messages.
fn hops(chain: &Chain, options: &[&str]) -> (Vec<Hop>, String) {
    let output = output(chain, &[&["--format", "json"], options].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let hops = records.filter_map(|record| match record {
        Record::Hop(hop) => Some(hop),
        _ => None,
    });
    (hops.collect(), errors)
}

/// All routers and the destination are there, as far away as they are.
fn check(chain: &Chain, family: Family, hops: &[Hop], protocol: u8) {
    assert!(hops.iter().all(|hop| hop.flow.protocol == protocol));
    for router in 1..=ROUTERS {
        let told: Vec<_> = hops
            .iter()
            .filter(|hop| usize::from(hop.ttl) == router && !hop.is_destination)
            .collect();
        let truth = chain.responder(router, family);
        assert!(
            told.iter().any(|hop| hop.responder == Some(truth)),
            "{told:#?}"
        );
    }
    let told: Vec<_> = hops.iter().filter(|hop| hop.is_destination).collect();
    let sent: u64 = told.iter().map(|hop| hop.sent).sum();
    let lost: u64 = told.iter().map(|hop| hop.lost).sum();
    assert!(sent >= 4 && lost == 0, "{told:#?}");
    let least = told.iter().filter_map(|hop| hop.rtt_min_ns).min().unwrap();
    println!("{family:?}: {sent} packets, {least} ns at least");
    assert!(
        (ROUND_TRIP_NS..ROUND_TRIP_NS + ERROR_NS).contains(&least),
        "{told:#?}"
    );
    for hop in told {
        assert_eq!(usize::from(hop.ttl), ROUTERS + 1);
        assert_eq!(hop.responder, Some(chain.server_address(family)));
        assert!(hop.rtt_stdev_ns.is_some());
    }
}

fn listener(chain: &Chain, family: Family, port: u16) -> TcpListener {
    let address = (chain.server_address(family), port);
    let listener = chain.server.enter(|| TcpListener::bind(address).unwrap());
    listener.unwrap()
}

#[fathom_lab::test]
fn a_host_is_reached_by_a_connection_of_its_own() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| DELAY).build().unwrap();
    for family in Family::BOTH {
        let _listener = listener(&chain, family, 443);
        let host = chain.server_address(family).to_string();
        let options = [option_of(family), &host, "--count", "4"];
        let (told, errors) = hops(&chain, &options);
        assert!(errors.contains("connected to "), "{errors}");
        check(&chain, family, &told, 6);
    }
}

#[fathom_lab::test]
fn a_host_without_an_open_port_is_pinged() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| DELAY).build().unwrap();
    for (family, protocol) in [(Family::V4, 1), (Family::V6, 58)] {
        let host = match chain.server_address(family) {
            IpAddr::V4(address) => format!("{address}:7"),
            IpAddr::V6(address) => format!("[{address}]:7"),
        };
        let (told, errors) = hops(&chain, &[&host, "--count", "4"]);
        assert!(errors.contains("refuses connections"), "{errors}");
        check(&chain, family, &told, protocol);
    }
}

/// What mtr says of the same path: the address of each hop, and its shortest round trip in ms.
fn mtr(chain: &Chain, host: IpAddr) -> Vec<(String, f64)> {
    let mut command = chain.client.command("mtr");
    command
        .args(["--csv", "--no-dns", "--report-cycles", "4"])
        .arg(host.to_string())
        .stdout(Stdio::piped());
    let output = Process::start(&mut command)
        .unwrap()
        .output(PATIENCE)
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let column = |name: &str| heading.iter().position(|it| *it == name).unwrap();
    let (host, best) = (column("Ip"), column("Best"));
    let hops = lines.map(|line| (line[host].to_owned(), line[best].parse().unwrap()));
    hops.collect()
}

#[fathom_lab::test]
fn a_report_says_what_mtr_says() {
    let _turn = alone();
    let chain = chain(ROUTERS, |link| DELAY * link).build().unwrap();
    for family in Family::BOTH {
        let _listener = listener(&chain, family, 443);
        let host = chain.server_address(family);
        let theirs = mtr(&chain, host);
        let output = output(&chain, &[&host.to_string(), "--report", "--count", "4"]);
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}{theirs:?}");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), ROUTERS + 1);
        assert_eq!(theirs.len(), ROUTERS + 1);
        assert_eq!(rows[ROUTERS].last(), Some(&"destination"));
        for (row, (address, best_ms)) in rows.iter().zip(theirs) {
            assert_eq!(row[1], address);
            assert_eq!(row[2], "0.0%");
            assert!(row[3].parse::<u32>().unwrap() >= 4);
            let difference_ms = row[6].parse::<f64>().unwrap() - best_ms;
            assert!(difference_ms.abs() < 2.0, "{row:?} {best_ms}");
        }
    }
}

/// The connection has a port of this side once.
#[fathom_lab::test]
fn a_connection_that_the_server_closes_is_opened_again() {
    let _turn = beside_others();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let listener = listener(&chain, Family::V4, 443);
    let host = chain.server_address(Family::V4).to_string();
    let fathom = Fathom::hops_to(&chain.client, &[&host]).unwrap();
    let (first, from) = listener.accept().unwrap();
    let answers = |fathom: &Fathom| {
        let probes = fathom.probes();
        let answered = probes.iter().filter(|probe| probe.responder.is_some());
        answered.count()
    };
    // It lasts for more than 5 s.
    wait_until(PATIENCE, "answers", || answers(&fathom) >= 7).unwrap();
    drop(first);
    let (_second, again) = listener.accept().unwrap();
    assert_eq!(from, again);
    let before = answers(&fathom);
    wait_until(PATIENCE, "more answers", || answers(&fathom) >= before + 3).unwrap();
    let finished = fathom.finish().unwrap();
    assert_eq!(finished.count("flows opened"), 2, "{}", finished.errors);
}

#[fathom_lab::test]
fn who_cannot_be_reached_is_named() {
    let _turn = beside_others();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let told = |options: &[&str]| {
        let output = output(&chain, options);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = told(&["no-such-host.invalid"]);
    assert!(
        unknown.contains("cannot find the address of no-such-host.invalid"),
        "{unknown}"
    );
    chain
        .client
        .run("ip route add unreachable 192.0.2.0/24")
        .unwrap();
    let unreachable = told(&["192.0.2.7"]);
    assert!(
        unreachable.contains("there is no route to 192.0.2.7"),
        "{unreachable}"
    );
    let host = chain.server_address(Family::V6).to_string();
    let other = told(&["-4", &host]);
    assert!(other.contains("has no address of IPv4"), "{other}");
}

/// Nobody has the address, but there is a path to where it would be.
#[fathom_lab::test]
fn a_silent_host_has_a_path_and_ctrl_c_gives_the_report() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| MILLISECOND).build().unwrap();
    let server = chain.server_address(Family::V4);
    let client = chain.client_address(Family::V4);
    let blackhole = format!("ip route add blackhole {client}/32");
    chain.server.run(&blackhole).unwrap();
    let options = ["--report", "--count", "1000", &server.to_string()];
    let process = Process::start(&mut command(&chain, &options)).unwrap();
    wait_until(PATIENCE, "requests and probes", || {
        chain.link(1).totals(Way::Forward).delivered >= 50
    })
    .unwrap();
    process.signal(Signal::SIGINT).unwrap();
    let output = process.output(PATIENCE).unwrap();
    let (text, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("does not take connections"), "{errors}");
    println!("{text}");
    for router in 1..=ROUTERS {
        let address = chain.responder(router, Family::V4).to_string();
        assert!(text.contains(&address), "{text}");
    }
    let destination = text.lines().find(|line| line.ends_with("destination"));
    assert!(destination.unwrap().contains("100.0%"), "{text}");
}

/// The share of packets of an application that its destination did not answer.
fn lost_share(finished: &Finished) -> (u64, f64) {
    let told = finished.destinations();
    let sent: u64 = told.iter().map(|hop| hop.sent).sum();
    let lost: u64 = told.iter().map(|hop| hop.lost).sum();
    (sent, lost as f64 / sent as f64)
}

#[fathom_lab::test]
fn losses_of_an_application_are_those_of_its_destination() {
    const LOSS: f64 = 0.2;
    let _turn = beside_others();
    let mut lossy = LinkConfig::symmetric(MILLISECOND);
    lossy.forward = lossy.forward.loss(LOSS);
    let chain = chain(2, |_| MILLISECOND).link(3, lossy).build().unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &[]).unwrap();
    let _flow = Application::tcp(&chain, Family::V4, 100);
    wait_until(2 * PATIENCE, "packets to the destination", || {
        let sent = fathom
            .destinations()
            .iter()
            .map(|hop| hop.sent)
            .sum::<u64>();
        sent >= 200
    })
    .unwrap();
    let (sent, share) = lost_share(&fathom.finish().unwrap());
    // Three deviations of so many drawn with this chance, and what an acknowledgement that
    // comes late makes of it.
    let error = 3.0 * (LOSS * (1.0 - LOSS) / sent as f64).sqrt() + 0.03;
    println!("{share} of {sent} lost, {LOSS} is true, {error} may be");
    assert!((share - LOSS).abs() < error);
}
