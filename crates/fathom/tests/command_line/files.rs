//! Capture files in, records out.

use std::io::Read;
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::capture::{Capture, DELAY_NS, PERIOD_NS, bytes};
use crate::run::{Running, command, fathom, outcome};

#[test]
fn every_json_line_is_an_object_with_kind_and_time() {
    let capture = Capture::new(50);
    let outcome = fathom(&["rtt", capture.path(), "--format", "json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let records: Vec<Value> = outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 50);
    for record in records {
        assert_eq!(
            (record["kind"].as_str(), record["rtt_ns"].as_u64()),
            (Some("rtt"), Some(20_000_000))
        );
        assert!(
            record["time"]
                .as_str()
                .unwrap()
                .starts_with("2023-11-14T22:13:2")
        );
    }
    assert!(
        outcome.stderr.starts_with("100 frames, 50 samples in "),
        "{}",
        outcome.stderr
    );
}

#[test]
fn lines_are_these() {
    let capture = Capture::new(1);
    let line = |format| fathom(&["rtt", capture.path(), "--format", format]).stdout;
    assert_eq!(
        line("text"),
        "22:13:20.020000+00:00 rtt  icmp 10.0.0.1:7 > 10.0.1.1:7  echo  rtt 20.00 ms  echoes.pcap  capture\n"
    );
    assert_eq!(
        line("ppviz"),
        "1700000000.020000 0.020000 0.020000 10.0.1.1:7+10.0.0.1:7\n"
    );
    let csv = line("csv");
    assert!(
        csv.starts_with("kind,host,time,protocol,source,source_port,destination,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 2);
}

#[test]
fn people_read_the_time_of_their_place_and_programs_utc() {
    let capture = Capture::new(1);
    let in_kathmandu = |format: &str| {
        let mut command = command(&["rtt", capture.path(), "--format", format]);
        crate::run::outcome(command.env("TZ", "<+0545>-5:45")).stdout
    };
    let text = in_kathmandu("text");
    assert!(text.starts_with("03:58:20.020000+05:45 rtt "), "{text}");
    let json = in_kathmandu("json");
    assert!(
        json.contains("\"2023-11-14T22:13:20.020000000Z\""),
        "{json}"
    );
}

#[test]
fn records_say_who_observed_and_of_which_flow() {
    let capture = Capture::new(1);
    let record = |options: &[&str]| -> Value {
        let arguments = [&["rtt", capture.path(), "--format", "json"], options].concat();
        serde_json::from_str(&fathom(&arguments).stdout).unwrap()
    };
    let own_name = nix::unistd::gethostname().unwrap();
    assert_eq!(record(&[])["host"], own_name.to_str().unwrap());
    let named = record(&["--host", "gateway"]);
    assert_eq!(named["host"], "gateway");
    // By tshark.
    assert_eq!(named["community_id"], "1:v9yinJ53URp8rnBPA9/JBymt0qA=");
    assert_eq!(fathom(&["rtt", capture.path(), "--host", ""]).status, 2);
}

#[test]
fn csv_is_a_table_of_one_kind() {
    let capture = Capture::new(1);
    let refused = fathom(&["rtt", capture.path(), "--events", "--format", "csv"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--output"), "{}", refused.stderr);
    let outcome = fathom(&["rtt", capture.path(), "--format", "csv"]);
    let kinds = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("kind,"));
    assert_eq!(kinds.count(), 1, "{}", outcome.stdout);
}

#[test]
fn a_capture_that_is_cut_off_gives_all_before_and_a_warning_with_the_offset() {
    let whole = bytes(10);
    let cut = Capture::holding(&whole[..whole.len() - 5]);
    let outcome = fathom(&["rtt", cut.path()]);
    assert_eq!(outcome.status, 0);
    assert_eq!(outcome.stdout.lines().count(), 9);
    let told = format!(
        "cut off: it ends at byte {}, inside what began at byte",
        whole.len() - 5
    );
    assert!(outcome.stderr.contains(&told), "{}", outcome.stderr);
}

#[test]
fn packets_that_come_twice_are_measured_once_and_told_of() {
    let whole = bytes(10);
    let (header, mut rest) = whole.split_at(24);
    let mut twice = header.to_vec();
    while !rest.is_empty() {
        let captured = u32::from_le_bytes(rest[8..12].try_into().unwrap());
        let (packet, behind) = rest.split_at(16 + captured as usize);
        twice.extend([packet, packet].concat());
        rest = behind;
    }
    let capture = Capture::holding(&twice);
    let outcome = fathom(&["rtt", capture.path()]);
    assert_eq!(outcome.stdout.lines().count(), 10);
    for told in [
        ": 20 packets are copies of others, and left out; capture on one interface",
        "40 frames, 10 samples",
        "copies of packets that had been seen  20",
    ] {
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
}

#[test]
fn what_is_no_capture_is_an_error() {
    let text = Capture::holding(b"no capture");
    let outcome = fathom(&["rtt", text.path()]);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome.stderr.contains("not a valid capture at byte 0"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome
            .stderr
            .trim_end()
            .ends_with("it may be compressed by gzip or zstd.")
    );
}

#[test]
fn a_missing_file_is_told_before_the_others_are_read() {
    let capture = Capture::new(1);
    let outcome = fathom(&["rtt", capture.path(), "missing.pcap"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""));
    assert!(
        outcome
            .stderr
            .contains("cannot open the capture file missing.pcap"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("because: No such file"),
        "{}",
        outcome.stderr
    );
}

/// Measures a capture; the start of what it prints has been read.
fn begun(capture: &Capture) -> (Child, ChildStdout) {
    let mut child = command(&["rtt", capture.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    (child, stdout)
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let capture = Capture::new(20_000);
    let (child, stdout) = begun(&capture);
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_reader_that_does_not_read_does_not_keep_it_from_ending() {
    let capture = Capture::new(20_000);
    let (child, _stdout) = begun(&capture);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.starts_with("fathom: cannot write to standard output: "),
        "{told}"
    );
}

#[test]
fn nobody_listening_to_standard_error_is_no_failure() {
    let capture = Capture::new(1);
    let mut child = command(&["rtt", capture.path()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_full_disk_is_told() {
    let capture = Capture::new(1);
    let outcome = fathom(&["rtt", capture.path(), "--output", "/dev/full"]);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome
            .stderr
            .starts_with("fathom: cannot write to /dev/full: 0 bytes were written, "),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("Free some space"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn output_is_appended() {
    let capture = Capture::new(2);
    let file = capture.beside("samples.txt", "before\n");
    for _ in 0..2 {
        assert_eq!(
            fathom(&["rtt", capture.path(), "--output", &file]).stdout,
            ""
        );
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("before\n"));
    assert_eq!(text.lines().count(), 5);
}

#[test]
fn a_thread_that_reads_ahead_changes_nothing() {
    let capture = Capture::new(3000);
    let one = fathom(&["rtt", capture.path(), "--format", "json"]).stdout;
    assert_eq!(
        one,
        fathom(&["rtt", capture.path(), "--format", "json", "--threads", "2"]).stdout
    );
    assert_eq!(one.lines().count(), 3000);
}

#[test]
fn intervals_follow_the_time_of_the_capture() {
    let echoes = 95;
    let capture = Capture::new(echoes);
    let outcome = fathom(&[
        "rtt",
        capture.path(),
        "--interval",
        "3s",
        "--by",
        "network",
        "--format",
        "json",
    ]);
    let records: Vec<Value> = outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let counts: Vec<_> = records
        .iter()
        .map(|record| record["rtt_samples"].as_u64().unwrap())
        .collect();
    // They end at multiples of 3 s: the capture begins a second before one.
    assert_eq!(counts, [10, 30, 30, 25], "{}", outcome.stdout);
    let times: Vec<_> = records
        .iter()
        .map(|record| record["time"].as_str())
        .collect();
    let ends =
        ["21", "24", "27", "30"].map(|second| format!("2023-11-14T22:13:{second}.000000000Z"));
    assert_eq!(times, ends.each_ref().map(|end| Some(end.as_str())));
    let lengths: Vec<_> = records
        .iter()
        .map(|record| record["duration_ns"].as_u64())
        .collect();
    let last_ns = u64::from(echoes - 1) * PERIOD_NS + DELAY_NS - 7_000_000_000;
    let expected = [1_000_000_000, 3_000_000_000, 3_000_000_000, last_ns];
    assert_eq!(lengths, expected.map(Some));
    assert_eq!(records[0]["network"], "10.0.1.0/24");
}

#[test]
fn standard_input_is_a_capture_too() {
    let capture = Capture::new(3);
    let stdin = std::fs::File::open(&capture.path).unwrap();
    let output = command(&["rtt", "-"]).stdin(stdin).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.contains("stdin"))
            .count(),
        3
    );
}

/// A shell starts its background jobs with SIGINT ignored.
#[test]
fn a_job_in_the_background_that_waits_for_input_ends_at_sigint() {
    let program = env!("CARGO_BIN_EXE_fathom");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("trap '' INT; exec {program} rtt -v -")]);
    let mut running = Running::start(&mut shell);
    assert_eq!(running.line(), "reading -\n");
    running.signal(Signal::SIGINT);
    let (status, said) = running.end();
    assert_eq!(status, 0);
    assert!(said.starts_with("0 frames, 0 samples"), "{said}");
}

#[test]
fn events_are_records_of_their_own() {
    let capture = Capture::new(1);
    let outcome = outcome(&mut command(&[
        "rtt",
        capture.path(),
        "--events",
        "--method",
        "echo",
    ]));
    assert_eq!(outcome.status, 0);
    assert!(outcome.stdout.contains(" rtt  icmp"));
}

#[test]
fn a_pipe_is_written_once_somebody_reads_it() {
    let capture = Capture::new(1);
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let start = || {
        let mut running = Running::start(command(&["rtt", capture.path(), "--output"]).arg(&pipe));
        let told = "fathom: waiting for a reader of the pipe ";
        assert!(running.line().starts_with(told));
        running
    };
    let running = start();
    running.signal(Signal::SIGTERM);
    let (status, said) = running.end();
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("it is a pipe that nobody reads"), "{said}");
    let running = start();
    let read = std::fs::read_to_string(&pipe).unwrap();
    assert!(read.contains("echo  rtt 20.00 ms"), "{read}");
    assert_eq!(running.end().0, 0);
}
