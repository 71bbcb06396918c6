//! pcapng files written by another library: several interfaces, units of time, sections, byte
//! orders, packet blocks.

#![expect(
    clippy::unwrap_used,
    reason = "the functions that tests share fail by panicking, too"
)]

use std::borrow::Cow;
use std::io::Cursor;
use std::time::Duration;

use fathom_capture::Reader;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::packet::PacketBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness};

type Writer = PcapNgWriter<Vec<u8>>;

fn add_interface(
    writer: &mut Writer,
    name: &'static str,
    link_type: u32,
    options: &[InterfaceDescriptionOption<'static>],
) {
    let mut all = vec![InterfaceDescriptionOption::IfName(Cow::Borrowed(name))];
    all.extend_from_slice(options);
    let block = InterfaceDescriptionBlock {
        linktype: DataLink::from(link_type),
        snaplen: 96,
        options: all,
    };
    writer.write_pcapng_block(block).unwrap();
}

/// The library writes the nanoseconds of a timestamp as ticks, whatever the unit of the interface.
fn add_packet(writer: &mut Writer, interface_id: u32, ticks: u64, data: &'static [u8]) {
    let block = EnhancedPacketBlock {
        interface_id,
        timestamp: Duration::from_nanos(ticks),
        original_len: 1_500,
        data: Cow::Borrowed(data),
        options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(
            "not part of the packet",
        ))],
    };
    writer.write_pcapng_block(block).unwrap();
}

/// (time, link type, interface name, interface, length, data).
type Owned = (u64, u16, Option<String>, u32, u32, Vec<u8>);

fn read_all(file: Vec<u8>) -> Vec<Owned> {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        packets.push((
            packet.time_ns,
            packet.link_type.0,
            None,
            packet.interface,
            packet.length,
            packet.data.to_vec(),
        ));
    }
    for packet in &mut packets {
        packet.2 = reader.interface_name(packet.3).map(str::to_owned);
    }
    packets
}

fn two_interfaces(endianness: Endianness) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    add_interface(
        &mut writer,
        "eth0",
        1,
        &[InterfaceDescriptionOption::IfTsResol(9)],
    );
    add_interface(&mut writer, "tun0", 101, &[]);
    add_packet(&mut writer, 1, 1_700_000_000_123_456, b"raw");
    add_packet(&mut writer, 0, 1_700_000_000_123_456_789, b"ethernet");
    writer.into_inner()
}

#[test]
fn interfaces_have_their_own_name_link_type_and_unit() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let packets = read_all(two_interfaces(endianness));
        assert_eq!(
            packets,
            [
                (
                    1_700_000_000_123_456_000,
                    101,
                    Some("tun0".to_owned()),
                    1,
                    1_500,
                    b"raw".to_vec()
                ),
                (
                    1_700_000_000_123_456_789,
                    1,
                    Some("eth0".to_owned()),
                    0,
                    1_500,
                    b"ethernet".to_vec()
                ),
            ]
        );
    }
}

#[test]
fn units_and_offsets_of_time() {
    use InterfaceDescriptionOption::{IfTsOffset, IfTsResol};
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    add_interface(&mut writer, "milliseconds", 1, &[IfTsResol(3)]);
    add_interface(&mut writer, "1/1024 s", 1, &[IfTsResol(0x8a)]);
    add_interface(&mut writer, "picoseconds", 1, &[IfTsResol(12)]);
    add_interface(&mut writer, "offset", 1, &[IfTsResol(9), IfTsOffset(100)]);
    add_interface(
        &mut writer,
        "negative offset",
        1,
        &[IfTsOffset((-1_i64).cast_unsigned())],
    );
    let ticks_and_times = [
        (7, 7_000_000),
        (1_536, 1_500_000_000),
        (9_999, 9),
        (5, 100_000_000_005),
        (1_000_001, 1_000),
    ];
    for (interface, (ticks, _)) in ticks_and_times.iter().enumerate() {
        add_packet(&mut writer, interface as u32, *ticks, b"");
    }
    let times: Vec<u64> = read_all(writer.into_inner())
        .iter()
        .map(|packet| packet.0)
        .collect();
    assert_eq!(times, ticks_and_times.map(|(_, time_ns)| time_ns));
}

#[test]
fn concatenated_sections_share_their_interfaces_but_not_their_byte_order() {
    let mut third = PcapNgWriter::new(Vec::new()).unwrap();
    add_interface(&mut third, "ppp0", 9, &[]);
    add_packet(&mut third, 0, 1, b"ppp");
    let file = [
        two_interfaces(Endianness::Little),
        two_interfaces(Endianness::Big),
        third.into_inner(),
    ]
    .concat();
    let interfaces: Vec<_> = read_all(file)
        .into_iter()
        .map(|packet| (packet.3, packet.2.unwrap()))
        .collect();
    let expected = [
        (1, "tun0"),
        (0, "eth0"),
        (1, "tun0"),
        (0, "eth0"),
        (2, "ppp0"),
    ];
    assert_eq!(
        interfaces,
        expected.map(|(index, name)| (index, name.to_owned()))
    );
}

#[test]
fn simple_and_obsolete_packet_blocks() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        add_interface(&mut writer, "eth0", 1, &[]);
        add_interface(&mut writer, "eth1", 1, &[]);
        // Five bytes, padded to eight: the length on the wire is what tells.
        let simple = SimplePacketBlock {
            original_len: 5,
            data: Cow::Borrowed(b"whole"),
        };
        writer.write_pcapng_block(simple).unwrap();
        let cut = SimplePacketBlock {
            original_len: 1_500,
            data: Cow::Owned(vec![1; 96]),
        };
        writer.write_pcapng_block(cut).unwrap();
        // The format has the upper half first in either byte order; the library, wrongly, a 64-bit
        // integer.
        let timestamp = if endianness.is_little() {
            1_000_001_u64.rotate_left(32)
        } else {
            1_000_001
        };
        let obsolete = PacketBlock {
            interface_id: 1,
            drop_count: 0xffff,
            timestamp,
            captured_len: 3,
            original_len: 1_500,
            data: Cow::Borrowed(b"old"),
            options: Vec::new(),
        };
        writer.write_pcapng_block(obsolete).unwrap();
        let packets = read_all(writer.into_inner());
        let eth0 = Some("eth0".to_owned());
        assert_eq!(packets[0], (0, 1, eth0.clone(), 0, 5, b"whole".to_vec()));
        assert_eq!(packets[1], (0, 1, eth0, 0, 1_500, vec![1; 96]));
        assert_eq!(
            packets[2],
            (
                1_000_001_000,
                1,
                Some("eth1".to_owned()),
                1,
                1_500,
                b"old".to_vec()
            )
        );
    }
}
