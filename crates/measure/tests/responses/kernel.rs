//! The programs that are attached, run by the kernel over the frames.

use std::mem::offset_of;
use std::sync::LazyLock;

use fathom_measure::bytes::bytes_of;
use fathom_measure::kernel::{set_constants, size_flow_table};
use libbpf_rs::{MapCore, MapFlags};

use crate::compile::compile;
use crate::native::{
    self, Epoch, HANDSHAKES, response_config, response_epoch, response_flow, response_handshake,
};
use crate::test_run::{TestRun, set_entries};

/// More than any test has.
const FLOWS: u32 = 65_536;

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| compile("responses/responses.bpf.c"));

/// A program, loaded for one configuration.
pub(crate) struct Kernel {
    run: TestRun,
    estimator: u8,
}

impl Kernel {
    pub(crate) fn load(program: &'static str, config: &response_config) -> Self {
        let value_size = size_of::<response_flow>() + native::gaps_size(config.estimator);
        let clock = ".data.test_now";
        let run = TestRun::load(&OBJECT, &[program], clock, "response_events", |object| {
            size_flow_table(object, FLOWS, "response_flows", value_size)?;
            set_entries(object, "response_handshakes", HANDSHAKES);
            set_constants(object, &[(".rodata.response_config", bytes_of(config))])
        });
        Self {
            run,
            estimator: config.estimator,
        }
    }

    /// Runs the program over the packets, with nothing seen before.
    pub(crate) fn run(&mut self, packets: &[(u64, Vec<u8>)]) -> Vec<Epoch> {
        self.run.forget_flows("response_flows");
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
