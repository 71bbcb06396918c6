//! Writing captures.

use std::io::{BufWriter, Write};

use crate::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, OPTION_END, OPTION_INTERFACE_NAME,
    OPTION_TIME_RESOLUTION, SECTION_HEADER,
};
use crate::window::MAX_BLOCK_BYTES;
use crate::{Error, LinkType};

const BUFFER_BYTES: usize = 256 << 10;
/// What a snapshot length of zero stands for, in bytes; libpcap's default.
const DEFAULT_SNAPSHOT_BYTES: u32 = 262_144;
/// The most that a packet may have for [`Reader`](crate::Reader) to take its record, in bytes.
const MAX_SNAPSHOT_BYTES: u32 = MAX_BLOCK_BYTES - 32;

/// Writes a pcap file with nanosecond times, little endian, through a 256 KiB buffer.
///
/// Call [`Writer::finish`] at the end: dropping it writes the rest of the buffer, too, but can't
/// tell of a failure.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: BufWriter<W>,
    snapshot_bytes: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the file header. Packets are cut to `snapshot_bytes`; 0 means 262,144,
    /// and more than 16 MiB - 32 that.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn new(output: W, link_type: LinkType, snapshot_bytes: u32) -> Result<Self, Error> {
        let mut output = BufWriter::with_capacity(BUFFER_BYTES, output);
        let snapshot_bytes = effective_snapshot_bytes(snapshot_bytes);
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&snapshot_bytes.to_le_bytes());
        header[20..22].copy_from_slice(&link_type.0.to_le_bytes());
        output.write_all(&header).map_err(write_error)?;
        Ok(Self {
            output,
            snapshot_bytes,
        })
    }

    /// Appends a packet that had `length` bytes on the wire and was captured `time_ns` nanoseconds
    /// after 1970 UTC.
    ///
    /// # Errors
    /// [`Error::TimeBeyondPcap`] after February 2106; [`Error::Write`].
    pub fn write(&mut self, time_ns: u64, length: u32, data: &[u8]) -> Result<(), Error> {
        let seconds = u32::try_from(time_ns / 1_000_000_000)
            .map_err(|_| Error::TimeBeyondPcap { time_ns })?;
        let data = snapshot(data, self.snapshot_bytes);
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&((time_ns % 1_000_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(data.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&length.to_le_bytes());
        self.output
            .write_all(&header)
            .and_then(|()| self.output.write_all(data))
            .map_err(write_error)
    }

    /// Hands everything written so far to the sink.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.output.flush().map_err(write_error)
    }

    /// Writes what is buffered and gives the sink back.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<W, Error> {
        self.output
            .into_inner()
            .map_err(|error| write_error(error.into_error()))
    }
}

/// Writes a pcapng file of one section, little endian, nanosecond times, with any number of
/// interfaces.
///
/// Call [`SectionWriter::finish`] at the end: dropping it writes the rest of the buffer, too, but
/// can't tell of a failure.
#[derive(Debug)]
pub struct SectionWriter<W: Write> {
    output: BufWriter<W>,
    /// The snapshot length of every interface added.
    snapshot_bytes: Vec<u32>,
}

impl<W: Write> SectionWriter<W> {
    /// Writes the section header.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn new(output: W) -> Result<Self, Error> {
        let mut writer = Self {
            output: BufWriter::with_capacity(BUFFER_BYTES, output),
            snapshot_bytes: Vec::new(),
        };
        let mut body = [0xff; 16]; // The last eight bytes: a section of unknown length.
        body[0..4].copy_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body[4..6].copy_from_slice(&1_u16.to_le_bytes());
        body[6..8].copy_from_slice(&0_u16.to_le_bytes());
        writer.write_block(SECTION_HEADER, &body, &[])?;
        Ok(writer)
    }

    /// Describes an interface and gives its index, from 0. Its packets are cut to `snapshot_bytes`;
    /// 0 means 262,144, and more than 16 MiB - 32 that. Of a name longer than 65,535 bytes, which
    /// the format can't hold, none is written.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn add_interface(
        &mut self,
        name: &str,
        link_type: LinkType,
        snapshot_bytes: u32,
    ) -> Result<u32, Error> {
        let snapshot_bytes = effective_snapshot_bytes(snapshot_bytes);
        let mut body = Vec::with_capacity(32 + name.len());
        body.extend(link_type.0.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend(snapshot_bytes.to_le_bytes());
        push_option(&mut body, OPTION_INTERFACE_NAME, name.as_bytes());
        push_option(&mut body, OPTION_TIME_RESOLUTION, &[9]);
        push_option(&mut body, OPTION_END, &[]);
        self.write_block(INTERFACE_DESCRIPTION, &body, &[])?;
        self.snapshot_bytes.push(snapshot_bytes);
        Ok(self.snapshot_bytes.len() as u32 - 1)
    }

    /// Appends a packet that had `length` bytes on the wire of `interface` and was captured
    /// `time_ns` nanoseconds after 1970 UTC.
    ///
    /// # Errors
    /// [`Error::UnknownInterface`]; [`Error::Write`].
    pub fn write(
        &mut self,
        interface: u32,
        time_ns: u64,
        length: u32,
        data: &[u8],
    ) -> Result<(), Error> {
        let Some(&snapshot_bytes) = self.snapshot_bytes.get(interface as usize) else {
            return Err(Error::UnknownInterface {
                interface,
                described: self.snapshot_bytes.len() as u32,
            });
        };
        let data = snapshot(data, snapshot_bytes);
        let mut fields = [0; 20];
        fields[0..4].copy_from_slice(&interface.to_le_bytes());
        fields[4..8].copy_from_slice(&((time_ns >> 32) as u32).to_le_bytes());
        fields[8..12].copy_from_slice(&(time_ns as u32).to_le_bytes());
        fields[12..16].copy_from_slice(&(data.len() as u32).to_le_bytes());
        fields[16..20].copy_from_slice(&length.to_le_bytes());
        self.write_block(ENHANCED_PACKET, &fields, data)
    }

    /// A block whose body is `fields`, a multiple of four bytes, then `data`, padded.
    fn write_block(&mut self, kind: u32, fields: &[u8], data: &[u8]) -> Result<(), Error> {
        let padding = data.len().next_multiple_of(4) - data.len();
        let total = ((12 + fields.len() + data.len() + padding) as u32).to_le_bytes();
        let mut leading = [0; 8];
        leading[0..4].copy_from_slice(&kind.to_le_bytes());
        leading[4..8].copy_from_slice(&total);
        for part in [&leading[..], fields, data, &[0; 3][..padding], &total] {
            self.output.write_all(part).map_err(write_error)?;
        }
        Ok(())
    }

    /// Hands everything written so far to the sink.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.output.flush().map_err(write_error)
    }

    /// Writes what is buffered and gives the sink back.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<W, Error> {
        self.output
            .into_inner()
            .map_err(|error| write_error(error.into_error()))
    }
}

fn write_error(source: std::io::Error) -> Error {
    Error::Write { source }
}

fn effective_snapshot_bytes(snapshot_bytes: u32) -> u32 {
    if snapshot_bytes == 0 {
        DEFAULT_SNAPSHOT_BYTES
    } else {
        snapshot_bytes.min(MAX_SNAPSHOT_BYTES)
    }
}

fn snapshot(data: &[u8], snapshot_bytes: u32) -> &[u8] {
    &data[..data.len().min(snapshot_bytes as usize)]
}

/// Appends a pcapng option; one too long for its 16-bit length is left out.
fn push_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let Ok(length) = u16::try_from(value.len()) else {
        return;
    };
    body.extend(code.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
