//! Tests of the reader of DNS messages that the kernel's programs use: against a second one,
//! written another way.

use proptest::prelude::*;

use crate::profile::native::{self, dns_message};

/// What [`native::read_dns`] must give: id, answer, truncated, code, type of the question.
type Expected = (u16, bool, bool, u8, Option<u16>);

/// RFC 1035, section 4.1, as far as a slice of the message tells.
fn expected(bytes: &[u8]) -> Option<Expected> {
    let (header, body) = bytes.split_first_chunk::<12>()?;
    let is_answer = header[2] & 0x80 != 0;
    let is_query_of_names = header[2] & 0x78 == 0;
    if !is_query_of_names || bytes.len() > native::DNS_BYTES_MAX as usize {
        return None;
    }
    let query_type = match u16::from_be_bytes([header[4], header[5]]) {
        0 if is_answer => None,
        1 => Some(type_behind_name(body)?),
        _ => return None,
    };
    let id = u16::from_be_bytes([header[0], header[1]]);
    Some((
        id,
        is_answer,
        header[2] & 2 != 0,
        header[3] & 0xf,
        query_type,
    ))
}

fn type_behind_name(mut body: &[u8]) -> Option<u16> {
    let mut name_bytes = 1;
    loop {
        let (length, rest) = body.split_first()?;
        match *length {
            0 => {
                let (of_type, _class) = rest.first_chunk::<4>()?.split_at(2);
                return Some(u16::from_be_bytes([of_type[0], of_type[1]]));
            }
            1..64 => body = rest.get(usize::from(*length)..)?,
            64.. => return None,
        }
        name_bytes += 1 + usize::from(*length);
        if name_bytes > 255 {
            return None;
        }
    }
}

fn read(bytes: &[u8]) -> Option<dns_message> {
    // Exactly as long as it is, so that a tool that watches memory sees every byte read beyond.
    native::read_dns(&Box::<[u8]>::from(bytes))
}

fn told(message: dns_message) -> Expected {
    let has_question = message.has_question != 0;
    (
        message.id,
        message.is_answer != 0,
        message.is_truncated != 0,
        message.response_code,
        has_question.then_some(message.query_type),
    )
}

fn message(header: [u8; 6], labels: &[Vec<u8>], end: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes.extend([0; 6]);
    for label in labels {
        bytes.push(label.len() as u8);
        bytes.extend(label);
    }
    bytes.push(0);
    bytes.extend(end);
    bytes
}

/// A query for the A record of a name, or the answer of it.
fn of_name(name: &str, flags: u8) -> Vec<u8> {
    let labels: Vec<Vec<u8>> = name
        .split('.')
        .map(|label| label.as_bytes().to_vec())
        .collect();
    message([1, 2, flags, 0, 0, 1], &labels, &[0, 1, 0, 1])
}

#[test]
fn query_and_answer_share_a_question() {
    let query = read(&of_name("www.example.org", 0x01)).unwrap();
    assert_eq!(told(query), (0x0102, false, false, 0, Some(1)));
    let answer = read(&of_name("wWw.Example.ORG", 0x83)).unwrap();
    assert_eq!(told(answer), (0x0102, true, true, 0, Some(1)));
    assert_eq!(query.question, answer.question);
    let other = read(&of_name("www.example.com", 0x01)).unwrap();
    assert_ne!(query.question, other.question);
    let mut of_type = of_name("www.example.org", 0x01);
    let at = of_type.len() - 3;
    of_type[at] = 28;
    assert_ne!(query.question, read(&of_type).unwrap().question);
}

#[test]
fn the_longest_name_is_read_and_no_longer_one() {
    let labels = |last: usize| {
        [
            vec![b'a'; 63],
            vec![b'b'; 63],
            vec![b'c'; 63],
            vec![b'd'; last],
        ]
    };
    let header = [0, 1, 1, 0, 0, 1];
    // 3 * 64 + 62 + the root: 255 bytes.
    let longest = message(header, &labels(61), &[0, 1, 0, 1]);
    assert_eq!(longest.len(), 12 + 255 + 4);
    assert!(read(&longest).is_some());
    assert!(read(&message(header, &labels(62), &[0, 1, 0, 1])).is_none());
    assert!(read(&longest[..longest.len() - 1]).is_none());
}

/// Writes what the fuzz target starts from, when `FATHOM_CORPUS` says where.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("FATHOM_CORPUS") else {
        println!("skipped: FATHOM_CORPUS does not say where the corpus goes");
        return;
    };
    let folder = std::path::Path::new(&folder).join("dns");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in [
        ("query", of_name("www.example.org", 0x01)),
        ("answer", of_name("WWW.example.org", 0x83)),
        ("bare", message([1, 2, 0x81, 1, 0, 0], &[], &[])),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

proptest! {
    #[test]
    fn garbage_is_read_as_the_second_reader_does(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(read(&bytes).map(told), expected(&bytes));
    }

    #[test]
    fn nearly_right_messages_too(
        header in any::<[u8; 2]>(),
        flags in prop::sample::select(vec![0x01_u8, 0x81, 0x83, 0x85, 0x29]),
        questions in 0_u8..3,
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..70), 0..6),
        end in prop::collection::vec(any::<u8>(), 0..40),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut bytes = message([header[0], header[1], flags, header[0], 0, questions], &labels, &end);
        if let Some((index, byte)) = damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        prop_assert_eq!(read(&bytes).map(told), expected(&bytes));
    }
}
