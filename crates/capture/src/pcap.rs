//! The classic format: one header, then records
//! ([draft-ietf-opsawg-pcap](https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/)).

use crate::byte_order::ByteOrder;
use crate::reader::Located;
use crate::window::{MAX_BLOCK_BYTES, Window};
use crate::{Error, LinkType};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Kuznetzov's modification (Red Hat, 1999): eight more bytes in every record header.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
const MODIFIED_RECORD_HEADER_BYTES: usize = 24;

/// What libpcap captures at most unless told otherwise, in bytes: a record up to this length is
/// read whatever the header's snapshot length says, because writers are careless about it.
const USUAL_MAX_CAPTURED_BYTES: u32 = 262_144;

/// What the file header says.
pub(crate) struct Pcap {
    link_type: LinkType,
    byte_order: ByteOrder,
    nanoseconds_per_fraction: u64,
    record_header_bytes: usize,
    max_captured_bytes: u32,
}

/// The magic number's four bytes as (byte order, fraction, length of a record header), if it is one
/// of pcap's.
fn recognise(magic: [u8; 4]) -> Option<(ByteOrder, u64, usize)> {
    let variant = |magic| match magic {
        MAGIC_MICROSECONDS => Some((1_000, RECORD_HEADER_BYTES)),
        MAGIC_NANOSECONDS => Some((1, RECORD_HEADER_BYTES)),
        MAGIC_MODIFIED => Some((1_000, MODIFIED_RECORD_HEADER_BYTES)),
        _ => None,
    };
    let little = variant(u32::from_le_bytes(magic))
        .map(|(fraction, header)| (ByteOrder::Little, fraction, header));
    little.or_else(|| {
        variant(u32::from_be_bytes(magic))
            .map(|(fraction, header)| (ByteOrder::Big, fraction, header))
    })
}

impl Pcap {
    /// Reads the file header at the start of `window`; `None` when this is not a pcap file.
    pub(crate) fn open(window: &mut Window, magic: [u8; 4]) -> Result<Option<Self>, Error> {
        let Some((byte_order, nanoseconds_per_fraction, record_header_bytes)) = recognise(magic)
        else {
            return Ok(None);
        };
        if !window.ensure(FILE_HEADER_BYTES)? {
            return Err(window.cut_off());
        }
        let offset = window.consume(FILE_HEADER_BYTES);
        let header = window.bytes(offset, FILE_HEADER_BYTES);
        let snapshot_bytes = byte_order.u32(header, 16);
        // The upper half holds the length of the frame check sequence and reserved bits.
        let link_type = LinkType(byte_order.u32(header, 20) as u16);
        let max_captured_bytes = snapshot_bytes.clamp(USUAL_MAX_CAPTURED_BYTES, MAX_BLOCK_BYTES);
        Ok(Some(Self {
            link_type,
            byte_order,
            nanoseconds_per_fraction,
            record_header_bytes,
            max_captured_bytes,
        }))
    }

    #[inline]
    pub(crate) fn next(&self, window: &mut Window) -> Result<Option<Located>, Error> {
        if !window.ensure(self.record_header_bytes)? {
            window.check_ended_between_records()?;
            return Ok(None);
        }
        let header = &window.unconsumed()[..RECORD_HEADER_BYTES];
        let seconds = self.byte_order.u32(header, 0);
        let fraction = self.byte_order.u32(header, 4);
        let captured_bytes = self.byte_order.u32(header, 8);
        let length = self.byte_order.u32(header, 12);
        if captured_bytes > self.max_captured_bytes {
            return Err(self.too_long(window, captured_bytes));
        }
        let captured_bytes = captured_bytes as usize;
        let record_bytes = self.record_header_bytes + captured_bytes;
        if !window.ensure(record_bytes)? {
            return Err(window.cut_off());
        }
        Ok(Some(Located {
            // At most 4.3e18 + 4.3e12: below 2^63, whatever the fraction.
            time_ns: u64::from(seconds) * 1_000_000_000
                + u64::from(fraction) * self.nanoseconds_per_fraction,
            link_type: self.link_type,
            interface: 0,
            length,
            offset: window.consume(record_bytes) + self.record_header_bytes,
            captured_bytes,
        }))
    }

    #[cold]
    fn too_long(&self, window: &Window, captured_bytes: u32) -> Error {
        window.malformed(
            format_args!(
                "a record of at most {} captured bytes",
                self.max_captured_bytes
            ),
            format_args!("{captured_bytes}"),
        )
    }
}
