//! Agents whose collectors come and go.

use fathom_lab::wait_until;
use nix::sys::signal::Signal;

use crate::capture::echoes;
use crate::collector::{Agent, PATIENCE, Place, collect, fathom, free_port, rows_in};

/// What all of them are asked for: every round trip.
const MEASURE: [&str; 5] = ["rtt", "--sample-interval", "0", "--per-rtt", "0"];

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&MEASURE, more].concat()
}

#[test]
fn the_collectors_store_has_what_the_agent_measured() {
    let place = Place::new();
    std::fs::write(place.path("echoes.pcap"), echoes(0..500)).unwrap();
    let (capture, port) = (place.text("echoes.pcap"), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let collector = collect(&place, &[&url]);
    let output = fathom(&arguments(&[&capture, "--export", &url, "--host", "gate"]));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("acknowledged, 0 refused, 0 lost"),
        "{errors}"
    );
    // What is acknowledged can be asked for.
    assert_eq!(place.samples(), (500, 500));
    let columns = "host, time, source, rtt_ns";
    let there = place.ask(&format!("SELECT {columns} FROM rtt ORDER BY time"));
    collector.signal(Signal::SIGTERM);
    assert!(collector.end());
    assert!(place.said("collector.err").contains("0 messages malformed"));
    // The same measurement, into a store of its own.
    std::fs::rename(place.path("store"), place.path("collected")).unwrap();
    let store = place.text("store");
    let output = fathom(&arguments(&[&capture, "--store", &store, "--host", "gate"]));
    assert!(output.status.success());
    let here = place.ask(&format!("SELECT {columns} FROM rtt ORDER BY time"));
    assert_eq!(there, here);
}

/// The agent reads a capture that grows while its collector is killed again and again.
#[test]
fn a_collector_that_is_killed_has_each_record_once() {
    const ROUNDS: usize = 6;
    let (place, port) = (Place::new(), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let spool = place.text("spool");
    let mut agent = Agent::start(&place, &["--export", &url, "--spool", &spool]);
    for round in 1..=ROUNDS {
        let collector = collect(&place, &[&url]);
        agent.more(5_000);
        // Killed while records come: whenever it has some more of them.
        agent.more_until("records of this round", || {
            place.samples().0 >= round * 2_000
        });
        if round < ROUNDS {
            collector.kill();
            agent.more(1_000);
            continue;
        }
        let all = agent.echoes as usize;
        assert!(agent.process.end(), "{}", place.said("agent.err"));
        assert_eq!(place.samples(), (all, all), "{}", place.said("agent.err"));
        return;
    }
}

#[test]
fn what_was_measured_without_a_collector_is_sent_by_the_next_run() {
    let (place, port) = (Place::new(), free_port());
    let (url, spool) = (format!("http://127.0.0.1:{port}"), place.text("spool"));
    let run = |numbers| {
        let capture = place.text("echoes.pcap");
        std::fs::write(&capture, echoes(numbers)).unwrap();
        let more = [capture.as_str(), "--export", &url, "--spool", &spool];
        let output = fathom(&arguments(&more));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        errors
    };
    let errors = run(0..300);
    assert!(errors.contains("records wait for it"), "{errors}");
    assert!(errors.contains("wait in"), "{errors}");
    assert!(
        errors.contains("0 records acknowledged, 0 refused, 0 lost"),
        "{errors}"
    );
    run(300..400);
    let _collector = collect(&place, &[&url]);
    let errors = run(400..500);
    assert!(errors.contains("are sent first"), "{errors}");
    assert_eq!(place.samples(), (500, 500));
    assert_eq!(rows_in(&place.path("spool")), 0);
}

#[test]
fn the_spool_of_an_agent_that_is_killed_is_sent_by_the_next_once() {
    let (place, port) = (Place::new(), free_port());
    let (url, spool) = (format!("http://127.0.0.1:{port}"), place.text("spool"));
    let options = ["--export", url.as_str(), "--spool", spool.as_str()];
    let mut agent = Agent::start(&place, &options);
    agent.more(20_000);
    agent.more_until("records in the spool", || {
        rows_in(&place.path("spool")) >= 20_000
    });
    agent.process.kill();
    let waiting = rows_in(&place.path("spool"));
    // A batch that was being written when the process ended.
    let directory = place.path("spool").join(format!("127.0.0.1_{port}"));
    std::fs::write(directory.join("00000000000000000099.spool"), "fthn cut").unwrap();
    // It sends some, and is killed before it can know how many.
    let collector = collect(&place, &[&url]);
    let agent = Agent::start(&place, &options);
    wait_until(PATIENCE, "the first of them", || place.samples().0 > 0).unwrap();
    agent.process.kill();
    let agent = Agent::start(&place, &options);
    wait_until(PATIENCE, "an empty spool", || {
        rows_in(&place.path("spool")) == 0
    })
    .unwrap();
    assert!(agent.process.end());
    drop(collector);
    assert_eq!(place.samples(), (waiting, waiting));
}

#[test]
fn a_spool_that_is_full_loses_what_it_counts() {
    const ECHOES: u32 = 300_000;
    let (place, port) = (Place::new(), free_port());
    let (url, spool) = (format!("http://127.0.0.1:{port}"), place.text("spool"));
    let run = |numbers| {
        let capture = place.text("echoes.pcap");
        std::fs::write(&capture, echoes(numbers)).unwrap();
        let more = [
            capture.as_str(),
            "--export",
            &url,
            "--spool",
            &spool,
            "--spool-size",
            "1",
        ];
        let output = fathom(&arguments(&more));
        (
            output.status.success(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (is_success, errors) = run(0..ECHOES);
    assert!(!is_success, "{errors}");
    let lost = errors.split(" lost").next().unwrap().rsplit(' ').next();
    let lost: usize = lost.unwrap().parse().unwrap();
    assert!(lost > 0 && lost < ECHOES as usize, "{errors}");
    assert_eq!(errors.matches("have not reached").count(), 1, "{errors}");
    let _collector = collect(&place, &[&url]);
    let (is_success, errors) = run(0..0);
    assert!(is_success, "{errors}");
    let (all, different) = place.samples();
    assert_eq!(all, different);
    // Counts of the reading itself are records, too.
    let kept = all + place.rows("count");
    assert!(
        kept + lost >= ECHOES as usize && kept + lost < ECHOES as usize + 100,
        "{kept} {lost}"
    );
}

#[test]
fn a_collector_that_stands_still_holds_up_nothing() {
    let (place, port) = (Place::new(), free_port());
    let (url, spool) = (format!("http://127.0.0.1:{port}"), place.text("spool"));
    let collector = collect(&place, &[&url]);
    let options = ["--export", &url, "--spool", &spool, "--format", "json"];
    let mut agent = Agent::start(&place, &options);
    agent.more_until("the first records", || place.samples().0 > 0);
    collector.signal(Signal::SIGSTOP);
    agent.more(20_000);
    agent.more_until("what was measured meanwhile", || {
        place.said("agent.out").matches("\"kind\":\"rtt\"").count() >= 20_000
    });
    agent.more_until("records in the spool", || rows_in(&place.path("spool")) > 0);
    collector.signal(Signal::SIGCONT);
    let all = agent.echoes as usize;
    assert!(agent.process.end());
    assert_eq!(place.samples(), (all, all), "{}", place.said("agent.err"));
}
