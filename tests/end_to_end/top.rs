//! `fathom top` on a real terminal, with real keys.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::path::Path;
use std::process::Command;

use fathom_tests::{Terminal, binary, capture_of_requests};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A store with one connection.
fn fill(directory: &Path) -> String {
    let capture = directory.join("requests.pcap");
    capture_of_requests(&capture).unwrap();
    let store = directory.join("store");
    let import = Command::new(binary().unwrap())
        .arg("import")
        .arg(&capture)
        .arg("--store")
        .arg(&store)
        .args(["--interval", "1s", "--host", "study"])
        .output()
        .unwrap();
    assert!(import.status.success(), "{import:?}");
    store.into_os_string().into_string().unwrap()
}

fn top(store: &str) -> String {
    format!("exec {} top --store {store}", binary().unwrap().display())
}

#[test]
fn keys_and_mouse_lead_through_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let terminal = Terminal::open(
        "keys",
        130,
        30,
        &format!(
            "({}); echo ended with $?; exec cat",
            top(&fill(directory.path()))
        ),
    )
    .unwrap();
    let flow = "tcp 10.0.0.1:40000 > 10.0.1.1:8080";
    terminal
        .shows(&[flow, "live", "last record", "busiest first", "20.", "24."])
        .unwrap();
    terminal.press(&["/", "nobody"]).unwrap();
    terminal
        .shows(&["/nobody", "nothing contains this text"])
        .unwrap();
    terminal.press(&["Escape"]).unwrap();
    terminal.shows(&[flow]).unwrap();
    terminal.press(&["Enter"]).unwrap();
    terminal
        .shows(&["round trip", "response", "bit/s", "no path"])
        .unwrap();
    terminal.press(&["?"]).unwrap();
    terminal
        .shows(&["keys", "back in time, and forward"])
        .unwrap();
    terminal.press(&["q"]).unwrap();
    terminal.press(&["Escape"]).unwrap();
    terminal.shows(&[flow]).unwrap();
    terminal.press(&["["]).unwrap();
    terminal.shows(&["back in time"]).unwrap();
    terminal.press(&["0"]).unwrap();
    terminal.press(&["Tab", "Tab"]).unwrap();
    terminal
        .shows(&["tcp 10.0.1.1:8080", "responses/s", "live"])
        .unwrap();
    let tabs = terminal.text().unwrap();
    let place = tabs.find(" 7 hosts").unwrap();
    terminal.click(place + 3, 0).unwrap();
    terminal.shows(&["study", "last record"]).unwrap();
    terminal.press(&["q"]).unwrap();
    terminal.shows(&["ended with 0"]).unwrap();
}

#[test]
fn the_terminal_is_given_back_at_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let command = format!(
        "sh -c '({}); echo ended with $?; exec cat'",
        top(&fill(directory.path()))
    );
    let terminal = Terminal::open("signal", 60, 20, &format!("exec {command}")).unwrap();
    terminal.shows(&["10.0.0.1:40000"]).unwrap();
    let shell = terminal.process().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let top = Pid::from_raw(children.trim().parse().unwrap());
    kill(top, Signal::SIGTERM).unwrap();
    let text = terminal.shows(&["ended with 0"]).unwrap();
    assert!(
        !text.contains("10.0.0.1"),
        "the screen is as it was: {text}"
    );
}

#[test]
fn without_a_terminal_a_page_is_printed_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = fill(directory.path());
    let run = |arguments: &[&str]| {
        let mut top = Command::new(binary().unwrap());
        top.args(["top", "--store"])
            .args(arguments)
            .output()
            .unwrap()
    };
    let page = run(&[&store, "--once", "--tab", "servers"]);
    let text = String::from_utf8(page.stdout).unwrap();
    assert!(
        page.status.success() && text.contains("tcp 10.0.1.1:8080"),
        "{text}"
    );
    for (arguments, told) in [
        (&[store.as_str()][..], "fathom top --once"),
        (&["/nonexistent", "--once"], "/nonexistent"),
    ] {
        let refused = run(arguments);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && stderr.contains(told),
            "{stderr}"
        );
    }
}
