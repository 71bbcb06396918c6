//! What `make setup` has put on this machine.

use std::path::{Path, PathBuf};

/// Where it puts what it builds.
pub fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("fathom")
}
