//! Reading a capture, whichever format it has.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pcap::Pcap;
use crate::pcapng::Pcapng;
use crate::source::decompressed;
use crate::window::Window;
use crate::{Error, LinkType};

/// One captured packet, lent out of the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC; a time that does not fit is moved to the nearer end of the
    /// range. Zero in a pcapng Simple Packet Block, which carries no time.
    pub time_ns: u64,
    /// What `data` begins with.
    pub link_type: LinkType,
    /// Which interface of the file captured it, from 0: see [`Reader::interface_name`]. Always 0 in
    /// a pcap file.
    pub interface: u32,
    /// Length on the wire in bytes, as recorded: usually at least `data.len()`, but nothing
    /// enforces it.
    pub length: u32,
    /// The bytes captured.
    pub data: &'a [u8],
}

/// A packet by its offset in the window: what the formats give while they still need the window.
pub(crate) struct Located {
    pub(crate) time_ns: u64,
    pub(crate) link_type: LinkType,
    pub(crate) interface: u32,
    pub(crate) length: u32,
    pub(crate) offset: usize,
    pub(crate) captured_bytes: usize,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    /// The file ended or an error was reported: there is no next packet.
    Finished {
        interface_names: Vec<Option<String>>,
    },
}

/// Reads the packets of one capture in file order.
///
/// Memory stays at a 256 KiB buffer (up to twice the largest block, at most 32 MiB) and, when
/// compressed, the decompressor's window (zstd: at most 128 MiB, what `zstd --long=27` asks for).
pub struct Reader {
    window: Window,
    format: Format,
    stored_bytes: Arc<AtomicU64>,
}

impl Reader {
    /// Opens a file, or standard input for `-`, and reads its header.
    ///
    /// # Errors
    /// [`Error::Open`], and those of [`Reader::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return Self::new(io::stdin());
        }
        let file = File::open(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::new(file)
    }

    /// Reads the header of a capture from any stream. The reader has its own buffer; `source` needs
    /// none.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is neither pcap nor pcapng, [`Error::Truncated`] when it ends
    /// inside the header, [`Error::Read`] when the source or its decompression fails.
    pub fn new(source: impl Read + Send + 'static) -> Result<Self, Error> {
        let (plain, stored_bytes) = decompressed(source)?;
        let mut window = Window::new(plain);
        if !window.ensure(4)? {
            return Err(window.cut_off());
        }
        let magic = [0, 1, 2, 3].map(|index| window.unconsumed()[index]);
        let format = if let Some(pcap) = Pcap::open(&mut window, magic)? {
            Format::Pcap(pcap)
        } else if let Some(pcapng) = Pcapng::open(&mut window, magic)? {
            Format::Pcapng(pcapng)
        } else {
            let found = magic.map(|byte| format!("{byte:02x}")).join(" ");
            return Err(window.malformed(
                format_args!("the magic number of a pcap or pcapng file"),
                format_args!("{found}"),
            ));
        };
        Ok(Self {
            window,
            format,
            stored_bytes,
        })
    }

    /// Gives the next packet; `None` at the end of the file, and ever after the end or an error.
    ///
    /// # Errors
    /// [`Error::Truncated`] after the last whole packet of a capture that is cut off,
    /// [`Error::Malformed`] where the bytes are not what the format allows, [`Error::Read`] when
    /// the source or its decompression fails.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let located = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window),
            Format::Finished { .. } => Ok(None),
        };
        match located {
            Ok(Some(located)) => Ok(Some(Packet {
                time_ns: located.time_ns,
                link_type: located.link_type,
                interface: located.interface,
                length: located.length,
                data: self.window.bytes(located.offset, located.captured_bytes),
            })),
            Ok(None) => {
                self.finish();
                Ok(None)
            }
            Err(error) => {
                self.finish();
                Err(error)
            }
        }
    }

    #[cold]
    fn finish(&mut self) {
        let interface_names = match &mut self.format {
            Format::Pcap(_) => Vec::new(),
            Format::Pcapng(pcapng) => pcapng.take_names(),
            Format::Finished { .. } => return,
        };
        self.format = Format::Finished { interface_names };
    }

    /// The name of the interface that a packet's [`interface`](Packet::interface) stands for, as
    /// far as the file has been read; a pcap file has none. In a pcapng file of several sections an
    /// interface with the same position in its section, name and link type counts as the same: what
    /// concatenated pieces of one capture are.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        let names = match &self.format {
            Format::Pcap(_) => return None,
            Format::Pcapng(pcapng) => pcapng.names(),
            Format::Finished { interface_names } => interface_names,
        };
        names.get(interface as usize)?.as_deref()
    }

    /// Offset of the next record in the uncompressed file, in bytes; after an error, of the record
    /// that caused it.
    pub fn position(&self) -> u64 {
        self.window.offset()
    }

    /// How many bytes have been taken from the source, compressed as they are: set against the size
    /// of the file, the progress. Runs ahead of [`Reader::position`] by at most a buffer.
    pub fn stored_position(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
