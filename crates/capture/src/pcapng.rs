//! The block format
//! ([draft-ietf-opsawg-pcapng](https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/)):
//! sections of interfaces and packets.

use std::collections::HashMap;

use crate::byte_order::ByteOrder;
use crate::reader::Located;
use crate::resolution::Resolution;
use crate::window::{MAX_BLOCK_BYTES, Window};
use crate::{Error, LinkType};

/// Type of a Section Header Block: the same in either byte order.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, still found in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;

pub(crate) const OPTION_END: u16 = 0;
pub(crate) const OPTION_INTERFACE_NAME: u16 = 2;
pub(crate) const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

/// Type and length in front of the body of a block, the length again behind it.
const LEADING_BYTES: usize = 8;
const FRAME_BYTES: u32 = 12;

/// Bound what a hostile file makes the reader remember, to some 15 MB.
const MAX_INTERFACES: usize = 16_384;
const MAX_NAME_BYTES: usize = 128;

/// An interface of the current section.
struct Interface {
    /// Its index in the file.
    index: u32,
    link_type: LinkType,
    snapshot_bytes: u32,
    resolution: Resolution,
}

/// What makes an interface of a later section the same as one of an earlier: its index in the
/// section, link type and name.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    index_in_section: usize,
    link_type: LinkType,
    name: Option<String>,
}

/// What has been learnt from the blocks so far.
pub(crate) struct Pcapng {
    byte_order: ByteOrder,
    section: Vec<Interface>,
    /// Every interface of the file with its index. Sections share them, so that captures that were
    /// rotated and then concatenated go on where they stopped.
    known: HashMap<Identity, u32>,
    names: Vec<Option<String>>,
}

/// A block that has been read whole.
struct Block {
    kind: u32,
    total_bytes: usize,
}

impl Pcapng {
    /// `None` when the file does not begin with a section; its header is read with the first
    /// packet.
    pub(crate) fn open(window: &mut Window, magic: [u8; 4]) -> Result<Option<Self>, Error> {
        if u32::from_le_bytes(magic) != SECTION_HEADER {
            return Ok(None);
        }
        let mut pcapng = Self {
            byte_order: ByteOrder::Little,
            section: Vec::new(),
            known: HashMap::new(),
            names: Vec::new(),
        };
        let Some(block) = pcapng.block(window)? else {
            return Err(window.cut_off());
        };
        pcapng.begin_section(window, &block)?;
        window.consume(block.total_bytes);
        Ok(Some(pcapng))
    }

    pub(crate) fn names(&self) -> &[Option<String>] {
        &self.names
    }

    pub(crate) fn take_names(&mut self) -> Vec<Option<String>> {
        std::mem::take(&mut self.names)
    }

    #[inline]
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<Located>, Error> {
        while let Some(block) = self.block(window)? {
            match block.kind {
                ENHANCED_PACKET | PACKET => return self.timed_packet(window, &block),
                SIMPLE_PACKET => return self.simple_packet(window, &block),
                SECTION_HEADER => self.begin_section(window, &block)?,
                INTERFACE_DESCRIPTION => self.add_interface(window, &block)?,
                // Statistics, names, secrets, custom blocks: no packets.
                _ => {}
            }
            window.consume(block.total_bytes);
        }
        Ok(None)
    }

