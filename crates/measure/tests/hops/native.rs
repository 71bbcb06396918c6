//! The C of user space, called as the programs call it.

#[rustfmt::skip]
#[path = "../../src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../src/hops/native/bindings.rs"]
pub(crate) mod bindings;

use bindings::{
    HOPS_BURST, HOPS_BYTES_MAX, HOPS_READ, fathom_hops_build, fathom_hops_is_answer,
    fathom_hops_on_packet, fathom_hops_on_reply, fathom_hops_read, hops_config, hops_flow,
    hops_header, hops_probe,
};

use crate::fixtures::{CEILING, Fixture, INTERVAL_MS, Step};
use crate::told;
use crate::wire::{ETHERNET_BYTES, Family, describe, time_exceeded};

pub(crate) const MS: u64 = 1_000_000;
/// When it begins.
pub(crate) const BEGIN_NS: u64 = 100_000 * MS;
/// FIN and RST.
const ENDS: u8 = 5;
const SYN: u8 = 2;
const TCP: u8 = 6;
/// The highest TTL of a probe.
const LOW: u8 = 32;

pub(crate) fn config() -> hops_config {
    hops_config {
        probes_per_second: 3000,
        probes_per_destination: 3000,
        interval: (INTERVAL_MS * 1000) as u32,
        first_ceiling: CEILING,
        first_ceiling_unsafe: CEILING,
        ..hops_config::default()
    }
}

/// A flow, and what has been sent in it.
struct Flow {
    state: hops_flow,
    is_open: bool,
    clue_due: u64,
    probes: Vec<(Vec<u8>, hops_probe)>,
    told: Vec<String>,
}

#[expect(unsafe_code, reason = "calls the shared C")]
fn read(frame: &[u8]) -> Option<hops_header> {
    let mut header = hops_header::default();
    let packet = &frame[ETHERNET_BYTES..];
    let ether_type = u16::from_be_bytes([frame[12], frame[13]]);
    // SAFETY: the packet is as long as said, the header there to be written.
    let reading = unsafe {
        let length = packet.len() as u32;
        fathom_hops_read(packet.as_ptr(), length, ether_type, &raw mut header)
    };
    (reading == HOPS_READ).then_some(header)
}

impl Flow {
    #[expect(unsafe_code, reason = "calls the shared C")]
    fn leave(&mut self, now: u64, frame: &[u8]) {
        let Some(header) = read(frame).filter(|header| header.ttl > LOW) else {
            return;
        };
        if !self.is_open {
            if header.protocol == TCP && header.tcp_flags & (SYN | ENDS) != 0 {
                return;
            }
            self.is_open = true;
            self.state.header = header;
            self.told.push("flow".to_owned());
        }
        self.close(&header);
        // SAFETY: both are valid.
        let may_be_cloned =
            unsafe { fathom_hops_on_packet(&raw mut self.state, &raw const header) } != 0;
        if may_be_cloned && self.state.is_closed == 0 {
            let quiet_ack = self.state.header.quiet_ack;
            self.take_turns(
                now,
                frame,
                hops_header {
                    quiet_ack,
                    ..header
                },
            );
        }
    }

    fn close(&mut self, header: &hops_header) {
        if header.protocol == TCP && header.tcp_flags & ENDS != 0 && self.state.is_closed == 0 {
            self.state.is_closed = 1;
            self.told.push("closed".to_owned());
        }
    }

    #[expect(unsafe_code, reason = "calls the shared C")]
    fn take_turns(&mut self, now: u64, frame: &[u8], header: hops_header) {
        let mut burst = HOPS_BURST;
        for ttl in 1..=CEILING {
            let turn = &mut self.state.turns[usize::from(ttl) - 1];
            if turn.due > now || burst == 0 {
                continue;
            }
            burst -= 1;
            turn.due = (turn.due + INTERVAL_MS * MS).max(now + INTERVAL_MS * MS);
            let number = self.probes.len() as u32 + 1;
            let mut bytes = [0; HOPS_BYTES_MAX as usize];
            // SAFETY: there is room for the longest headers.
            let length = unsafe {
                fathom_hops_build(&raw const header, ttl, number as u16, bytes.as_mut_ptr())
            };
            let probe = [&frame[..ETHERNET_BYTES], &bytes[..length as usize]].concat();
            self.told.push(describe(&probe, number));
            let noted = hops_probe {
                sent: now,
                number,
                seq: header.seq,
                ttl,
                ..hops_probe::default()
            };
            self.probes.push((probe, noted));
        }
    }

    #[expect(unsafe_code, reason = "calls the shared C")]
    fn arrive(&mut self, now: u64, frame: &[u8]) {
        let header = read(frame).unwrap();
        // SAFETY: both are valid.
        unsafe { fathom_hops_on_reply(&raw mut self.state, &raw const header) };
        if now >= self.clue_due {
            self.clue_due = now + 20 * MS;
            let told = told::clue(self.state.packets, self.state.retransmitted);
            self.told.push(told);
        }
    }

    /// An ICMP error: the probe that it answers, if it answers one.
    #[expect(unsafe_code, reason = "calls the shared C")]
    fn answer(&mut self, now: u64, family: Family, frame: &[u8]) {
        let is_ipv6 = family == Family::V6;
        let message = &frame[ETHERNET_BYTES + if is_ipv6 { 40 } else { 20 }..];
        // The kernel has room for so much, and reads what is not there as zero.
        let mut room = [0; 8 + HOPS_BYTES_MAX as usize];
        let length = message.len().min(room.len());
        room[..length].copy_from_slice(&message[..length]);
        let answered = self.probes.iter().find(|(_, probe)| {
            // SAFETY: the message is as long as said; all are valid.
            unsafe {
                let (own, flow) = (&raw const *probe, &raw const self.state);
                fathom_hops_is_answer(room.as_ptr(), length as u32, is_ipv6.into(), own, flow, now)
                    != 0
            }
        });
        let told = answered.map(|(_, probe)| told::answered(probe.ttl, now - probe.sent));
        self.told.push(told.unwrap_or_else(|| "passed".to_owned()));
    }
}

/// What comes of the steps.
pub(crate) fn run(fixture: &Fixture, family: Family) -> Vec<String> {
    let mut flow = Flow {
        state: hops_flow::default(),
        is_open: false,
        clue_due: 0,
        probes: Vec::new(),
        told: Vec::new(),
    };
    let mut last = Vec::new();
    for step in fixture.steps {
        let at = |ms: u64| BEGIN_NS + ms * MS;
        match *step {
            Step::Leaves(ms, packet) => {
                last = packet.frame(family, false);
                flow.leave(at(ms), &last);
            }
            Step::Arrives(ms, packet) => flow.arrive(at(ms), &packet.frame(family, true)),
            Step::Answers(ms, number) => {
                let answer = time_exceeded(family, &flow.probes[number as usize - 1].0);
                flow.answer(at(ms), family, &answer);
            }
            Step::Tells(ms) => flow.answer(at(ms), family, &time_exceeded(family, &last)),
            Step::Silent(ms) if flow.state.is_closed == 0 => {
                let header = flow.state.header;
                let frame = last.clone();
                flow.take_turns(at(ms), &frame, header);
            }
            // A note is the kernel's alone.
            Step::Noted(..) | Step::Silent(_) => {}
        }
    }
    flow.told
}
