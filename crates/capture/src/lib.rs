//! Capture files as packets: pcap and pcapng in, (time, link type, interface, bytes) out.
//!
//! [`Reader`] recognises the format, its byte order, its time resolution and a gzip or zstd
//! wrapping by magic number, never by name, and lends every packet straight out of its read buffer:
//! nothing is copied or allocated per packet, and a file of any size takes the same memory.
//! [`Writer`] and [`SectionWriter`] write pcap and pcapng. The crate knows nothing of what is
//! inside a packet. The record walks are its own because a general parser costs more per packet
//! than reading the file does: of 1.1 million packets of 124 bytes in the page cache, a bare read
//! takes 8 ns each, this reader 9 (pcapng: 14), pcap-parser 0.17 without any conversion of times 18
//! (36): `cargo bench -p fathom-capture`.
//!
//! ```
//! use fathom_capture::{LinkType, Reader, Writer};
//!
//! let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 65_535)?;
//! writer.write(1_700_000_000_123_456_789, 60, &[0; 60])?;
//! let file = writer.finish()?;
//!
//! let mut reader = Reader::new(std::io::Cursor::new(file))?;
//! while let Some(packet) = reader.next_packet()? {
//!     assert_eq!(packet.time_ns, 1_700_000_000_123_456_789);
//!     assert_eq!(packet.data.len(), 60);
//! }
//! # Ok::<(), fathom_capture::Error>(())
//! ```

mod byte_order;
mod error;
mod link_type;
mod pcap;
mod pcapng;
mod reader;
mod resolution;
mod source;
mod window;
mod writer;

pub use error::Error;
pub use link_type::LinkType;
pub use reader::{Packet, Reader};
pub use writer::{SectionWriter, Writer};
