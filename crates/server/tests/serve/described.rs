//! The description of the interface, held against the server by schemathesis.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::server::Server;
use crate::store::hour;

/// Where `make setup` puts it.
fn schemathesis() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let program = cache.join("fathom/python/bin/schemathesis");
    program.is_file().then_some(program)
}

#[test]
fn the_server_does_what_is_described() {
    let Some(schemathesis) = schemathesis() else {
        println!("skipped: there is no schemathesis, `make setup` installs it");
        return;
    };
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let output = Command::new(schemathesis)
        .arg("run")
        .arg(format!("{}api/v1/openapi.json", server.url))
        // No description says that `from` is before `to`, or what is SQL.
        .args([
            "--checks",
            "all",
            "--exclude-checks",
            "positive_data_acceptance",
        ])
        .args(["--max-examples", "10", "--seed", "1"])
        // Other tests run beside it.
        .args(["--max-response-time", "60"])
        .args([
            "--phases",
            "examples,coverage,fuzzing",
            "--request-timeout",
            "60",
        ])
        .current_dir(store.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    println!(
        "{}",
        told.lines().rev().take(12).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn everything_that_is_answered_is_described() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let described = server.get("/api/v1/openapi.json").json();
    let paths = described["paths"].as_object().unwrap();
    let names: Vec<_> = paths.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "/api/v1/activity",
            "/api/v1/explain",
            "/api/v1/flow",
            "/api/v1/heat",
            "/api/v1/lists/{list}",
            "/api/v1/shares",
            "/api/v1/sql"
        ]
    );
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().values() {
            let answers = &method["responses"];
            assert!(answers["200"]["content"].is_object(), "{path}");
            assert_eq!(
                answers["default"]["content"]["application/json"]["schema"]["$ref"],
                Value::from("#/components/schemas/Problem")
            );
        }
    }
}