    /// Makes the next block available whole; `None` at the end of the file.
    #[inline]
    fn block(&mut self, window: &mut Window) -> Result<Option<Block>, Error> {
        if !window.ensure(FRAME_BYTES as usize)? {
            window.check_ended_between_records()?;
            return Ok(None);
        }
        let leading = window.unconsumed();
        let kind = self.byte_order.u32(leading, 0);
        if kind == SECTION_HEADER {
            self.byte_order = section_byte_order(window)?;
        }
        let leading = window.unconsumed();
        let total = self.byte_order.u32(leading, 4);
        if !(FRAME_BYTES..=MAX_BLOCK_BYTES).contains(&total) || !total.is_multiple_of(4) {
            return Err(window.malformed(
                format_args!(
                    "a block length from {FRAME_BYTES} to {MAX_BLOCK_BYTES}, a multiple of 4"
                ),
                format_args!("{total} in a block of type {kind:#x}"),
            ));
        }
        let total_bytes = total as usize;
        if !window.ensure(total_bytes)? {
            return Err(window.cut_off());
        }
        let trailing = self.byte_order.u32(window.unconsumed(), total_bytes - 4);
        if trailing != total {
            return Err(window.malformed(
                format_args!("the block length {total} again at its end"),
                format_args!("{trailing} in a block of type {kind:#x}"),
            ));
        }
        Ok(Some(Block { kind, total_bytes }))
    }

    fn begin_section(&mut self, window: &Window, block: &Block) -> Result<(), Error> {
        const FIELDS_BYTES: usize = 16;
        let body = body(window, block, FIELDS_BYTES)?;
        let major = self.byte_order.u16(body, 4);
        if major != 1 {
            return Err(window.malformed(format_args!("pcapng version 1"), format_args!("{major}")));
        }
        self.section.clear();
        Ok(())
    }

    fn add_interface(&mut self, window: &Window, block: &Block) -> Result<(), Error> {
        const FIELDS_BYTES: usize = 8;
        let body = body(window, block, FIELDS_BYTES)?;
        let link_type = LinkType(self.byte_order.u16(body, 0));
        let snapshot_bytes = self.byte_order.u32(body, 4);
        let (name, resolution) = self.interface_options(window, &body[FIELDS_BYTES..])?;
        let identity = Identity {
            index_in_section: self.section.len(),
            link_type,
            name,
        };
        let index = if let Some(&index) = self.known.get(&identity) {
            index
        } else {
            if self.names.len() >= MAX_INTERFACES {
                return Err(window.malformed(
                    format_args!("at most {MAX_INTERFACES} interfaces"),
                    format_args!("one more"),
                ));
            }
            let index = self.names.len() as u32;
            self.names.push(identity.name.clone());
            self.known.insert(identity, index);
            index
        };
        self.section.push(Interface {
            index,
            link_type,
            snapshot_bytes,
            resolution,
        });
        Ok(())
    }

    fn interface_options(
        &self,
        window: &Window,
        options: &[u8],
    ) -> Result<(Option<String>, Resolution), Error> {
        let mut name = None;
        let mut resolution = Resolution::default();
        let mut rest = options;
        while rest.len() >= 4 {
            let (code, length) = (
                self.byte_order.u16(rest, 0),
                self.byte_order.u16(rest, 2) as usize,
            );
            let Some(value) = rest[4..].get(..length) else {
                return Err(window.malformed(
                    format_args!("interface options that end within their block"),
                    format_args!("option {code} of {length} bytes"),
                ));
            };
            match code {
                OPTION_END => break,
                OPTION_INTERFACE_NAME => name = Some(printable_name(value)),
                OPTION_TIME_RESOLUTION if length == 1 => resolution.set_unit(value[0]),
                OPTION_TIME_OFFSET if length == 8 => {
                    resolution.set_offset(self.byte_order.u64(value, 0).cast_signed());
                }
                _ => {}
            }
            // The block's length is a multiple of four, and so is that of every option with its
            // padding.
            rest = &rest[4 + length.next_multiple_of(4)..];
        }
        Ok((name, resolution))
    }
    /// An Enhanced Packet Block, or the obsolete Packet Block: the same layout, but for an
    /// interface of 16 bits and a count of drops beside it. Consumes the block.
    ///
    /// Gives what [`Pcapng::next`] gives: converting it there copies a struct just written, a stall
    /// of 7 ns a packet.
    #[inline]
    fn timed_packet(&self, window: &mut Window, block: &Block) -> Result<Option<Located>, Error> {
        const FIELDS_BYTES: usize = 20;
        let body = body(window, block, FIELDS_BYTES)?;
        let field = |offset| self.byte_order.u32(body, offset);
        let index_in_section = if block.kind == PACKET {
            u32::from(self.byte_order.u16(body, 0))
        } else {
            field(0)
        };
        let ticks = u64::from(field(4)) << 32 | u64::from(field(8));
        let captured_bytes = field(12) as usize;
        let length = field(16);
        let room_bytes = body.len() - FIELDS_BYTES;
        if captured_bytes > room_bytes {
            return Err(window.malformed(
                format_args!("at most the {room_bytes} captured bytes that the block has room for"),
                format_args!("{captured_bytes}"),
            ));
        }
        let interface = self.interface(window, index_in_section)?;
        Ok(Some(Located {
            time_ns: interface.resolution.time_ns(ticks),
            link_type: interface.link_type,
            interface: interface.index,
            length,
            offset: window.consume(block.total_bytes) + LEADING_BYTES + FIELDS_BYTES,
            captured_bytes,
        }))
    }

