//! The native path: a capture file in memory, read as any file is.

use std::collections::BTreeMap;
use std::io::Cursor;

use fathom_capture::{LinkType, Writer};
use fathom_measure::rtt::{Engine, Settings};
use fathom_measure::{Ended, Replay};

use crate::frame::Frame;
use crate::outcome::{Outcome, Run};

/// When vectors start, in nanoseconds since 1970.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;
/// Of the hash tables, in both paths: the same requests then share the same buckets.
pub(crate) const SEED: u64 = 0x5eed;

/// Writes the frames to a file and measures it, in one thread and in two: both must give the same.
pub(crate) fn run(link: LinkType, settings: &Settings, frames: &[(u64, Frame)]) -> Run {
    let file = file(link, frames);
    let run = replay(settings, file.clone(), |replay, _| replay);
    assert_eq!(run, replay(settings, file, Replay::read_ahead));
    run
}

/// The frames as a capture file.
pub(crate) fn file(link: LinkType, frames: &[(u64, Frame)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), link, 0).unwrap();
    for (time_ns, frame) in frames {
        writer
            .write(START_NS + time_ns, frame.length, &frame.data)
            .unwrap();
    }
    writer.finish().unwrap()
}

fn replay(settings: &Settings, file: Vec<u8>, prepare: impl Fn(Replay, &Engine) -> Replay) -> Run {
    let mut engine = Engine::new(settings, SEED).unwrap();
    let mut replay = prepare(
        Replay::from_reader("vector", Cursor::new(file))
            .unwrap()
            .keep_copies(),
        &engine,
    );
    let mut run = Run::default();
    let ended = loop {
        let mut take = |report| run.outcomes.push(Outcome::from_report(&report, START_NS));
        if let Some(ended) = replay.run(&mut engine, &mut take) {
            break ended;
        }
    };
    assert!(matches!(ended, Ended::Whole), "{ended:?}");
    engine.finish(replay.interfaces(), &mut |report| {
        run.outcomes.push(Outcome::from_report(&report, START_NS));
    });
    run.sort_end();
    let counts = engine.counts();
    run.counts = counts
        .named
        .into_iter()
        .chain(counts.measured)
        .collect::<BTreeMap<_, _>>();
    run
}
