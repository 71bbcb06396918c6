//! `fathom top` on a real terminal, with real keys.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use fathom_lab::wait_until;
use fathom_tests::{binary, capture_of_requests};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of tmux, of its own server.
struct Terminal {
    server: String,
}

impl Terminal {
    /// Runs a command in it, and keeps what it showed.
    fn open(name: &str, columns: u16, command: &str) -> Self {
        let server = format!("fathom-{name}-{}", std::process::id());
        let terminal = Self { server };
        let size = columns.to_string();
        // It remains when the command has ended.
        let set = [
            "-f",
            "/dev/null",
            "set-option",
            "-g",
            "remain-on-exit",
            "on",
            ";",
        ];
        let session = ["new-session", "-d", "-x", &size, "-y", "30", command];
        let opened =
            terminal.tmux(&[&["-f", "/dev/null"], &session[..], &[";"], &set[2..6]].concat());
        assert!(opened.status.success(), "{opened:?}");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.server]).args(arguments);
        // Another tmux around this test is none of its business.
        tmux.env_remove("TMUX").output().unwrap()
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// Clicks on a cell, as a terminal tells it.
    fn click(&self, column: usize, row: usize) {
        let press = format!("\x1b[<0;{};{}M", column + 1, row + 1);
        self.press(&["-l", &press]);
    }

    fn text(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until all this is shown.
    fn shows(&self, wanted: &[&str]) -> String {
        let mut text = String::new();
        let shown = wait_until(PATIENCE, "the terminal to show it", || {
            text = self.text();
            wanted.iter().all(|part| text.contains(part))
        });
        assert!(shown.is_ok(), "{wanted:?} not in:\n{text}");
        text
    }

    /// The process that runs in it.
    fn process(&self) -> Pid {
        let output = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        Pid::from_raw(
            String::from_utf8(output.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap(),
        )
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

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
    let terminal = Terminal::open("keys", 130, &top(&fill(directory.path())));
    let flow = "tcp 10.0.0.1:40000 > 10.0.1.1:8080";
    terminal.shows(&[flow, "live", "last record", "busiest first", "20.", "25."]);
    terminal.press(&["/", "nobody"]);
    terminal.shows(&["/nobody", "nothing contains this text"]);
    terminal.press(&["Escape"]);
    terminal.shows(&[flow]);
    terminal.press(&["Enter"]);
    terminal.shows(&["round trip", "response", "bit/s", "no path"]);
    terminal.press(&["?"]);
    terminal.shows(&["keys", "back in time, and forward"]);
    terminal.press(&["q"]);
    terminal.press(&["Escape"]);
    terminal.shows(&[flow]);
    terminal.press(&["["]);
    terminal.shows(&["back in time"]);
    terminal.press(&["0"]);
    terminal.press(&["Tab", "Tab"]);
    terminal.shows(&["tcp 10.0.1.1:8080", "responses/s", "live"]);
    let tabs = terminal.text();
    let place = tabs.find(" 7 hosts").unwrap();
    terminal.click(place + 3, 0);
    terminal.shows(&["study", "last record"]);
    terminal.press(&["q"]);
    terminal.shows(&["Pane is dead"]);
    assert!(!terminal.text().contains("status 1"), "{}", terminal.text());
}

#[test]
fn the_terminal_is_given_back_at_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let command = format!(
        "sh -c '({}); echo ended with $?'",
        top(&fill(directory.path()))
    );
    let terminal = Terminal::open("signal", 60, &format!("exec {command}"));
    terminal.shows(&["10.0.0.1:40000"]);
    let shell = terminal.process();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let top = Pid::from_raw(children.trim().parse().unwrap());
    kill(top, Signal::SIGTERM).unwrap();
    let text = terminal.shows(&["ended with 0"]);
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
