//! Where things are that tests need besides.

use std::path::{Path, PathBuf};

/// Where `make setup` puts what it builds.
pub fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("fathom")
}

/// The root of the repository: of the clone that the tests run for, which is not the one where they
/// were built if both share a target directory.
///
/// # Panics
/// If neither cargo nor `scripts/test` runs the tests.
pub fn repository() -> PathBuf {
    let tests = std::env::var_os("CARGO_MANIFEST_DIR");
    let tests = tests.expect("cargo and scripts/test say where the tests are");
    Path::new(&tests).join("..")
}
