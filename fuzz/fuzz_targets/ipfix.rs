//! What exporters send: as datagrams, and the same bytes as a stream.
#![no_main]

use fathom_ipfix::{Collected, Collector, Frames, Limits, Session};
use libfuzzer_sys::fuzz_target;

/// Asks for everything a record has.
fn read(record: Collected<'_>) {
    let fields = record.fields().filter(|field| !field.name.is_empty());
    assert_eq!(fields.count(), record.record.template.fields.len());
}

fuzz_target!(|input: &[u8]| {
    let limits = Limits {
        domains: 4,
        fields: 1_000,
        names: 16,
        ..Limits::default()
    };
    let session = |connection| Session {
        exporter: "192.0.2.1:4739".parse().expect("it is an address"),
        connection,
    };
    let mut collector = Collector::new(limits);
    // The length in each message says where the next datagram begins; what is no message is one all
    // the same.
    let _ = collector.messages(session(0), input, &mut read);

    let mut frames = Frames::default();
    for bytes in input.chunks(97) {
        frames.push(bytes);
        while let Ok(Some(message)) = frames.message() {
            let _ = collector.messages(session(1), message, &mut read);
        }
    }
    collector.forget(session(1), frames.is_within_message());
});
