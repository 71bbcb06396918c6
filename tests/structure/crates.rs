//! Crates may depend on each other only as ARCHITECTURE.md draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Who may use whom; dependencies of tests and builds count too.
const ALLOWED: &[(&str, &[&str])] = &[
    ("fathom-record", &[]),
    ("fathom-capture", &[]),
    ("fathom-measure", &["fathom-record", "fathom-capture"]),
    (
        "fathom-balance",
        &["fathom-measure", "fathom-record", "fathom-lab"],
    ),
    ("fathom-ipfix", &["fathom-record"]),
    ("fathom-store", &["fathom-record"]),
    ("fathom-terminal", &["fathom-record"]),
    (
        "fathom-server",
        &[
            "fathom-store",
            "fathom-ipfix",
            "fathom-terminal",
            "fathom-record",
        ],
    ),
    ("fathom-bindings", &[]),
    (
        "fathom",
        &[
            "fathom-measure",
            "fathom-balance",
            "fathom-ipfix",
            "fathom-store",
            "fathom-terminal",
            "fathom-record",
            "fathom-capture",
        ],
    ),
    ("fathom-lab", &["fathom-capture", "fathom-real-time"]),
    ("fathom-real-time", &[]),
    (
        "fathom-tests",
        &[
            "fathom-lab",
            "fathom-ipfix",
            "fathom-record",
            "fathom-capture",
        ],
    ),
    (
        "fathom-benches",
        &[
            "fathom-balance",
            "fathom-measure",
            "fathom-lab",
            "fathom-ipfix",
            "fathom-store",
            "fathom-record",
            "fathom-capture",
        ],
    ),
];

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("it lists packages");
    let names: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let may = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the drawing"));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"]
                .as_str()
                .expect("a dependency has a name");
            assert!(
                !names.contains(used) || may.contains(&used),
                "{name} depends on {used}, which ARCHITECTURE.md does not draw"
            );
        }
    }
}
