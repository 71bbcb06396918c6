//! A batch of records as bytes that tell whether they are whole: what the log is made of.
//!
//! ```text
//! "fthm"  length: u32  CRC-32 of what follows: u32  kind: u8 length, bytes  zstd of an Arrow stream
//! ```
//!
//! Numbers are little-endian. The Arrow stream has the schema and one batch, so each frame can be
//! read without the others. A frame that was sent has its number before it:
//!
//! ```text
//! "fthn"  CRC-32 of what follows: u32  spool: u128  sequence: u64  rows: u32
//! ```

use std::io::{self, Read};

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;

use crate::{Batch, Error, Number};

const MAGIC: [u8; 4] = *b"fthm";
const HEADER_BYTES: usize = 12;
const NUMBER_MAGIC: [u8; 4] = *b"fthn";
const NUMBER_BYTES: usize = 36;
/// No frame is longer: what says so is no frame.
const MOST_BYTES: usize = 256 << 20;
/// Fast, as a log is written once and read once: it takes a third to two thirds of the time of
/// level 1, for frames that are a third to a half larger. Its neighbours suit columns of 8 bytes
/// less.
const LEVEL: i32 = -4;

/// What stands at the start of some bytes.
#[derive(Debug, PartialEq)]
pub(crate) enum Found<T> {
    /// A frame, the number before it, and how many bytes both take.
    Frame(T, Option<Number>, usize),
    /// The beginning of a frame whose rest is missing: it was being written when its writer ended.
    CutOff,
    /// Something else, or a frame whose bytes have changed.
    Damaged,
    /// Nothing.
    Nothing,
}

/// The frame of a batch.
///
/// # Errors
/// [`Error::Records`] when it cannot be encoded.
pub(crate) fn write(batch: &Batch) -> Result<Vec<u8>, Error> {
    let encode = || -> Result<Vec<u8>, ArrowError> {
        let stream = Vec::with_capacity(batch.memory_bytes());
        let mut stream = StreamWriter::try_new(stream, batch.rows.schema_ref())?;
        stream.write(&batch.rows)?;
        stream.finish()?;
        let mut body = vec![batch.kind.len() as u8];
        body.extend_from_slice(batch.kind.as_bytes());
        // At once, so that its length is in it: who reads it need not look for room as it comes.
        body.extend_from_slice(&zstd::bulk::compress(&stream.into_inner()?, LEVEL)?);
        Ok(body)
    };
    let body = encode().map_err(Error::records("encode", &batch.kind))?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The bytes of a number.
pub(crate) fn write_number(number: &Number) -> Vec<u8> {
    let mut body = number.spool.to_le_bytes().to_vec();
    body.extend_from_slice(&number.sequence.to_le_bytes());
    body.extend_from_slice(&number.rows.to_le_bytes());
    let mut bytes = NUMBER_MAGIC.to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn read_number(bytes: &[u8]) -> Option<Number> {
    let (check, body) = bytes.get(4..NUMBER_BYTES)?.split_at_checked(4)?;
    if crc32fast::hash(body).to_le_bytes() != *check {
        return None;
    }
    Some(Number {
        spool: u128::from_le_bytes(body.get(..16)?.try_into().ok()?),
        sequence: u64::from_le_bytes(body.get(16..24)?.try_into().ok()?),
        rows: u32::from_le_bytes(body.get(24..)?.try_into().ok()?),
    })
}

/// What these bytes begin with.
pub(crate) fn read(bytes: &[u8]) -> Found<Batch> {
    match find(bytes) {
        Found::Frame(body, number, length) => match decode(body) {
            Ok(batch) => Found::Frame(batch, number, length),
            Err(_) => Found::Damaged,
        },
        Found::CutOff => Found::CutOff,
        Found::Damaged => Found::Damaged,
        Found::Nothing => Found::Nothing,
    }
}

/// The same, without decoding the batch.
pub(crate) fn find(bytes: &[u8]) -> Found<&[u8]> {
    if bytes.is_empty() {
        return Found::Nothing;
    }
    let begins = |magic: [u8; 4]| magic.starts_with(&bytes[..bytes.len().min(magic.len())]);
    if !begins(NUMBER_MAGIC) {
        return find_body(bytes, None, 0);
    }
    if bytes.len() <= NUMBER_BYTES {
        return Found::CutOff;
    }
    match read_number(bytes) {
        Some(number) => find_body(&bytes[NUMBER_BYTES..], Some(number), NUMBER_BYTES),
        None => Found::Damaged,
    }
}

fn find_body(bytes: &[u8], number: Option<Number>, before: usize) -> Found<&[u8]> {
    if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return Found::Damaged;
    }
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Found::CutOff;
    };
    let field = |at: usize| {
        let four = header[at..at + 4].try_into();
        four.map_or(0, u32::from_le_bytes)
    };
    let length = field(4) as usize;
    if length > MOST_BYTES {
        return Found::Damaged;
    }
    let Some(body) = rest.get(..length) else {
        return Found::CutOff;
    };
    if crc32fast::hash(body) != field(8) {
        return Found::Damaged;
    }
    Found::Frame(body, number, before + HEADER_BYTES + length)
}

fn decode(body: &[u8]) -> Result<Batch, ArrowError> {
    let bad = |what: &str| ArrowError::IoError(what.to_owned(), io::ErrorKind::InvalidData.into());
    let (&length, rest) = body.split_first().ok_or_else(|| bad("no kind"))?;
    let (kind, compressed) = rest
        .split_at_checked(length.into())
        .ok_or_else(|| bad("no kind"))?;
    let kind = std::str::from_utf8(kind).map_err(|_| bad("no kind"))?;
    // The columns stay where they were decompressed.
    let mut stream = Buffer::from_vec(decompress(compressed)?);
    let rows = StreamDecoder::new().decode(&mut stream)?;
    Ok(Batch::new(kind, rows.ok_or_else(|| bad("no batch"))?))
}

fn decompress(compressed: &[u8]) -> io::Result<Vec<u8>> {
    if let Ok(Some(length)) = zstd::zstd_safe::get_frame_content_size(compressed) {
        return zstd::bulk::decompress(compressed, length.min(MOST_BYTES as u64) as usize);
    }
    // Written in pieces, as logs and spools of before are.
    let mut stream = Vec::new();
    let decoder = zstd::Decoder::new(compressed)?;
    decoder.take(MOST_BYTES as u64).read_to_end(&mut stream)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_at_once_or_in_pieces_is_read() {
        let text = b"records ".repeat(1000);
        for compressed in [
            zstd::bulk::compress(&text, LEVEL).unwrap(),
            zstd::encode_all(text.as_slice(), LEVEL).unwrap(),
        ] {
            assert_eq!(decompress(&compressed).unwrap(), text);
            assert!(decompress(&compressed[..compressed.len() / 2]).is_err());
        }
    }
}
