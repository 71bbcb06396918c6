//! The agent as a service: it answers requests, reads its configuration again while traffic passes,
//! tells systemd that it lives, and has only the capabilities that it needs.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fathom_lab::{Process, Topology, wait_until};
use fathom_tests::{binary, programs_of};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{
    BYTES, DELAY, PATIENCE, REQUESTS, exchange, exchange_while, lab, records, wait_until_attached,
};

struct Agent {
    process: Process,
    directory: PathBuf,
}

impl Agent {
    /// One with a configuration file, whose records are JSON.
    fn start(lab: &Topology, directory: &Path, configuration: &str) -> Self {
        Self::start_with(lab, directory, configuration, &[])
    }

    fn start_with(
        lab: &Topology,
        directory: &Path,
        configuration: &str,
        variables: &[(&str, String)],
    ) -> Self {
        std::fs::write(directory.join("fathom.toml"), configuration).unwrap();
        // As systemd does, which names the process that is to speak for itself.
        let mut command = lab.client.command("sh");
        command
            .current_dir(directory)
            .args(["-c", "WATCHDOG_PID=$$ exec \"$@\"", "sh"])
            .arg(binary().unwrap())
            .args(["--config", "fathom.toml", "agent", "--socket", "socket"])
            .args(["--format", "json", "--output", "records.json"])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stderr(Stdio::inherit());
        let process = Process::start(&mut command).unwrap();
        wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
        let agent = Self {
            process,
            directory: directory.to_owned(),
        };
        wait_until(PATIENCE, "the agent to answer", || {
            agent.ask(&["status"]).status.success()
        })
        .unwrap();
        agent
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary().unwrap());
        command
            .args(["agent", "--socket"])
            .arg(self.directory.join("socket"))
            .args(words);
        command
    }

    fn ask(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn records(&self) -> Vec<Value> {
        records(&self.directory.join("records.json"))
    }

    /// Capabilities of a set of the process, as bits.
    fn capabilities(&self, set: &str) -> u64 {
        let status = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let mut lines = status.lines();
        let bits = lines.find_map(|line| line.strip_prefix(set)).unwrap();
        u64::from_str_radix(bits.trim_start_matches(':').trim(), 16).unwrap()
    }

    fn programs(&self) -> BTreeSet<u32> {
        programs_of(self.process.id()).unwrap()
    }

    fn stop(mut self) -> Vec<Value> {
        self.process.signal(Signal::SIGTERM).unwrap();
        assert!(self.process.wait_with_deadline(PATIENCE).unwrap().success());
        assert!(!self.directory.join("socket").exists());
        self.records()
    }
}

