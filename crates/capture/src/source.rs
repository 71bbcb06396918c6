//! Where the bytes come from: a count of what is read, and decompression.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::Error;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Counts the bytes that pass.
struct Counted<R> {
    inner: R,
    count_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Undoes a gzip or zstd compression, if there is one. Also gives the count of bytes taken from
/// `source` so far.
pub(crate) fn decompressed(
    source: impl Read + Send + 'static,
) -> Result<(Box<dyn Read + Send>, Arc<AtomicU64>), Error> {
    let count_bytes = Arc::new(AtomicU64::new(0));
    let mut counted = Counted {
        inner: source,
        count_bytes: Arc::clone(&count_bytes),
    };
    let read_error = |source| Error::Read { offset: 0, source };
    let mut magic = Vec::with_capacity(ZSTD_MAGIC.len());
    counted
        .by_ref()
        .take(ZSTD_MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .map_err(read_error)?;
    let is_gzip = magic.starts_with(&GZIP_MAGIC);
    let is_zstd = magic.starts_with(&ZSTD_MAGIC);
    let whole = Cursor::new(magic).chain(counted);
    let plain: Box<dyn Read + Send> = if is_gzip {
        // Several members: what `cat a.gz b.gz` and parallel compressors write.
        Box::new(MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(whole).map_err(read_error)?)
    } else {
        Box::new(whole)
    };
    Ok((plain, count_bytes))
}
