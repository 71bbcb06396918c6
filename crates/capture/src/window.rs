//! The part of the file that is in memory.

use std::fmt;
use std::io::{self, Read};

use crate::Error;

/// The longest record or block that is read whole, in bytes; longer ones are refused. Wireshark's
/// limit, too.
pub(crate) const MAX_BLOCK_BYTES: u32 = 16 << 20;

/// The size of the buffer until a block needs more, in bytes. 256 KiB stays in a core's
/// second-level cache, so that walking the records after the read finds them there.
const INITIAL_BYTES: usize = 256 << 10;

/// A sliding window over a stream. The bytes lent by [`Window::bytes`] stay in place until the next
/// [`Window::ensure`].
///
/// It reads instead of mapping the file: a mapping costs page faults (154 MB in the page cache were
/// walked in 10 ms by reading, in 22 ms by a mapping, 28 ms with it populated in advance), kills
/// the process when the file is shortened meanwhile, and does not exist for a pipe. Buffers from 64
/// KiB to 1 MiB measure the same.
pub(crate) struct Window {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// First byte not yet consumed, as an index into `buffer`.
    start: usize,
    /// End of the bytes read, as an index into `buffer`.
    end: usize,
    /// Offset in the file of `buffer[0]`.
    buffer_offset: u64,
    state: SourceState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceState {
    Open,
    Ended,
    /// The compressed stream stops before its end: what follows the last byte is lost, even at a
    /// record boundary.
    CutOff,
}

impl Window {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source,
            buffer: vec![0; INITIAL_BYTES],
            start: 0,
            end: 0,
            buffer_offset: 0,
            state: SourceState::Open,
        }
    }

    /// Offset in the file of the first byte that is not consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.buffer_offset + self.start as u64
    }

    /// Makes `length` unconsumed bytes available; `false` when the file ends before.
    #[inline]
    pub(crate) fn ensure(&mut self, length: usize) -> Result<bool, Error> {
        if self.end - self.start >= length {
            return Ok(true);
        }
        self.fill(length)
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, length: usize) -> Result<bool, Error> {
        debug_assert!(length <= MAX_BLOCK_BYTES as usize + 64);
        self.buffer.copy_within(self.start..self.end, 0);
        self.buffer_offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        while self.end < length && self.state == SourceState::Open {
            if self.end == self.buffer.len() {
                // Doubled only when full, so that memory follows the bytes that exist, not a length
                // that claims them.
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.state = SourceState::Ended,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.state = SourceState::CutOff;
                }
                Err(source) => {
                    return Err(Error::Read {
                        offset: self.end_offset(),
                        source,
                    });
                }
            }
        }
        Ok(self.end >= length)
    }

    fn end_offset(&self) -> u64 {
        self.buffer_offset + self.end as u64
    }

    /// The unconsumed bytes that are in memory.
    #[inline]
    pub(crate) fn unconsumed(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes `length` bytes, which must be available, and gives the offset of the first for
    /// [`Window::bytes`].
    #[inline]
    pub(crate) fn consume(&mut self, length: usize) -> usize {
        let offset = self.start;
        self.start += length;
        debug_assert!(self.start <= self.end);
        offset
    }

    #[inline]
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        &self.buffer[offset..offset + length]
    }

    /// The file ends here or inside the record that begins here.
    pub(crate) fn cut_off(&self) -> Error {
        Error::Truncated {
            offset: self.offset(),
            end: self.end_offset(),
        }
    }

    /// After a failed [`Window::ensure`] of a record's header: the regular end of the file, or
    /// [`Error::Truncated`].
    pub(crate) fn check_ended_between_records(&self) -> Result<(), Error> {
        if self.start == self.end && self.state != SourceState::CutOff {
            return Ok(());
        }
        Err(self.cut_off())
    }

    /// What stands at the first unconsumed byte is not what the format allows. The texts are made
    /// here, away from the path of every packet.
    #[cold]
    #[inline(never)]
    pub(crate) fn malformed(
        &self,
        expected: fmt::Arguments<'_>,
        found: fmt::Arguments<'_>,
    ) -> Error {
        Error::Malformed {
            offset: self.offset(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
