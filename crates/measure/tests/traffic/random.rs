//! Packets that chance made, of two connections that are lost, repeated and overtaken.

use fathom_capture::LinkType;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::frame::{self, Frame};
use crate::hosts::Hosts;
use crate::words::Words;

/// A packet: pause before it in microseconds, ends, and what it carries.
fn packet() -> impl Strategy<Value = (u64, String)> {
    let pause = prop_oneof![0..500_u64, 2_000..60_000_u64];
    let ends = prop_oneof![
        4 => Just("client > server"),
        2 => Just("server > client"),
        1 => Just("client6 > server6"),
    ];
    // Close to where numbers wrap.
    let number = |most: u32| (0..most).prop_map(|number| (number * 10).wrapping_sub(100));
    let flags =
        prop_oneof![12 => Just(""), 1 => Just("syn "), 1 => Just("fin "), 1 => Just("rst ")];
    let acknowledgement = prop::option::weighted(0.9, number(30));
    let window = prop_oneof![6 => Just(1000), 1 => Just(0)];
    let length = prop_oneof![3 => Just(10), 1 => 0..60_u32];
    let timestamps = prop::option::weighted(0.6, 0..6_u32);
    let ttl = prop_oneof![9 => Just(64), 1 => Just(5)];
    let fields = (
        number(30),
        acknowledgement,
        window,
        length,
        timestamps,
        flags,
        ttl,
    );
    let tcp = fields.prop_map(|(seq, ack, window, length, timestamps, flags, ttl)| {
        let optional = |text: Option<String>| text.unwrap_or_default();
        format!(
            "ttl {ttl} tcp {flags}seq {seq} win {window} len {length}{}{}",
            optional(ack.map(|ack| format!(" ack {ack}"))),
            optional(timestamps.map(|value| format!(" ts {value} 1"))),
        )
    });
    let carried = prop_oneof![
        20 => tcp,
        1 => Just("udp 40010203".to_owned()),
        1 => Just("udp 01010203".to_owned()),
        1 => Just("protocol 132 0000880001020304".to_owned()),
    ];
    (pause, ends, carried).prop_map(|(pause, ends, carried)| (pause, format!("{ends} {carried}")))
}

/// Frames, and when they pass.
pub(crate) fn frames() -> impl Strategy<Value = Vec<(u64, Frame)>> {
    vec(packet(), 1..120).prop_map(|packets| {
        let hosts = Hosts::default();
        let mut now = 1_000_000_000;
        let frames = packets.into_iter().map(|(pause, line)| {
            now += pause * 1000;
            let frame = frame::read(&mut Words::new(&line), &hosts, LinkType::ETHERNET);
            (
                now,
                frame.unwrap_or_else(|problem| panic!("{line}: {problem}")),
            )
        });
        frames.collect()
    })
}
