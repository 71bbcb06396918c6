//! One frame on any link, through the parser and the measurement.
//!
//! The first byte picks the link, the second says how many bytes the frame had beyond those
//! captured (in units of 64), the third the settings.
#![no_main]

use std::io::Cursor;
use std::time::Duration;

use fathom_capture::{LinkType, Writer};
use fathom_measure::Scope;
use fathom_measure::rtt::{Engine, Settings};
use fathom_measure::{Ended, Replay};
use libfuzzer_sys::fuzz_target;

const LINKS: [LinkType; 12] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_WITH_DIRECTION,
    LinkType::PPP_ETHERNET,
    LinkType::C_HDLC,
    LinkType::IEEE802_11,
];

/// The start of the capture, in nanoseconds since 1970, and the time between its two packets.
const START_NS: u64 = 1_700_000_000_000_000_000;
const GAP_NS: u64 = 5_000_000;

fuzz_target!(|input: &[u8]| {
    let [link, beyond, choices, data @ ..] = input else {
        return;
    };
    let link = LINKS[usize::from(*link) % LINKS.len()];
    let length = data.len() as u32 + u32::from(*beyond) * 64;
    let mut writer = Writer::new(Vec::new(), link, 0).expect("memory takes everything");
    // Twice, so that the state that the first leaves is met.
    for time_ns in [START_NS, START_NS + GAP_NS] {
        writer
            .write(time_ns, length, data)
            .expect("memory takes everything");
    }
    let file = writer.finish().expect("memory takes everything");

    let settings = Settings {
        has_events: choices & 2 == 0,
        sample_interval: Duration::from_millis(u64::from(choices >> 2 & 1)),
        slots: 1 << (choices >> 3 & 3),
        scope: Scope {
            has_tunnels: choices & 1 == 0,
            flows: 16,
            ..Scope::files()
        },
        ..Settings::files()
    };
    let mut engine = Engine::new(&settings, 1).expect("the selection is empty");
    let mut replay = Replay::from_reader("fuzz", Cursor::new(file)).expect("the file has a header");
    let ended = loop {
        if let Some(ended) = replay.run(&mut engine, &mut |_| {}) {
            break ended;
        }
    };
    assert!(matches!(ended, Ended::Whole), "{ended:?}");
    assert_eq!(engine.counts().get("frames"), 2);
    assert!(engine.counts().get("samples") <= 4);
});
