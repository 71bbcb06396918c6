//! Records on their way from one process to the store of another.

use crate::frame::{self, Found};
use crate::{Batch, Error};

/// The longest name of a kind that is taken from others.
const LONGEST_KIND_BYTES: usize = 64;

/// Which batch of which sender it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// A random number: whose sequence this is.
    pub spool: u128,
    /// 1, 2, 3 and so on, for what is in one spool.
    pub sequence: u64,
    /// How many records the batch has.
    pub rows: u32,
}

/// A batch that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Which one.
    pub number: Number,
    /// The records.
    pub batch: Batch,
    /// As they came.
    pub(crate) bytes: Vec<u8>,
}

/// Why bytes that were sent are of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Bytes are missing, were changed, or are something else.
    #[error("byte {0} begins no whole batch of records")]
    Bytes(usize),
    /// No number says which one it is.
    #[error("a batch has no number")]
    NoNumber,
    /// The kind has no name that a directory can have.
    #[error("`{0}` is no name of a kind: 1 to 64 letters, digits and `_`")]
    Kind(String),
}

/// The bytes of a batch that has this number, which [`received`] reads. The number's `rows` are
/// those of the batch.
///
/// # Errors
/// [`Error::Records`] when it cannot be encoded.
pub fn encode(number: Number, batch: &Batch) -> Result<Vec<u8>, Error> {
    let rows = u32::try_from(batch.rows.num_rows()).unwrap_or(u32::MAX);
    let mut bytes = frame::write_number(&Number { rows, ..number });
    bytes.extend_from_slice(&batch.frame()?);
    Ok(bytes)
}

/// What some bytes of a spool begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// A batch, and how many bytes it takes.
    Batch(Number, usize),
    /// The beginning of one whose rest is missing.
    CutOff,
    /// Bytes that have changed, or are none of a spool's.
    Damaged,
    /// Nothing.
    Nothing,
}

/// Whether a whole batch begins here.
pub fn whole(bytes: &[u8]) -> Whole {
    match frame::find(bytes) {
        Found::Frame(_, Some(number), length) => Whole::Batch(number, length),
        Found::Frame(_, None, _) | Found::Damaged => Whole::Damaged,
        Found::CutOff => Whole::CutOff,
        Found::Nothing => Whole::Nothing,
    }
}

/// The batches that were sent in these bytes.
///
/// # Errors
/// When anything of it is not what [`encode`] makes.
pub fn received(bytes: &[u8]) -> Result<Vec<Sent>, Unreadable> {
    let mut all = Vec::new();
    let mut at = 0;
    loop {
        match frame::read(&bytes[at..]) {
            Found::Frame(_, None, _) => return Err(Unreadable::NoNumber),
            Found::Frame(batch, Some(number), length) => {
                if !is_kind(&batch.kind) {
                    return Err(Unreadable::Kind(batch.kind.escape_default().to_string()));
                }
                let bytes = bytes[at..at + length].to_vec();
                all.push(Sent {
                    number,
                    batch,
                    bytes,
                });
                at += length;
            }
            Found::Nothing => return Ok(all),
            Found::CutOff | Found::Damaged => return Err(Unreadable::Bytes(at)),
        }
    }
}

/// Can a kind have this name? It is that of a directory, which other things of a store are not
/// called.
pub fn is_kind(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=LONGEST_KIND_BYTES).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !matches!(name, "log" | "aside" | "senders" | "version" | "lock")
}