    /// Has neither a time nor a captured length; belongs to the section's first interface. Consumes
    /// the block.
    #[cold]
    fn simple_packet(&self, window: &mut Window, block: &Block) -> Result<Option<Located>, Error> {
        const FIELDS_BYTES: usize = 4;
        let body = body(window, block, FIELDS_BYTES)?;
        let interface = self.interface(window, 0)?;
        let length = self.byte_order.u32(body, 0);
        let snapshot_bytes = if interface.snapshot_bytes == 0 {
            u32::MAX
        } else {
            interface.snapshot_bytes
        };
        let captured_bytes = (length.min(snapshot_bytes) as usize).min(body.len() - FIELDS_BYTES);
        Ok(Some(Located {
            time_ns: 0,
            link_type: interface.link_type,
            interface: interface.index,
            length,
            offset: window.consume(block.total_bytes) + LEADING_BYTES + FIELDS_BYTES,
            captured_bytes,
        }))
    }

    #[inline]
    fn interface(&self, window: &Window, index_in_section: u32) -> Result<&Interface, Error> {
        self.section.get(index_in_section as usize).ok_or_else(|| {
            window.malformed(
                format_args!(
                    "a packet of one of the {} interfaces described so far",
                    self.section.len()
                ),
                format_args!("interface {index_in_section}"),
            )
        })
    }
}

/// The byte order of the section whose header is at the start of `window`.
#[cold]
fn section_byte_order(window: &Window) -> Result<ByteOrder, Error> {
    let magic = window.unconsumed();
    if ByteOrder::Little.u32(magic, LEADING_BYTES) == BYTE_ORDER_MAGIC {
        Ok(ByteOrder::Little)
    } else if ByteOrder::Big.u32(magic, LEADING_BYTES) == BYTE_ORDER_MAGIC {
        Ok(ByteOrder::Big)
    } else {
        let found = ByteOrder::Big.u32(magic, LEADING_BYTES);
        Err(window.malformed(
            format_args!("the byte-order magic 1a2b3c4d or 4d3c2b1a of a section"),
            format_args!("{found:08x}"),
        ))
    }
}

/// The body of a block that has at least `fields_bytes` bytes of it.
#[inline]
fn body<'a>(window: &'a Window, block: &Block, fields_bytes: usize) -> Result<&'a [u8], Error> {
    let body = &window.unconsumed()[LEADING_BYTES..block.total_bytes - 4];
    if body.len() < fields_bytes {
        return Err(window.malformed(
            format_args!(
                "a block of type {:#x} with at least {fields_bytes} bytes of fields",
                block.kind
            ),
            format_args!("{}", body.len()),
        ));
    }
    Ok(body)
}

/// A name as text: whatever is not UTF-8 replaced, cut to what is kept of a name, without a
/// trailing zero byte.
fn printable_name(name: &[u8]) -> String {
    let name = &name[..name.len().min(MAX_NAME_BYTES)];
    String::from_utf8_lossy(name)
        .trim_end_matches('\0')
        .to_owned()
}
