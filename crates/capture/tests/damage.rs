//! Captures that are cut off, damaged or hostile: never a panic, everything before the damage is
//! given, and the error names the place.

#![expect(
    clippy::unwrap_used,
    reason = "the functions that tests share fail by panicking, too"
)]

use std::io::{self, Cursor, Read};

use fathom_capture::{Error, LinkType, Reader, SectionWriter, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

const SIZES_BYTES: [usize; 4] = [0, 5, 64, 33];

fn pcap() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    for size in SIZES_BYTES {
        writer.write(1, size as u32, &vec![0xab; size]).unwrap();
    }
    writer.finish().unwrap()
}

fn pcapng() -> Vec<u8> {
    let mut writer = SectionWriter::new(Vec::new()).unwrap();
    writer.add_interface("eth0", LinkType::ETHERNET, 0).unwrap();
    for size in SIZES_BYTES {
        writer.write(0, 1, size as u32, &vec![0xab; size]).unwrap();
    }
    writer.finish().unwrap()
}

/// Offsets at which a record or block of `file` ends and the next begins, and how many packets lie
/// before each.
fn boundaries(file: &[u8]) -> Vec<(u64, usize)> {
    let mut reader = Reader::new(Cursor::new(file.to_vec())).unwrap();
    let mut boundaries = vec![(reader.position(), 0)];
    let mut packets = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        assert_eq!(packet.data.len(), SIZES_BYTES[packets]);
        packets += 1;
        boundaries.push((reader.position(), packets));
    }
    assert_eq!(packets, SIZES_BYTES.len());
    boundaries
}

/// Gives at most one byte a call, and is interrupted in between: the worst of pipes.
struct Trickle<R> {
    inner: R,
    is_interrupted: bool,
}

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = buffer.len().min(1);
        self.inner.read(&mut buffer[..length])
    }
}

/// The number of packets read, and what ended the reading.
fn drain(source: impl Read + Send + 'static) -> (usize, Option<Error>) {
    let mut reader = match Reader::new(source) {
        Ok(reader) => reader,
        Err(error) => return (0, Some(error)),
    };
    let mut packets = 0;
    loop {
        match reader.next_packet() {
            Ok(Some(_)) => packets += 1,
            Ok(None) => return (packets, None),
            Err(error) => {
                assert!(
                    matches!(reader.next_packet(), Ok(None)),
                    "an error is reported once"
                );
                return (packets, Some(error));
            }
        }
    }
}

#[test]
fn cut_at_every_byte() {
    for file in [pcap(), pcapng()] {
        let mut boundaries = boundaries(&file);
        if file[0] == 0x0a {
            // The first packet of a pcapng file is preceded by the interface, which ends where the
            // first block begins.
            let first_packet_block_bytes = 32;
            let interface_end = boundaries[1].0 - first_packet_block_bytes;
            boundaries.insert(1, (interface_end, 0));
        }
        for end in 0..=file.len() as u64 {
            let cut = file[..end as usize].to_vec();
            let (packets, error) = drain(Trickle {
                inner: Cursor::new(cut),
                is_interrupted: false,
            });
            let &(boundary, expected) = boundaries
                .iter()
                .rev()
                .find(|(offset, _)| *offset <= end)
                .unwrap_or(&(0, 0));
            assert_eq!(packets, expected, "cut at {end}");
            match error {
                None => assert_eq!(boundary, end, "cut at {end} not noticed"),
                Some(Error::Truncated {
                    offset,
                    end: reported_end,
                }) => {
                    assert_eq!((offset, reported_end), (boundary, end));
                    assert!(
                        boundary != end || end == 0,
                        "a regular end at {end} taken for a cut"
                    );
                }
                Some(error) => panic!("cut at {end}: {error}"),
            }
        }
    }
}

#[test]
fn what_is_no_capture_is_said_with_its_bytes() {
    let (_, error) = drain(Cursor::new(b"GET / HTTP/1.1".to_vec()));
    let message = error.unwrap().to_string();
    assert_eq!(
        message,
        "not a valid capture at byte 0: expected the magic number of a pcap or pcapng file, found 47 45 54 20"
    );
    assert!(matches!(
        drain(io::empty()),
        (0, Some(Error::Truncated { offset: 0, end: 0 }))
    ));
}

#[test]
fn an_absurd_record_length_is_refused_where_it_stands() {
    let mut file = pcap();
    let second_record = 24 + 16;
    file[second_record + 8..second_record + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    match drain(Cursor::new(file)) {
        (
            1,
            Some(Error::Malformed {
                offset: 40, found, ..
            }),
        ) => assert_eq!(found, u32::MAX.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damaged_blocks_are_refused_where_they_stand() {
    let file = pcapng();
    let first_packet = file.len()
        - (SIZES_BYTES
            .iter()
            .map(|size| size.next_multiple_of(4) + 32)
            .sum::<usize>());
    // (offset in the first packet's block, what to put there)
    for (place, value) in [
        (4, 8),
        (4, 33),
        (4, u32::MAX),
        (4, 36),
        (8, 1),
        (20, 1),
        (28, 0),
    ] {
        let mut damaged = file.clone();
        damaged[first_packet + place..first_packet + place + 4]
            .copy_from_slice(&u32::to_le_bytes(value));
        match drain(Cursor::new(damaged)) {
            (0, Some(Error::Malformed { offset, .. })) => assert_eq!(offset, first_packet as u64),
            other => panic!("{value} at {place}: {other:?}"),
        }
    }
}

#[test]
fn unknown_blocks_are_skipped() {
    let file = pcapng();
    let section_bytes = 28;
    let mut extended = file[..section_bytes].to_vec();
    for kind in [5_u32, 10, 0x0bad, 0x8000_0001] {
        extended.extend(kind.to_le_bytes());
        extended.extend(20_u32.to_le_bytes());
        extended.extend([0xff; 8]);
        extended.extend(20_u32.to_le_bytes());
    }
    extended.extend(&file[section_bytes..]);
    assert!(matches!(drain(Cursor::new(extended)), (4, None)));
}

#[test]
fn a_flood_of_interfaces_is_refused() {
    let mut writer = SectionWriter::new(Vec::new()).unwrap();
    for index in 0..20_000 {
        writer
            .add_interface(&format!("ppp{index}"), LinkType::PPP, 0)
            .unwrap();
    }
    let (packets, error) = drain(Cursor::new(writer.finish().unwrap()));
    assert_eq!(packets, 0);
    assert!(matches!(error, Some(Error::Malformed { .. })), "{error:?}");
}

#[test]
fn a_failing_source_is_reported_with_its_offset() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let file = pcap();
    let end = file.len() as u64;
    match drain(Cursor::new(file).chain(Failing)) {
        (4, Some(Error::Read { offset, .. })) => assert_eq!(offset, end),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(magic in prop::sample::select(vec![0_usize, 4]), garbage in vec(any::<u8>(), 0..400)) {
        for whole in [pcap(), pcapng()] {
            // Behind a valid header, or behind a valid magic number.
            for valid_bytes in [magic, 24, 28] {
                let mut file = whole[..valid_bytes].to_vec();
                file.extend(&garbage);
                drain(Cursor::new(file));
            }
        }
    }

    #[test]
    fn flipped_bytes_never_panic(flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for mut file in [pcap(), pcapng()] {
            for (index, value) in &flips {
                let place = index.index(file.len());
                file[place] = *value;
            }
            drain(Cursor::new(file));
        }
    }
}
