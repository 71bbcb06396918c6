//! Who is answered, and what a browser may do.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::server::{Server, command, request};
use crate::store::{HOUR, empty, hour};

fn refused(arguments: &[&str]) -> String {
    let store = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = command(store.path(), arguments).output().unwrap();
    assert!(!status.success(), "{arguments:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn nothing_inline_and_nothing_from_elsewhere_is_allowed() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    for path in [
        "/",
        "/page.js",
        "/page.css",
        "/icon.svg",
        "/api/v1/activity",
        "/none",
    ] {
        let head = server.get(path).head;
        for header in [
            "content-security-policy: default-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
    }
    let page = server.get("/").body;
    for word in ["http://", "https://", "<style", "onload=", "javascript:"] {
        assert!(!page.contains(word), "{page}");
    }
}

#[test]
fn paths_lead_nowhere_else() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    for path in [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page.js/..%2f..%2fetc/passwd",
        "/api/v1/lists/..%2f..%2fetc%2fpasswd",
        "/index.html%00.js",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.body.contains("root:"));
    }
}

/// A name of a page from elsewhere may be made to lead to this machine.
#[test]
fn pages_from_elsewhere_cannot_read_answers() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    let as_host = |host| server.get_as("/api/v1/activity", &[("Host", host)]).status;
    assert_eq!(as_host("evil.example:8080"), 421);
    assert_eq!(as_host("localhost.evil.example"), 421);
    assert_eq!(as_host("localhost:8080"), 200);
    // A form cannot send JSON, and what is no JSON is refused.
    let form = [("Content-Type", "text/plain")];
    let body = r#"{"statement":"SELECT 1"}"#;
    let sent = server.ask(&request(server.address, "POST", "/api/v1/sql", &form, body));
    assert_eq!(sent.status, 415);
}

#[test]
fn other_addresses_need_tls_and_a_token() {
    let words = refused(&["--listen", "0.0.0.0:0"]);
    assert!(words.contains("--certificate"), "{words}");
    let words = refused(&["--token", "short"]);
    assert!(words.contains("16 characters"), "{words}");
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| store.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let arguments = [
        "--listen",
        "0.0.0.0:0",
        "--certificate",
        files[0],
        "--key",
        files[1],
    ];
    let server = Server::start_with(store.path(), &arguments);
    let (_, token) = server.url.split_once("?token=").unwrap();
    let at = |path: &str| format!("https://127.0.0.1:{}{path}", server.address.port());
    let list = at(&format!("/api/v1/lists/flows?{HOUR}"));
    let curl = |arguments: &[&str]| -> String {
        let output = Command::new("curl")
            .args(["--silent", "--insecure", "--include", "--max-time", "60"])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(curl(&[&list]).starts_with("HTTP/1.1 401"));
    assert!(
        curl(&["-H", "Authorization: Bearer 0123456789abcdef", &list]).starts_with("HTTP/1.1 401")
    );
    assert!(curl(&["-H", &format!("Authorization: Bearer {token}"), &list]).contains("10.0.1.1"));
    assert!(curl(&["-b", &format!("fathom_token={token}"), &list]).contains("10.0.1.1"));
    let welcome = curl(&[&at(&format!("/?token={token}"))]).to_lowercase();
    assert!(welcome.starts_with("http/1.1 303"), "{welcome}");
    assert!(
        welcome.contains("httponly; samesite=strict; path=/; secure"),
        "{welcome}"
    );
}

#[test]
fn an_address_that_is_taken_is_told() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    let words = refused(&["--listen", &server.address.to_string()]);
    assert!(
        words.contains("cannot listen") && words.contains("--listen"),
        "{words}"
    );
}

#[test]
fn a_signal_ends_it_at_once() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    let statement = r#"{"statement":"SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"}"#;
    let headers = [("Content-Type", "application/json")];
    let busy = request(server.address, "POST", "/api/v1/sql", &headers, statement);
    let _waiting = server.send(&busy);
    let (status, took) = server.terminate();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
