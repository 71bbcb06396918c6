//! What the C library does with memory that was freed.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "settings of the C library")
)]

/// For those who run for long. Records of an interval, and segments, come and go together, in
/// larger pieces, and on several threads. By default the C library keeps such pieces in between
/// others, and a part of the memory for each thread.
#[cfg(feature = "live")]
pub(crate) fn share_what_is_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes from which size on memory is mapped on its own, how much that is free is
    // kept, and how many parts it has.
    unsafe {
        // If one is refused, memory is as it is by default. Each column of a segment that is
        // written has a megabyte: to map them all takes a sixth of the agent's time.
        nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, 2 << 20);
        nix::libc::mallopt(nix::libc::M_TRIM_THRESHOLD, 16 << 20);
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Gives to the system what is free, also in between what is in use.
pub(crate) fn return_what_is_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: what is in use stays.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
