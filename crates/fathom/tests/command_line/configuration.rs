//! Options from the environment and from a file.

use crate::capture::Capture;
use crate::run::{command, fathom, outcome};

#[test]
fn the_command_line_comes_before_the_environment_before_the_file() {
    let capture = Capture::new(1);
    let file = capture.beside("fathom.toml", "[rtt]\nformat = \"json\"\n");
    let arguments = ["rtt", capture.path()];
    let first = |command: &mut std::process::Command| outcome(command).stdout.chars().next();

    assert_eq!(
        first(&mut command(&arguments)),
        Some('2'),
        "text, by default"
    );
    assert_eq!(
        first(command(&arguments).env("FATHOM_CONFIG", &file)),
        Some('{')
    );
    assert_eq!(
        first(command(&arguments).args(["--config", &file])),
        Some('{')
    );
    let mut both = command(&arguments);
    both.args(["--config", &file])
        .env("FATHOM_RTT_FORMAT", "csv");
    assert_eq!(first(&mut both), Some('k'));
    assert_eq!(first(both.args(["--format", "text"])), Some('2'));
}

#[test]
fn a_variable_is_of_one_command() {
    let capture = Capture::new(1);
    let arguments = ["rtt", capture.path()];
    // `dot` is a format of `fathom hops`, and `--timeout` of `fathom response` no duration of
    // `fathom hops`.
    let mut others = command(&arguments);
    others.envs([
        ("FATHOM_FORMAT", "dot"),
        ("FATHOM_HOPS_FORMAT", "dot"),
        ("FATHOM_HOPS_TIMEOUT", "1 parsec"),
    ]);
    let read = outcome(&mut others);
    assert_eq!((read.status, read.stderr.contains("error")), (0, false));
    let wrong = outcome(command(&arguments).env("FATHOM_RTT_FORMAT", "dot"));
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("invalid value 'dot'"));
    let misspelt = outcome(command(&arguments).env("FATHOM_RTT_FROMAT", "json"));
    assert_eq!(misspelt.status, 2, "{}", misspelt.stderr);
    assert!(misspelt.stderr.contains("FATHOM_RTT_FROMAT"));
}

#[test]
fn files_that_are_typed_come_before_interfaces_that_are_configured() {
    let capture = Capture::new(1);
    let mut command = command(&["rtt", capture.path()]);
    let outcome = outcome(
        command
            .env("FATHOM_RTT_INTERFACE", "nowhere")
            .env("FATHOM_RTT_XDP", "yes"),
    );
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("echo"));
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_name() {
    let capture = Capture::new(1);
    for (content, told) in [
        (
            "[rtt]\nsample_interval = \"1s\"",
            "[rtt] has no key `sample_interval`: there may be interface,",
        ),
        (
            "[rtt]\nsample-interval = \"1 parsec\"",
            "invalid value '1 parsec' for '--sample-interval <TIME>'",
        ),
        (
            "[steps]\n",
            "there is no table [steps]: there may be [rtt], ",
        ),
    ] {
        let file = capture.beside("wrong.toml", content);
        let outcome = fathom(&["rtt", capture.path(), "--config", &file]);
        assert_eq!(outcome.status, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("wrong.toml"), "{}", outcome.stderr);
    }
    let missing = fathom(&["rtt", capture.path(), "--config", "/nowhere/fathom.toml"]);
    assert_eq!(missing.status, 1);
    assert!(
        missing
            .stderr
            .contains("cannot read the configuration file /nowhere/fathom.toml")
    );
}
