//! Packets and times in, probes and events out: what the programs of `hops` do, held against what
//! is written down here, in both families. The same packets go through the C of user space and
//! through the programs that the kernel runs, whose clones are real: they leave by a device, are
//! edited at its hook, and are caught at the other end.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../common/compile.rs"]
mod compile;
mod device;
mod fixtures;
mod kernel;
mod native;
mod told;
mod wire;

use fixtures::{FIXTURES, Fixture};
use wire::Family;

/// Both families of every fixture, by `run`.
fn check_all(mut run: impl FnMut(&Fixture, Family) -> Vec<String>) {
    for fixture in FIXTURES {
        for family in [Family::V4, Family::V6] {
            let own = run(fixture, family);
            let expected = fixture.expected.iter().map(ToString::to_string);
            let expected: Vec<_> = expected.collect();
            assert_eq!(own, expected, "{}, {family:?}", fixture.says);
        }
    }
}

#[test]
fn the_c_of_user_space_sends_what_is_written_down() {
    check_all(native::run);
}

#[test]
fn the_programs_in_the_kernel_send_what_is_written_down() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    // In a thread of its own, which has a network namespace of its own.
    std::thread::spawn(|| {
        let device = device::Device::new();
        check_all(|fixture, family| kernel::run(&device, fixture, family));
    })
    .join()
    .unwrap();
}
