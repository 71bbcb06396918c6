//! What `scripts/test` makes of test binaries that fail, crash, skip, or end too early; scripts
//! stand in for them.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use fathom_tests::repository as root;

const PASSES: &str = "test calm ... ok\ntest result: ok. 1 passed; 0 failed";

fn run(command: &mut Command, input: &str) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.current_dir(root()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// Whether all is well with binaries, each of which prints something and then does something; and
/// the summary.
fn summary(binaries: &[(&str, &str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for (name, prints, does) in binaries {
        let path = folder.path().join(format!("{name}-0123abcd"));
        let script = format!("#!/bin/sh\ncat <<'END'\n{prints}\nEND\n{does}\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = folder.path().display();
        let line = format!("{folder}/{name}.rs\t{folder}\t{}\n", path.display());
        list.push_str(&line);
    }
    let ran = run(Command::new("scripts/side-by-side").arg("2"), &list);
    let log = String::from_utf8(ran.stdout).unwrap();
    let mut awk = Command::new("awk");
    awk.args([
        "-F",
        "\t",
        "-f",
        "scripts/summary.awk",
        "tests/may-skip",
        "-",
    ]);
    let told = run(&mut awk, &log);
    (
        ran.status.success(),
        String::from_utf8(told.stdout).unwrap(),
    )
}

#[test]
fn all_that_pass_are_counted() {
    let (is_well, told) = summary(&[
        ("one", PASSES, ""),
        ("two", PASSES, ""),
        ("three", PASSES, ""),
    ]);
    assert!(is_well);
    assert_eq!(told, "3 passed, 0 failed, 0 skipped\n");
}

#[test]
fn one_that_fails_or_crashes_among_others_is_not_well() {
    let fails = "test bad ... FAILED\ntest result: FAILED. 0 passed; 1 failed";
    let all = [
        ("one", PASSES, ""),
        ("two", fails, "exit 101"),
        ("three", PASSES, ""),
    ];
    let (is_well, told) = summary(&all);
    assert!(!is_well);
    assert_eq!(told, "2 passed, 1 failed, 0 skipped\n");
    for does in ["kill -SEGV $$", "kill -KILL $$", "exit 255"] {
        let all = [
            ("one", "test calm ... ok", does),
            ("two", PASSES, ""),
            ("three", PASSES, ""),
        ];
        let (is_well, told) = summary(&all);
        assert!(!is_well, "{does}");
        // The others ran to their end.
        let expected = "  ended without a result: one\n3 passed, 0 failed, 0 skipped\n";
        assert_eq!(told, expected, "{does}");
    }
}

#[test]
fn one_that_ends_before_its_result_is_told_whatever_its_status() {
    let (_, told) = summary(&[("one", "test calm ... ok", "exit 0")]);
    assert!(told.contains("ended without a result: one"), "{told}");
}

#[test]
fn what_is_skipped_is_told_with_its_reason() {
    let skips = "test away ... ok\nsuccesses:\n\n---- away stdout ----\nskipped: no root\n";
    let (_, told) = summary(&[("one", &format!("{skips}\ntest result: ok. 1 passed"), "")]);
    let expected = "  skipped, and not in tests/may-skip: one::away: no root\n";
    assert_eq!(told, format!("{expected}0 passed, 0 failed, 1 skipped\n"));
}

/// None of the heads that stand over the binaries' output may be lost, however long that is and
/// whoever ends first.
#[test]
fn outputs_do_not_mix() {
    let long = "a line of output\n".repeat(5_000) + PASSES;
    let all = ["one", "two", "three", "four"].map(|name| (name, long.as_str(), ""));
    let (is_well, told) = summary(&all);
    assert!(is_well);
    assert_eq!(told, "4 passed, 0 failed, 0 skipped\n");
}
