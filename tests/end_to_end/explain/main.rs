//! What `fathom explain` says of faults that the lab makes, and of none. Its table of all faults is
//! made by `make bench`.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fathom_tests::explained::{Case, Fault, Told};

/// Each run has the machine for itself.
static TURN: Mutex<()> = Mutex::new(());

/// A run with a fault, or without.
fn run(faults: &[Fault], seed: u64) -> (Case, Told) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let case = Case {
        faults: faults.to_vec(),
        seed,
    };
    let directory = tempfile::tempdir().unwrap();
    let server = Path::new(env!("CARGO_BIN_EXE_explained"));
    let told = case.run(server, directory.path()).unwrap();
    (case, told)
}

/// Whatever was done, findings have statements that show their evidence.
fn assert_right(faults: &[Fault], seed: u64) {
    let (case, told) = run(faults, seed);
    assert!(case.is_right(&told), "{faults:?}: {:#}", told.explanation);
    for finding in told.explanation["findings"].as_array().unwrap() {
        let statement = finding["evidence"][0].as_str().unwrap();
        assert!(
            statement.starts_with("SELECT") || statement.starts_with("WITH"),
            "{statement}"
        );
    }
    assert_eq!(
        told.explanation["missing"],
        serde_json::json!([]),
        "{:#}",
        told.explanation
    );
}

#[fathom_lab::test]
fn nothing_is_told_where_nothing_is_wrong() {
    assert_right(&[], 11);
}

#[fathom_lab::test]
fn a_slow_server_is_told() {
    assert_right(&[Fault::SlowServer], 12);
}

#[fathom_lab::test]
fn a_change_of_route_is_told() {
    assert_right(&[Fault::RouteChange], 13);
}
