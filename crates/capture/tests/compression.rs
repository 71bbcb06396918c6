//! gzip and zstd, recognised by content.

#![expect(
    clippy::unwrap_used,
    reason = "the functions that tests share fail by panicking, too"
)]

use std::io::{Cursor, Write};

use fathom_capture::{Error, LinkType, Reader, Writer};
use flate2::Compression;
use flate2::write::GzEncoder;

const PACKETS: u32 = 5_000;

fn capture() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    let mut state = 1_u64;
    for index in 0..PACKETS {
        // Hardly compressible, so that a cut falls among the packets and not only into the trailer.
        let data = [(); 60].map(|()| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        writer.write(u64::from(index), 60, &data).unwrap();
    }
    writer.finish().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The number of packets, and what ended the reading.
fn drain(file: Vec<u8>) -> (u32, Option<Error>) {
    let stored_bytes = file.len() as u64;
    let mut reader = match Reader::new(Cursor::new(file)) {
        Ok(reader) => reader,
        Err(error) => return (0, Some(error)),
    };
    let mut packets = 0;
    loop {
        match reader.next_packet() {
            Ok(Some(_)) => packets += 1,
            Ok(None) => {
                assert_eq!(reader.stored_position(), stored_bytes);
                return (packets, None);
            }
            Err(error) => return (packets, Some(error)),
        }
    }
}

#[test]
fn gzip_and_zstd_read_like_the_file_itself() {
    let plain = capture();
    for compressed in [gzip(&plain), zstandard(&plain)] {
        let mut original = Reader::new(Cursor::new(plain.clone())).unwrap();
        let mut copy = Reader::new(Cursor::new(compressed.clone())).unwrap();
        while let Some(packet) = original.next_packet().unwrap() {
            assert_eq!(copy.next_packet().unwrap(), Some(packet));
        }
        assert!(matches!(drain(compressed), (PACKETS, None)));
    }
}

#[test]
fn several_members_or_frames_are_one_file() {
    let plain = capture();
    let (first, second) = plain.split_at(plain.len() / 3);
    for compress in [gzip, zstandard] {
        let compressed = [compress(first), compress(second)].concat();
        assert!(matches!(drain(compressed), (PACKETS, None)));
    }
}

#[test]
fn a_cut_compressed_file_gives_its_packets_and_is_reported_as_cut() {
    let plain = capture();
    for compressed in [gzip(&plain), zstandard(&plain)] {
        let length = compressed.len();
        for kept in [length / 2, length - 9, length - 1] {
            let (packets, error) = drain(compressed[..kept].to_vec());
            assert!(packets > 0 && packets <= PACKETS);
            assert!(
                matches!(error, Some(Error::Truncated { .. })),
                "{kept} of {length}: {error:?}"
            );
        }
        let (_, error) = drain(compressed[..6].to_vec());
        assert!(
            matches!(error, Some(Error::Truncated { offset: 0, .. })),
            "{error:?}"
        );
    }
}

#[test]
fn a_damaged_compressed_file_is_an_error() {
    let plain = capture();
    for mut compressed in [gzip(&plain), zstandard(&plain)] {
        let middle = compressed.len() / 2;
        compressed[middle..middle + 64].fill(0xff);
        // Packets may come out damaged: the checksum stands at the end.
        let (_, error) = drain(compressed);
        assert!(error.is_some());
    }
}
