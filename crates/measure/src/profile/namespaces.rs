//! Network namespaces: which there are, and work done in them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::Error;

/// The number of our own, as the kernel tells it of sockets; 0: not known.
pub(super) fn own_number() -> u64 {
    std::fs::metadata("/proc/self/ns/net")
        .map(|metadata| metadata.ino())
        .unwrap_or_default()
}

/// Network namespaces that processes are in, but for our own, with their numbers.
pub(super) fn other_namespaces() -> Vec<(u64, File)> {
    let mut known = vec![own_number()];
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = process.path().join("ns/net");
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if known.contains(&metadata.ino()) {
            continue;
        }
        known.push(metadata.ino());
        found.extend(File::open(path).map(|namespace| (metadata.ino(), namespace)));
    }
    found
}

/// Runs `work` in a namespace, and comes back.
///
/// # Errors
/// [`Error::Kernel`] when the kernel lets nobody in, or not out again; those of `work`.
pub(super) fn within(namespace: &File, work: &dyn Fn() -> Result<(), Error>) -> Result<(), Error> {
    let failed = |error| {
        Error::kernel(
            "look through the sockets of another network namespace",
            error,
        )
    };
    let home = File::open("/proc/thread-self/ns/net").map_err(failed)?;
    enter(namespace).map_err(failed)?;
    let result = work();
    enter(&home).map_err(failed)?;
    result
}

#[expect(unsafe_code, reason = "std has no setns")]
fn enter(namespace: &File) -> std::io::Result<()> {
    // SAFETY: integers only.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
