//! The programs that are attached, run by the kernel over the frames.

use std::mem::offset_of;

use fathom_measure::Scope;
use fathom_measure::bytes::bytes_of;
use fathom_measure::kernel::set_constants;
use fathom_measure::response::{Estimator, Settings};
use libbpf_rs::{MapCore, MapFlags};

use crate::native::{
    self, Epoch, HANDSHAKES, response_config, response_epoch, response_flow, response_handshake,
};
use crate::test_run::{TestRun, set_entries};

/// More than any test has.
const FLOWS: u32 = 65_536;

/// A program, loaded for one configuration.
pub(crate) struct Kernel {
    run: TestRun,
    estimator: u8,
}

impl Kernel {
    pub(crate) fn load(program: &'static str, config: &response_config) -> Self {
        let settings = Settings {
            estimator: Estimator::ALL[usize::from(config.estimator)],
            scope: Scope {
                flows: FLOWS,
                ..Scope::live()
            },
            ..Settings::live()
        };
        let run = TestRun::load(&[program], &settings, "response_events", |object| {
            set_entries(object, "response_handshakes", HANDSHAKES);
            let epoch = (".data.response_epoch_ticks", bytes_of(&config.epoch));
            set_constants(
                object,
                &[(".rodata.response_config", bytes_of(config)), epoch],
            )
        });
        Self {
            run,
            estimator: config.estimator,
        }
    }

    /// Runs the program over the packets, with nothing seen before.
    pub(crate) fn run(&mut self, packets: &[(u64, Vec<u8>)]) -> Vec<Epoch> {
        self.run.forget_flows();
        self.run.forget_counters();
        let places = self.run.map("response_handshakes");
        for place in 0..HANDSHAKES {
            places
                .update(
                    &place.to_ne_bytes(),
                    bytes_of(&response_handshake::default()),
                    MapFlags::ANY,
                )
                .unwrap();
        }
        for (now, frame) in packets {
            self.run.run(*now, frame).unwrap_or_else(|error| {
                panic!(
                    "the kernel does not run {} at {now} ns: {error}",
                    self.run.program()
                )
            });
        }
        let epochs = self.run.told();
        let mut counts = [0; native::COUNTERS];
        self.run.add_counters(&mut counts);
        assert_eq!(counts[native::EPOCHS], epochs.len() as u64);
        let epochs = epochs
            .iter()
            .map(|bytes| native::epoch_of(bytes, self.estimator));
        epochs.map(without_arrival).collect()
    }
}

/// Only the kernel knows that requests come in by this interface.
fn without_arrival((mut flow, gaps): Epoch) -> Epoch {
    let flags = offset_of!(response_epoch, flow) + offset_of!(response_flow, flags);
    let [low, high] = (native::RESPONSE_ARRIVES as u16).to_ne_bytes();
    flow[flags] &= !low;
    flow[flags + 1] &= !high;
    (flow, gaps)
}
