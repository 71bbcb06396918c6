//! Wrong usage, help, and what derives from the declarations.

use crate::run::{fathom, outcome};
use crate::{capture, run};

#[test]
fn wrong_usage_is_told_and_has_status_2() {
    for (arguments, told) in [
        (&["rtt"][..], "nothing to measure"),
        (&[], "Usage"),
        (&["rtt", "--nonsense"], "--nonsense"),
        (
            &["rtt", "a.pcap", "-i", "lo"],
            "cannot be measured together",
        ),
        (
            &["rtt", "a.pcap", "--duration", "5s"],
            "--duration is for live interfaces",
        ),
        (
            &["rtt", "a.pcap", "--method", "tsval"],
            "the methods are timestamp, sequence",
        ),
        (
            &["rtt", "a.pcap", "--net", "10.0.0.0/40"],
            "a prefix of 40 bits",
        ),
        (&["rtt", "a.pcap", "--max-memory", "1K"], "at least 64K"),
        (&["rtt", "a.pcap", "--flows", "0"], "0 is not in 64.."),
        (&["rtt", "a.pcap", "--interval", "5"], "100ms, 5s or 2m"),
        (&["response"], "nothing to measure"),
        (
            &["response", "a.pcap", "--xdp"],
            "--xdp is for live interfaces",
        ),
        (
            &["response", "a.pcap", "--epoch", "20s"],
            "it must be from 100ms to 10s",
        ),
        (
            &["response", "a.pcap", "--estimator", "best"],
            "the estimators are timestamps, acknowledged, split, modes, fixed",
        ),
        (
            &["response", "a.pcap", "--flows-sampled", "2"],
            "write it as in 1/8",
        ),
        #[cfg(feature = "live")]
        (
            &["hops"],
            "nothing to probe: name a host, or an interface with -i",
        ),
        #[cfg(feature = "live")]
        (
            &["hops", "-i", "lo", "--protocol", "132"],
            "the protocols that are probed are tcp, udp, icmp and icmpv6",
        ),
        #[cfg(feature = "live")]
        (&["hops"], "Try `fathom hops --help`."),
        #[cfg(feature = "live")]
        (
            &["hops", "-i", "lo", "--rate", "0"],
            "a number from 0.1 to 100",
        ),
        #[cfg(feature = "live")]
        (
            &["hops", "-i", "lo", "--rate", "1000"],
            "a number from 0.1 to 100",
        ),
        #[cfg(feature = "live")]
        (
            &["hops", "-i", "lo", "--max-hops", "33"],
            "33 is not in 1..=32",
        ),
    ] {
        let outcome = fathom(arguments);
        assert_eq!(outcome.status, 2, "{arguments:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(told),
            "{arguments:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn too_long_a_selection_is_wrong_usage() {
    let capture = capture::Capture::new(1);
    let ports: Vec<_> = (0..17).map(|port: u16| port.to_string()).collect();
    let outcome = fathom(&["rtt", capture.path(), "--port", &ports.join(",")]);
    assert_eq!(outcome.status, 2);
    assert!(
        outcome
            .stderr
            .contains("17 ports are selected, but at most 16 can be"),
        "{}",
        outcome.stderr
    );
}

#[test]
#[cfg(feature = "live")]
fn help_is_complete() {
    let outcome = fathom(&["rtt", "--help"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
#[cfg(feature = "live")]
fn help_of_hops_is_complete() {
    let outcome = fathom(&["hops", "--help"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn help_of_response_is_complete() {
    let outcome = fathom(&["response", "--help"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn help_of_traffic_is_complete() {
    let outcome = fathom(&["traffic", "--help"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn help_of_balance_is_complete() {
    let outcome = fathom(&["balance", "--help"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn the_balancer_has_a_configuration_file_of_its_own() {
    let outcome = fathom(&["balance", "--print-config"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lb.toml");
    std::fs::write(&path, outcome.stdout).unwrap();
    let path = path.to_str().unwrap();
    for command in [&["balance", "--check"][..], &["balance"]] {
        let idle = fathom(&[command, &["--config", path]].concat());
        assert_eq!(idle.status, 2, "{command:?}");
        for lacking in [
            "nothing to balance",
            "`interfaces`",
            "[[service]]",
            "[[server]]",
        ] {
            assert!(idle.stderr.contains(lacking), "{}", idle.stderr);
        }
    }
    let whole = "interfaces = [\"lo\"]\n[[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\nport = 80\n[[server]]\nname = \"a\"\naddress = \"10.0.0.1\"\n";
    std::fs::write(path, whole).unwrap();
    assert_eq!(fathom(&["balance", "--check", "--config", path]).status, 0);
    let wrong = fathom(&["balance", "--check", "--config", "Cargo.toml"]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("unknown field"), "{}", wrong.stderr);
}

#[test]
fn the_defaults_are_printed_as_a_configuration_file() {
    let outcome = fathom(&["rtt", "--print-config"]);
    assert_eq!(outcome.status, 0);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn manual_and_completions_are_generated() {
    let directory = tempfile::tempdir().unwrap();
    let made = fathom(&["man", directory.path().to_str().unwrap()]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    let page = std::fs::read_to_string(directory.path().join("fathom-rtt.1")).unwrap();
    assert!(page.contains("sample\\-interval"), "{page}");
    let script = outcome(&mut run::command(&["completions", "bash"]));
    assert!(script.stdout.contains("--sample-interval"));
}
