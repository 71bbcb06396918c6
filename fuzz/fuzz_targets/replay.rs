//! A whole capture file, through the reader, the measurement, and the records in every format.
#![no_main]

use std::io::Cursor;

use fathom_measure::Replay;
use fathom_measure::Scope;
use fathom_measure::rtt::{Engine, Settings};
use fathom_record::format::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(mut replay) = Replay::from_reader("fuzz", Cursor::new(input.to_vec())) else {
        return;
    };
    let settings = Settings {
        has_events: true,
        slots: 16,
        scope: Scope {
            flows: 64,
            ..Scope::files()
        },
        ..Settings::files()
    };
    let mut engine = Engine::new(&settings, 1).expect("the selection is empty");
    let mut sinks = [Format::Text, Format::Json, Format::Csv].map(Format::sink);
    let mut line = Vec::new();
    let mut samples = 0;
    let mut print = |report: fathom_measure::rtt::Report| {
        samples += u64::from(matches!(report, fathom_measure::rtt::Report::Sample(..)));
        for sink in &mut sinks {
            line.clear();
            sink.write(&report, &mut line);
            assert!(line.ends_with(b"\n"));
        }
    };
    while replay.run(&mut engine, &mut print).is_none() {}
    assert_eq!(samples, engine.counts().get("samples"));
    assert!(samples <= engine.counts().get("frames") * 2);
});
