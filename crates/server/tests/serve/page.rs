//! The page in a browser.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_store::{Settings, Writer};

use crate::server::Server;
use crate::store::{empty, flow, hour, minute};

/// Runs a script of the browser against a server, and does something when it says that it is ready;
/// says why it is skipped.
fn in_browser(name: &str, server: &Server, mut when_ready: impl FnMut()) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let modules = web.join("node_modules/playwright-core");
    for (is_there, what) in [
        (has("node"), "node"),
        (has("chromium"), "chromium"),
        (modules.exists(), "playwright-core"),
    ] {
        if !is_there {
            println!("skipped: there is no {what}, `make setup` installs it");
            return;
        }
    }
    let mut script = Command::new("node")
        .arg(web.join("tests").join(format!("{name}.mjs")))
        .arg(&server.url)
        .arg(flow(1).community_id().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for line in BufReader::new(script.stdout.take().unwrap()).lines() {
        match line.unwrap().as_str() {
            "ready" => when_ready(),
            told => println!("{told}"),
        }
    }
    assert!(script.wait().unwrap().success(), "{name}.mjs");
}

#[test]
fn every_view_is_shown_by_keys_and_to_everybody() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    in_browser("views", &Server::start(store.path()), || {});
}

#[test]
fn an_empty_store_is_told() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    in_browser("empty", &Server::start(store.path()), || {});
}

/// The store grows while the page is open.
#[test]
fn new_records_are_shown_when_they_come() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let (mut writer, _) = Writer::open(store.path(), Settings::default()).unwrap();
    in_browser("live", &server, || minute(&mut writer));
    writer.finish().unwrap();
}