fn configuration(interval: &str) -> String {
    format!("[agent]\nmeasure = [\"rtt\", \"traffic\"]\ninterval = \"{interval}\"\n")
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

#[fathom_lab::test]
fn a_configuration_is_read_again_while_traffic_passes() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(&lab, directory.path(), &configuration("700ms"));
    let file = directory.path().join("fathom.toml");

    // A file that is wrong changes nothing.
    std::fs::write(&file, configuration("soon")).unwrap();
    let refused = agent.ask(&["reload"]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("[agent] interval: "),
        "{refused:?}"
    );

    let is_over = AtomicBool::new(false);
    let wait_for_interval = |tenths| {
        wait_until(PATIENCE, "an interval", || {
            let lengths = agent.records().into_iter();
            let mut lengths = lengths.filter_map(|it| it["duration_ns"].as_u64());
            lengths.any(|ns| ns / 100_000_000 == tenths)
        })
    };
    let (port, requests) = thread::scope(|scope| {
        let (lab, is_over) = (&lab, &is_over);
        let goes_on = |_: usize| !is_over.load(Ordering::Relaxed);
        let traffic = scope.spawn(move || exchange_while(lab, goes_on));
        let before = wait_for_interval(7);
        let labelled = configuration("500ms") + "[agent.label]\nsite = \"ber1\"\n";
        std::fs::write(&file, labelled).unwrap();
        let reloaded = agent.ask(&["reload"]);
        let after = wait_for_interval(5);
        is_over.store(true, Ordering::Relaxed);
        assert!(reloaded.status.success(), "{reloaded:?}");
        before.and(after).unwrap();
        traffic.join().unwrap()
    });

    // What is measured is the same: it goes on.
    let programs = agent.programs();
    let called_otherwise = configuration("500ms") + "[agent.label]\nsite = \"muc1\"\n";
    std::fs::write(&file, called_otherwise).unwrap();
    assert!(agent.ask(&["reload"]).status.success());
    assert!(!programs.is_empty());
    assert_eq!(agent.programs(), programs);
    let records = agent.stop();

    let agents = records.iter().filter(|it| it["kind"] == "agent");
    let told = agents.map(|it| (it["labels"].as_str(), it["interval_ns"].as_u64()));
    let expected = [
        (Some(""), Some(700_000_000)),
        (Some("site=ber1"), Some(500_000_000)),
        (Some("site=muc1"), Some(500_000_000)),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);

    // Those before are measured until the new ones are: no packet passes unseen, and few are
    // seen by both.
    let of_flow = records.iter().filter(|it| {
        it["kind"] == "traffic" && (it["source_port"] == port || it["destination_port"] == port)
    });
    let bytes = of_flow.flat_map(|it| [&it["bytes"], &it["reverse_bytes"]]);
    let bytes: u64 = bytes.filter_map(Value::as_u64).sum();
    let payload = 2 * (requests * BYTES) as u64;
    // Headers are a sixth of it.
    assert!(
        (payload..payload * 3 / 2).contains(&bytes),
        "{bytes} {payload}"
    );
}

#[fathom_lab::test]
fn each_sample_of_chosen_flows_is_captured_for_a_time() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(&lab, directory.path(), &configuration("10s"));
    let capture = |end: &str, duration, running: usize| {
        let words = ["capture", end, "--format", "json", "--duration", duration];
        let command = agent.command(&words);
        // As in the background of a script.
        let mut ignoring = Command::new("sh");
        ignoring
            .args(["-c", "trap '' INT; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        let capture = Process::start(ignoring.stdout(Stdio::piped())).unwrap();
        let told = format!("captures: {running}");
        let is_under_way = || text(&agent.ask(&["status"]).stdout).contains(&told);
        wait_until(PATIENCE, "the capture to begin", is_under_way).unwrap();
        capture
    };
    let server = Topology::SERVER_V4;
    let ends = [
        format!("{server}:8080"),
        format!("{server}/24"),
        "198.51.100.0/24".to_owned(),
    ];
    let mut running = 0;
    let asked = ends.map(|end| {
        running += 1;
        // Programs load for each, and all must be under way while requests pass.
        capture(&end, "30s", running)
    });
    let port = exchange(&lab);
    let [of_server, of_network, of_others] = asked.map(|asked| {
        let printed = text(&asked.output(2 * PATIENCE).unwrap().stdout);
        let lines = printed.lines().map(|it| serde_json::from_str(it).unwrap());
        lines.collect::<Vec<Value>>()
    });
    let is_count = |it: &Value| it["kind"] == "count" && it["measurement"] == "rtt";
    assert!(of_others.iter().any(is_count), "{of_others:?}");
    assert!(of_others.iter().all(|it| it["kind"] == "count"));
    let kept = agent.records();
    for records in [&of_server, &of_network, &kept] {
        let samples = records.iter();
        let samples = samples.filter(|it| it["kind"] == "rtt" && it["source_port"] == port);
        let samples: Vec<_> = samples.collect();
        // Not one in 100 ms, as in between.
        assert!(
            samples.len() >= REQUESTS,
            "{} {}",
            samples.len(),
            records.len()
        );
        let round_trip = 2.0 * DELAY.as_nanos() as f64;
        for sample in samples {
            assert!(
                sample["rtt_ns"].as_f64().unwrap() > round_trip * 0.99,
                "{sample}"
            );
        }
    }
    // It ends with who asked for it.
    let asked = capture(&server.to_string(), "1h", 1);
    asked.signal(Signal::SIGINT).unwrap();
    let is_over = || !text(&agent.ask(&["status"]).stdout).contains("captures");
    wait_until(PATIENCE, "the end of the capture", is_over).unwrap();
    let none = agent.ask(&["capture", "web:80"]);
    assert_eq!(none.status.code(), Some(2));
    agent.stop();
}

#[fathom_lab::test]
fn systemd_hears_that_it_lives() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut message = [0; 512];
        let length = manager.recv(&mut message).unwrap();
        text(&message[..length])
    };
    let watchdog = Duration::from_millis(500).as_micros().to_string();
    let variables = [
        ("NOTIFY_SOCKET", path.to_str().unwrap().to_owned()),
        ("WATCHDOG_USEC", watchdog),
    ];
    let agent = Agent::start_with(&lab, directory.path(), &configuration("1s"), &variables);
    assert_eq!(hear(), "EXTEND_TIMEOUT_USEC=600000000\n");
    assert!(hear().contains("READY=1"));
    assert!(hear().contains("WATCHDOG=1"));
    agent.process.signal(Signal::SIGHUP).unwrap();
    let mut heard = hear();
    // Signs of life come until then, and one with it. The next may take a while.
    while !heard.contains("RELOADING=1") {
        assert!(heard.contains("WATCHDOG=1"), "{heard}");
        heard = hear();
    }
    assert!(heard.contains("MONOTONIC_USEC="), "{heard}");
    assert!(heard.contains("WATCHDOG=1"), "{heard}");
    for longer in ["WATCHDOG_USEC=600000000", "EXTEND_TIMEOUT_USEC=600000000"] {
        assert!(heard.contains(longer), "{heard}");
    }
    heard = hear();
    assert!(heard.contains("READY=1"), "{heard}");
    assert!(heard.contains("WATCHDOG_USEC=500000"), "{heard}");
    agent.stop();
    while !heard.contains("STOPPING=1") {
        heard = hear();
    }
}

