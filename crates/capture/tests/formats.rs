//! Every variant of the pcap file header, built by hand, and what `Writer` writes.

use std::io::Cursor;

use fathom_capture::{Error, LinkType, Reader, SectionWriter, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A packet that owns its bytes: (time, link type, interface, length, data).
type Owned = (u64, LinkType, u32, u32, Vec<u8>);

fn read_all(file: Vec<u8>) -> Result<Vec<Owned>, Error> {
    let mut reader = Reader::new(Cursor::new(file))?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        packets.push((
            packet.time_ns,
            packet.link_type,
            packet.interface,
            packet.length,
            packet.data.to_vec(),
        ));
    }
    Ok(packets)
}

/// A file of one packet, captured 1,700,000,000 s and `fraction` after 1970; every 32-bit field
/// through `field`.
fn pcap_by_hand(
    magic: u32,
    field: fn(u32) -> [u8; 4],
    half: fn(u16) -> [u8; 2],
    snapshot_bytes: u32,
    fraction: u32,
    extra: &[u8],
) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(field(magic));
    file.extend(half(2));
    file.extend(half(4));
    file.extend([0; 8]);
    file.extend(field(snapshot_bytes));
    // The upper bits say that a frame check sequence of four bytes follows: not part of the link
    // type, 113.
    file.extend(field(0x2400_0071));
    file.extend(field(1_700_000_000));
    file.extend(field(fraction));
    file.extend(field(5));
    file.extend(field(1_500));
    file.extend(extra);
    file.extend(b"hello");
    file
}

#[test]
fn every_magic_in_either_byte_order() {
    // (magic, extra bytes in a record header, time of fraction 123,456 in ns)
    let variants: [(u32, &[u8], u64); 3] = [
        (0xa1b2_c3d4, &[], 1_700_000_000_123_456_000),
        (0xa1b2_3c4d, &[], 1_700_000_000_000_123_456),
        (0xa1b2_cd34, &[0xee; 8], 1_700_000_000_123_456_000),
    ];
    for (magic, extra, time_ns) in variants {
        let expected = vec![(time_ns, LinkType::LINUX_SLL, 0, 1_500, b"hello".to_vec())];
        let little = pcap_by_hand(
            magic,
            u32::to_le_bytes,
            u16::to_le_bytes,
            65_535,
            123_456,
            extra,
        );
        assert_eq!(
            read_all(little).unwrap(),
            expected,
            "{magic:08x} little endian"
        );
        let big = pcap_by_hand(
            magic,
            u32::to_be_bytes,
            u16::to_be_bytes,
            65_535,
            123_456,
            extra,
        );
        assert_eq!(read_all(big).unwrap(), expected, "{magic:08x} big endian");
    }
}

#[test]
fn careless_snapshot_lengths_are_tolerated() {
    for snapshot_bytes in [0, 1, 4, u32::MAX] {
        let file = pcap_by_hand(
            0xa1b2_c3d4,
            u32::to_le_bytes,
            u16::to_le_bytes,
            snapshot_bytes,
            0,
            &[],
        );
        assert_eq!(
            read_all(file).unwrap().len(),
            1,
            "snapshot length {snapshot_bytes}"
        );
    }
}

#[test]
fn a_fraction_beyond_a_second_does_not_overflow() {
    let mut file = pcap_by_hand(
        0xa1b2_c3d4,
        u32::to_le_bytes,
        u16::to_le_bytes,
        0,
        u32::MAX,
        &[],
    );
    file[24..28].copy_from_slice(&[0xff; 4]);
    let expected = u64::from(u32::MAX) * 1_000_000_000 + u64::from(u32::MAX) * 1_000;
    assert_eq!(read_all(file).unwrap()[0].0, expected);
}

#[test]
fn packets_larger_than_the_buffer_pass() {
    let large = vec![7; 3 << 20];
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 8 << 20).unwrap();
    for data in [&large[..], &[1], &large] {
        writer.write(1, 9, data).unwrap();
    }
    let lengths: Vec<_> = read_all(writer.finish().unwrap())
        .unwrap()
        .iter()
        .map(|packet| packet.4.len())
        .collect();
    assert_eq!(lengths, [3 << 20, 1, 3 << 20]);
}

#[test]
fn the_writer_cuts_to_the_snapshot_length_and_refuses_times_after_2106() {
    let mut writer = Writer::new(Vec::new(), LinkType::RAW, 4).unwrap();
    writer.write(5, 100, b"123456").unwrap();
    assert!(matches!(
        writer.write(u64::MAX, 1, b""),
        Err(Error::TimeBeyondPcap { time_ns: u64::MAX })
    ));
    assert_eq!(
        read_all(writer.finish().unwrap()).unwrap(),
        [(5, LinkType::RAW, 0, 100, b"1234".to_vec())]
    );
}

#[test]
fn the_section_writer_refuses_an_interface_it_does_not_have() {
    let mut writer = SectionWriter::new(Vec::new()).unwrap();
    assert!(matches!(
        writer.write(0, 0, 0, b""),
        Err(Error::UnknownInterface {
            interface: 0,
            described: 0
        })
    ));
}

#[test]
fn positions_are_offsets_in_the_file() {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    writer.write(1, 10, &[0; 10]).unwrap();
    writer.write(2, 20, &[0; 20]).unwrap();
    let file = writer.finish().unwrap();
    let length = file.len() as u64;
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    assert_eq!(reader.position(), 24);
    reader.next_packet().unwrap();
    assert_eq!(reader.position(), 24 + 16 + 10);
    reader.next_packet().unwrap();
    assert!(reader.next_packet().unwrap().is_none());
    assert!(reader.next_packet().unwrap().is_none());
    assert_eq!(
        (reader.position(), reader.stored_position()),
        (length, length)
    );
}

prop_compose! {
    /// A packet whose wire length is unrelated to what was captured.
    fn any_packet()(
        seconds: u32, nanoseconds in 0..1_000_000_000_u64, interface in 0..3_u32, length: u32, data in vec(any::<u8>(), 0..200),
    ) -> (u64, u32, u32, Vec<u8>) {
        (u64::from(seconds) * 1_000_000_000 + nanoseconds, interface, length, data)
    }
}

proptest! {
    #[test]
    fn pcap_reads_as_written(link_type: u16, packets in vec(any_packet(), 0..50)) {
        let mut writer = Writer::new(Vec::new(), LinkType(link_type), 0)?;
        let mut expected = Vec::new();
        for (time_ns, _, length, data) in packets {
            writer.write(time_ns, length, &data)?;
            expected.push((time_ns, LinkType(link_type), 0, length, data));
        }
        prop_assert_eq!(read_all(writer.finish()?)?, expected);
    }

    #[test]
    fn pcapng_reads_as_written(packets in vec(any_packet(), 0..50)) {
        let link_types = [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL2];
        let mut writer = SectionWriter::new(Vec::new())?;
        for (link_type, name) in link_types.into_iter().zip(["eth0", "tun0", "any"]) {
            writer.add_interface(name, link_type, 0)?;
        }
        let mut expected = Vec::new();
        for (time_ns, interface, length, data) in packets {
            writer.write(interface, time_ns, length, &data)?;
            expected.push((time_ns, link_types[interface as usize], interface, length, data));
        }
        prop_assert_eq!(read_all(writer.finish()?)?, expected);
    }
}
