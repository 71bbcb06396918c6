//! The programs against this kernel.
#![cfg(feature = "live")]

mod together;

use fathom_measure::rtt::{Settings, probe};

#[test]
fn the_kernel_takes_the_programs() {
    if !is_root() {
        println!("skipped: loading BPF programs needs root");
        return;
    }
    for settings in [
        Settings::live(),
        Settings {
            sample_interval: std::time::Duration::ZERO,
            slots: 128,
            has_events: true,
            has_near_side: true,
            ..Settings::live()
        },
    ] {
        if let Err(error) = probe(&settings) {
            panic!(
                "{error}: {}",
                std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default()
            );
        }
    }
}

#[expect(unsafe_code, reason = "std does not tell the user id")]
fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}