#[fathom_lab::test]
fn it_keeps_the_capabilities_that_later_steps_need() {
    const DAC_OVERRIDE: u64 = 1 << 1;
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_PTRACE: u64 = 1 << 19;
    const OF_BPF: u64 = 0b111 << 38;
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let any = "[agent]\nmeasure = [\"rtt\"]\ninterface = [\"any\"]\n";
    let agent = Agent::start(&lab, directory.path(), any);
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let needed = DAC_OVERRIDE | NET_ADMIN | SYS_PTRACE | OF_BPF;
        assert_eq!(agent.capabilities(set), needed, "{set}");
    }
    // They are enough for an interface that comes, and to begin anew.
    let mut link = lab.client.command("ip");
    link.args([
        "link", "add", "later", "type", "veth", "peer", "name", "other",
    ]);
    assert!(link.status().unwrap().success());
    let mut up = lab.client.command("ip");
    assert!(
        up.args(["link", "set", "later", "up"])
            .status()
            .unwrap()
            .success()
    );
    wait_until_attached(&lab.client, "later");
    let file = directory.path().join("fathom.toml");
    let programs = agent.programs();
    std::fs::write(&file, any.replace("\"rtt\"", "\"traffic\"")).unwrap();
    assert!(agent.ask(&["reload"]).status.success());
    assert!(agent.programs().is_disjoint(&programs));
    // They are not enough for profiles, and the agent says what is.
    let more = any.replace("\"rtt\"", "\"rtt\", \"profile\"");
    std::fs::write(&file, more).unwrap();
    let refused = agent.ask(&["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    let why = text(&refused.stderr);
    assert!(
        why.contains("profile needs CAP_SYS_ADMIN") && why.contains("Restart the agent"),
        "{why}"
    );
    assert!(agent.ask(&["status"]).status.success());
    let second = lab
        .client
        .command(binary().unwrap().to_str().unwrap())
        .args(["agent", "--measure", "rtt", "--format", "json", "--socket"])
        .arg(directory.path().join("socket"))
        .output()
        .unwrap();
    assert!(
        text(&second.stderr).contains("another process has the socket"),
        "{second:?}"
    );
    agent.stop();
}
