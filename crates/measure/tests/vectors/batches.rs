//! Samples that come in batches: the same as those that come one by one.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_measure::rtt::Samples::InBatches;
use fathom_measure::rtt::Settings;
use fathom_record::FlowKey;

use crate::kernel::{Kernel, Kernels};
use crate::outcome::{Outcome, Run};
use crate::scenario::{self, Scenario};
use crate::{check_all, compile, native, programs};

/// A flow in the direction that was measured, and how long it took.
type Samples = Vec<(FlowKey, u64)>;

fn samples_of(run: &Run) -> Samples {
    let mut samples: Samples = run
        .outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Sample(sample) => Some((sample.flow, sample.rtt_ns)),
            Outcome::Flow(_) => None,
        })
        .collect();
    samples.sort_unstable();
    samples
}

/// What is wrong, and how many batches were full.
fn compare(kernels: &mut Kernels, scenario: &Scenario) -> (String, usize) {
    let settings = Settings {
        samples: InBatches,
        ..scenario.settings.clone()
    };
    let expected = samples_of(&native::run(scenario.link, &settings, &scenario.frames));
    let (mut told, mut full) = (String::new(), 0);
    for program in programs(scenario) {
        let kernel = kernels.with(program, &settings, &scenario.methods);
        let (mut samples, batches) = kernel.run_in_batches(&scenario.frames);
        samples.sort_unstable();
        full += batches;
        if samples != expected {
            let _ = writeln!(told, " {program}: {samples:?}\n natively: {expected:?}");
        }
    }
    (told, full)
}

#[test]
fn batches_have_the_same_samples() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernels = Kernels::default();
    check_all(|scenario| compare(&mut kernels, scenario).0);
}

/// A connection that begins at a time, and in which both ends send by turns so many times.
fn connection(begin_ms: u32, turns: u32) -> String {
    let first = begin_ms * 1000;
    let mut text = format!(
        "{} ms client > server tcp syn seq {first} ts {first} 0\n\
         {} ms server > client tcp syn seq {first} ack {} ts {first} {first}\n\
         {} ms client > server tcp seq {} ack {} ts {} {first}\n",
        begin_ms,
        begin_ms + 1,
        first + 1,
        begin_ms + 2,
        first + 1,
        first + 1,
        first + 1,
    );
    for turn in 0..turns {
        let (now, sent) = (begin_ms + 10 + turn * 10, first + 1 + turn * 10);
        let stamp = first + 2 + turn;
        let _ = writeln!(
            text,
            "{now} ms client > server tcp seq {sent} ack {sent} len 10 ts {stamp} {}\n\
             {} ms server > client tcp seq {sent} ack {} len 10 ts {stamp} {stamp}",
            stamp - 1,
            now + 3,
            sent + 10,
        );
    }
    text
}

/// Two flows on the same ends, one after the other, with more samples than a batch has.
#[test]
fn full_batches_and_those_of_flows_that_end_are_sent() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut text = String::from("set sample-interval 0 ms\nset per-rtt 0\n");
    for flow in 0..2 {
        text.push_str(&connection(flow * 1_000, 40));
    }
    let scenario = scenario::read(&text).unwrap();
    let (told, full) = compare(&mut Kernels::default(), &scenario);
    assert!(told.is_empty(), "{told}");
    assert!(
        full >= 8,
        "{full}: of two flows, two directions, 40 samples each"
    );
}

/// It is as if the settings had said so before.
#[test]
fn flows_pause_longer_when_they_are_told_to() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let text = format!("set per-rtt 0\n{}", connection(0, 40));
    let scenario = scenario::read(&text).unwrap();
    let settings = |pause| Settings {
        samples: InBatches,
        sample_interval: pause,
        ..scenario.settings.clone()
    };
    let pause = Duration::from_millis(100);
    let expected = |pause| {
        samples_of(&native::run(
            scenario.link,
            &settings(pause),
            &scenario.frames,
        ))
    };
    for program in programs(&scenario) {
        let mut kernel = Kernel::load(&[program], &settings(Duration::ZERO), &scenario.methods);
        for told in [Duration::ZERO, pause, Duration::ZERO] {
            kernel.pause_for(told);
            let (mut samples, _) = kernel.run_in_batches(&scenario.frames);
            samples.sort_unstable();
            assert_eq!(samples, expected(told), "{program}, {told:?}");
        }
    }
    assert!(expected(pause).len() * 2 < expected(Duration::ZERO).len());
}
