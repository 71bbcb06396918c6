//! One DNS message through the reader that the kernel's programs share with user space.
#![no_main]

use fathom_measure as _;
use libfuzzer_sys::fuzz_target;

/// `DNS_BYTES_MAX` of dns.h: what the programs hand to the reader at most.
const LONGEST_BYTES: usize = 272;

const HEADER_BYTES: usize = 12;
/// Type and class.
const QUESTION_END_BYTES: usize = 4;
/// Where `has_question` is in `struct dns_message`.
const HAS_QUESTION: usize = 11;

/// `struct dns_message` of dns.h, which is as long, and aligned so.
#[repr(C, align(4))]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Message([u8; 12]);

#[expect(unsafe_code, reason = "the C of fathom-measure")]
unsafe extern "C" {
    fn fathom_dns_read(bytes: *const u8, length: u32, message: *mut Message) -> i32;
}

/// Reads from memory that is exactly as long, so that a byte read beyond is seen.
fn read(bytes: &[u8]) -> Option<Message> {
    let bytes = Box::<[u8]>::from(bytes);
    let mut message = Message::default();
    #[expect(unsafe_code, reason = "the C of fathom-measure")]
    // SAFETY: the reader reads only within the length, writes one message, and keeps nothing.
    let is_one = unsafe { fathom_dns_read(bytes.as_ptr(), bytes.len() as u32, &raw mut message) };
    (is_one != 0).then_some(message)
}

fuzz_target!(|input: &[u8]| {
    let message = read(input);
    assert!(message.is_none() || input.len() <= LONGEST_BYTES);
    // What is behind the question, or cut off there, changes nothing: the programs read a slice of
    // the packet.
    if message.is_some() && input.len() < LONGEST_BYTES {
        let longer = [input, &[0xc0]].concat();
        assert_eq!(read(&longer), message);
    }
    // Names are alike whatever the case of their letters (RFC 1035, section 2.3.3). A length is
    // never a letter: it is 63 at most.
    let end = input
        .len()
        .saturating_sub(QUESTION_END_BYTES)
        .max(HEADER_BYTES);
    let mut other_case = input.to_vec();
    for byte in other_case.iter_mut().take(end).skip(HEADER_BYTES) {
        if byte.is_ascii_alphabetic() {
            *byte ^= 0x20;
        }
    }
    let is_whole = |message: &Message| message.0[HAS_QUESTION] == 0 || ends_with_question(input);
    if message.as_ref().is_some_and(is_whole) {
        assert_eq!(read(&other_case), message);
    }
});

/// Whether the question of the message ends where the input does.
fn ends_with_question(input: &[u8]) -> bool {
    read(&input[..input.len() - 1]).is_none()
}
