//! The classic pcap file format, with microseconds, which every tool in the comparison reads.

use std::io::{self, Write};

/// Bytes of a packet that are kept: enough for Ethernet, IPv6 and the longest TCP header.
pub(crate) const SNAP_LENGTH: usize = 128;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const LINK_TYPE_ETHERNET: u32 = 1;

/// Writes one capture of Ethernet frames.
#[derive(Debug)]
pub(crate) struct Writer<W: Write> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes the file header.
    pub(crate) fn new(mut output: W) -> io::Result<Self> {
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&MAGIC_MICROSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&(SNAP_LENGTH as u32).to_le_bytes());
        header[20..24].copy_from_slice(&LINK_TYPE_ETHERNET.to_le_bytes());
        output.write_all(&header)?;
        Ok(Self { output })
    }

    /// Writes the first bytes of a frame that had `original_bytes` on the wire.
    pub(crate) fn write(
        &mut self,
        time_us: u64,
        frame: &[u8],
        original_bytes: usize,
    ) -> io::Result<()> {
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&((time_us / 1_000_000) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((time_us % 1_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(original_bytes as u32).to_le_bytes());
        self.output.write_all(&header)?;
        self.output.write_all(frame)
    }

    /// Hands everything to the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_follows_the_file_header() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        writer.write(1_700_000_000_000_007, &[1, 2, 3], 60).unwrap();
        writer.flush().unwrap();
        assert_eq!(file[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(file[16..24], [128, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(file[24..28], 1_700_000_000_u32.to_le_bytes());
        assert_eq!(file[28..], [7, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3]);
    }
}
