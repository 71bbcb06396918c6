//! The programs against this kernel.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod rings;
mod together;

use fathom_measure::kernel::{OfPackets, try_load};
use fathom_measure::{Scope, response, rtt, traffic};

#[test]
fn the_kernel_takes_the_programs() {
    if !is_root() {
        println!("skipped: loading BPF programs needs root");
        return;
    }
    let (rtt, response) = (rtt::Settings::live(), response::Settings::live());
    let traffic = traffic::Settings::live();
    let fullest = rtt::Settings {
        sample_interval: std::time::Duration::ZERO,
        slots: 128,
        has_events: true,
        has_near_side: true,
        ..rtt::Settings::live()
    };
    let batched = rtt::Settings {
        samples: rtt::Samples::InBatches,
        ..fullest.clone()
    };
    let sets: [&[&dyn OfPackets]; 8] = [
        &[&rtt],
        &[&batched],
        &[&response],
        &[&traffic],
        &[&fullest, &response],
        &[&traffic, &fullest],
        &[&response, &traffic, &fullest],
        &[&response, &traffic, &batched],
    ];
    for set in sets {
        if let Err(error) = try_load(set) {
            let names: Vec<_> = set.iter().map(|one| one.name()).collect();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            panic!("{names:?}: {error}: {}", source.unwrap_or_default());
        }
    }
}

#[test]
fn measurements_of_other_packets_do_not_share_programs() {
    let rtt = rtt::Settings::live();
    let response = response::Settings {
        scope: Scope {
            has_tunnels: !rtt.scope.has_tunnels,
            ..Scope::live()
        },
        ..response::Settings::live()
    };
    let error = try_load(&[&rtt, &response]).expect_err("they see other packets");
    assert!(error.to_string().contains("the same flows"), "{error}");
}

#[expect(unsafe_code, reason = "std does not tell the user id")]
fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}
