//! An ICMP error, with what it quotes and what is appended. The first byte says whether it is of
//! IPv6, and whether its checksum is made right.
#![no_main]

use fathom_measure::hops::{Extensions, Marks, Quoted};
use libfuzzer_sys::fuzz_target;

/// Where a structure starts whose offset is not stated, and its checksum.
const STRUCTURE: usize = 8 + 128;

fuzz_target!(|input: &[u8]| {
    let [choices, message @ ..] = input else {
        return;
    };
    if let Some(quoted) = Quoted::read(message) {
        assert_eq!(quoted.changes(&quoted, false), Marks::default());
    }
    let mut message = message.to_vec();
    if choices & 2 != 0 && message.len() >= STRUCTURE + 4 {
        let offset = if choices & 1 != 0 { 4 } else { 5 };
        message[offset] = 0;
        message[STRUCTURE] = 0x20;
        message[STRUCTURE + 2..STRUCTURE + 4].fill(0);
        let checksum = !sum(&message[STRUCTURE..]);
        message[STRUCTURE + 2..STRUCTURE + 4].copy_from_slice(&checksum.to_be_bytes());
    }
    let extensions = Extensions::read(&message, choices & 1 != 0);
    for text in [extensions.mpls, extensions.router_interface].into_iter().flatten() {
        assert!(!text.is_empty() && text.len() <= 8 * message.len());
    }
});

/// RFC 1071.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
