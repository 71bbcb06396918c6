//! A batch of records as bytes that tell whether they are whole: what the log is made of.
//!
//! ```text
//! "fthm"  length: u32  CRC-32 of what follows: u32  kind: u8 length, bytes  zstd of an Arrow stream
//! ```
//!
//! Numbers are little-endian. The Arrow stream has the schema and one batch, so each frame can be
//! read without the others.

use std::io::{self, Read};

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;

use crate::{Batch, Error};

const MAGIC: [u8; 4] = *b"fthm";
const HEADER_BYTES: usize = 12;
/// No frame is longer: what says so is no frame.
const MOST_BYTES: usize = 256 << 20;
/// Fast, as a log is written once and seldom read.
const LEVEL: i32 = 1;

/// What stands at the start of some bytes.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// A batch, which takes so many bytes.
    Batch(Batch, usize),
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
        let mut body = vec![batch.kind.len() as u8];
        body.extend_from_slice(batch.kind.as_bytes());
        let compressed = zstd::Encoder::new(body, LEVEL)?;
        let mut stream = StreamWriter::try_new(compressed, batch.rows.schema_ref())?;
        stream.write(&batch.rows)?;
        stream.finish()?;
        Ok(stream.into_inner()?.finish()?)
    };
    let body = encode().map_err(Error::records("encode", &batch.kind))?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// What these bytes begin with.
pub(crate) fn read(bytes: &[u8]) -> Found {
    if bytes.is_empty() {
        return Found::Nothing;
    }
    if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return Found::Damaged;
    }
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Found::CutOff;
    };
    let number = |at: usize| {
        let four = header[at..at + 4].try_into();
        four.map_or(0, u32::from_le_bytes)
    };
    let length = number(4) as usize;
    if length > MOST_BYTES {
        return Found::Damaged;
    }
    let Some(body) = rest.get(..length) else {
        return Found::CutOff;
    };
    if crc32fast::hash(body) != number(8) {
        return Found::Damaged;
    }
    match decode(body) {
        Ok(batch) => Found::Batch(batch, HEADER_BYTES + length),
        Err(_) => Found::Damaged,
    }
}

fn decode(body: &[u8]) -> Result<Batch, ArrowError> {
    let bad = |what: &str| ArrowError::IoError(what.to_owned(), io::ErrorKind::InvalidData.into());
    let (&length, rest) = body.split_first().ok_or_else(|| bad("no kind"))?;
    let (kind, compressed) = rest
        .split_at_checked(length.into())
        .ok_or_else(|| bad("no kind"))?;
    let kind = std::str::from_utf8(kind).map_err(|_| bad("no kind"))?;
    let mut stream = Vec::new();
    let decoder = zstd::Decoder::new(compressed)?;
    decoder.take(MOST_BYTES as u64).read_to_end(&mut stream)?;
    let mut batches = StreamReader::try_new(stream.as_slice(), None)?;
    let rows = batches.next().ok_or_else(|| bad("no batch"))??;
    Ok(Batch {
        kind: kind.into(),
        rows,
    })
}
