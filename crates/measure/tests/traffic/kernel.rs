//! The programs that are attached, run by the kernel over the frames.

use fathom_measure::Scope;
use fathom_measure::bytes::read_prefix;
use fathom_measure::traffic::Settings;
use libbpf_rs::{MapCore, MapFlags};

use crate::frame::Frame;
use crate::native::{
    PACKET_VERDICT_COUNT, Run, TRAFFIC_COUNTER_COUNT, TRAFFIC_HALF_ARRIVES, traffic_flow,
};
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
        let counts = self.0.map("traffic_cpus");
        let cpus = libbpf_rs::num_possible_cpus().unwrap();
        let zero = vec![vec![0; counts.value_size() as usize]; cpus];
        counts
            .update_percpu(&0_u32.to_ne_bytes(), &zero, MapFlags::ANY)
            .unwrap();
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
        flows.for_each(visit, || Ok(())).unwrap();
        let values = counts.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        for value in values.unwrap().unwrap() {
            let words = value.as_chunks::<8>().0.iter();
            let words = words.take((PACKET_VERDICT_COUNT + TRAFFIC_COUNTER_COUNT) as usize);
            let sums = run.verdicts.iter_mut().chain(&mut run.counters);
            for (sum, word) in sums.zip(words) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        run
    }
}
