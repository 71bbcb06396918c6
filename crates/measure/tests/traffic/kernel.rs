//! The programs that are attached, run by the kernel over the frames.

use fathom_measure::bytes::read_prefix;
use fathom_measure::traffic::Settings;
use fathom_measure::{Portion, Scope};

use crate::frame::Frame;
use crate::native::{Run, TRAFFIC_HALF_ARRIVES, traffic_flow};
use crate::test_run::TestRun;

/// More than any test has.
const FLOWS: u32 = 4096;

/// A program, loaded.
pub(crate) struct Kernel(TestRun);

impl Kernel {
    pub(crate) fn load(program: &'static str) -> Self {
        let settings = Settings {
            scope: Scope {
                flows: FLOWS,
                ..Scope::live()
            },
        };
        Self(TestRun::load(&[program], &settings, None, |_| Ok(())))
    }

    /// Runs the program over the frames, with nothing seen before.
    pub(crate) fn run(&self, frames: &[(u64, Frame)]) -> Run {
        self.0.forget_flows();
        self.0.forget_counters();
        for (now, frame) in frames {
            self.0.run(*now, &frame.data).unwrap_or_else(|error| {
                panic!(
                    "the kernel does not run {} at {now} ns: {error}",
                    self.0.program()
                )
            });
        }
        let mut run = Run::default();
        let visit = |key: &[u8], _, value: &[u8]| {
            let (mut flow, _) = read_prefix::<traffic_flow>(value).unwrap();
            // Only the kernel knows that packets come in by this interface.
            for half in &mut flow.half {
                half.flags &= !(TRAFFIC_HALF_ARRIVES as u8);
            }
            run.flows.insert(key.to_vec(), flow);
        };
        let flows = self.0.flows();
        flows.for_each(Portion::ALL, visit, || Ok(())).unwrap();
        self.0
            .add_counters(run.verdicts.iter_mut().chain(&mut run.counters));
        run
    }
}
