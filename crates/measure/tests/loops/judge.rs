//! What the measurement of a capture file says of loops, beside the truth.

use std::io::Cursor;

use fathom_capture::{LinkType, Writer};
use fathom_measure::response::{Confidence, Engine, Estimator, ResponseEpoch, Settings};
use fathom_measure::{Ended, Replay};

use crate::simulation::Trace;

/// Longer waits are those of retransmission timeouts, which are counted and not estimated.
const TIMEOUT_NS: u64 = 180_000_000;

/// From when to when, in ns since 1970, the client at this port waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) port: u16,
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    /// When the capture had the request that the answer triggered: a gap is part of the epoch in
    /// which it ends.
    pub(crate) told_ns: u64,
}

/// An epoch, and what the client waited in it on average, in ns.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) epoch: ResponseEpoch,
    pub(crate) truth_ns: f64,
}

impl Judged {
    /// How far an estimate that is sure is from the truth, relative to it.
    pub(crate) fn sure_error(&self) -> Option<f64> {
        (self.epoch.confidence == Confidence::High).then_some(self.error()?)
    }

    pub(crate) fn error(&self) -> Option<f64> {
        Some((self.epoch.latency_ns?.0 as f64 - self.truth_ns) / self.truth_ns)
    }
}

/// The epochs of a simulated loop that tell of a wait.
pub(crate) fn judge(trace: &Trace, estimator: Estimator) -> Vec<Judged> {
    let settings = Settings {
        estimator,
        ..Settings::files()
    };
    judge_replay(replay(trace), &settings, &trace.waits)
}

/// How many packets of a simulated loop are counted under this name.
pub(crate) fn count(trace: &Trace, name: &str) -> u64 {
    let (engine, _) = measure(replay(trace), &Settings::files());
    engine.counts().get(name)
}

fn replay(trace: &Trace) -> Replay {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 65_535).unwrap();
    for (time, frame) in &trace.packets {
        writer.write(*time, frame.len() as u32, frame).unwrap();
    }
    let capture = Cursor::new(writer.finish().unwrap());
    Replay::from_reader("loop", capture).unwrap()
}

/// The epochs of a capture that tell of a wait.
pub(crate) fn judge_replay(replay: Replay, settings: &Settings, waits: &[Wait]) -> Vec<Judged> {
    let (_, epochs) = measure(replay, settings);
    let judged = epochs.into_iter().filter_map(|epoch| {
        let end = epoch.time.0;
        let own = waits.iter().filter(|wait| {
            let time = end - epoch.duration_ns.0..end;
            wait.port == epoch.flow.source_port && time.contains(&wait.told_ns)
        });
        let waits: Vec<u64> = own
            .map(|wait| wait.ended_ns - wait.began_ns)
            .filter(|wait| *wait < TIMEOUT_NS)
            .collect();
        (!waits.is_empty()).then(|| Judged {
            epoch,
            truth_ns: waits.iter().sum::<u64>() as f64 / waits.len() as f64,
        })
    });
    judged.collect()
}

/// All that is told of a capture.
fn measure(mut replay: Replay, settings: &Settings) -> (Engine, Vec<ResponseEpoch>) {
    let mut engine = Engine::new(settings, 7, false).unwrap();
    let mut epochs = Vec::new();
    loop {
        match replay.run(&mut engine, &mut |epoch| epochs.push(epoch)) {
            None => {}
            Some(Ended::Whole) => break,
            Some(Ended::Broken(error)) => panic!("{error}"),
        }
    }
    engine.finish(replay.interfaces(), &mut |epoch| epochs.push(epoch));
    (engine, epochs)
}
