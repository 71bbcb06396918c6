//! Texts that need no escaping.

use super::line::Line;

impl Line {
    /// Appends a short text if it surely has only printable ASCII, and none of `except`; says
    /// whether it did.
    ///
    /// Names are short, and looking at eight bytes at a time costs a fraction of looking at each.
    #[inline]
    pub(super) fn plain<const COUNT: usize>(&mut self, text: &str, except: [u8; COUNT]) -> bool {
        let bytes = text.as_bytes();
        match bytes.len() {
            4..8 => {
                let is_plain = is_plain(pair(bytes), except);
                if is_plain {
                    self.halves::<4>(bytes);
                }
                is_plain
            }
            8..=16 => {
                let [first, last] = [bytes.first_chunk(), bytes.last_chunk()].map(word);
                let is_plain = is_plain(first, except) && is_plain(last, except);
                if is_plain {
                    self.halves::<8>(bytes);
                }
                is_plain
            }
            _ => false,
        }
    }
}

#[inline]
fn is_plain<const COUNT: usize>(word: u64, except: [u8; COUNT]) -> bool {
    let outside = below(word, 0x20) | word.wrapping_add(ONES) | word;
    let found = except.map(|byte| below(word ^ (ONES * u64::from(byte)), 1));
    let marks = found
        .into_iter()
        .fold(outside, |marks, found| marks | found);
    marks & (ONES << 7) == 0
}

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Marks the lowest byte below `limit` in its highest bit, and no byte if there is none; may mark
/// others above it.
#[inline]
fn below(word: u64, limit: u64) -> u64 {
    word.wrapping_sub(ONES * limit) & !word
}

#[inline]
fn word(bytes: Option<&[u8; 8]>) -> u64 {
    bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes))
}

/// The first and the last four bytes.
#[inline]
fn pair(bytes: &[u8]) -> u64 {
    let half = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |&bytes| u32::from_le_bytes(bytes));
    u64::from(half(bytes.first_chunk())) << 32 | u64::from(half(bytes.last_chunk()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_put(text: &str) -> bool {
        let mut line = Line::default();
        let is_put = line.plain(text, [b'"', b',']);
        assert_eq!(line.bytes(), if is_put { text.as_bytes() } else { b"" });
        is_put
    }

    #[test]
    fn any_byte_anywhere_is_seen() {
        for length in 0..20 {
            assert_eq!(is_put(&"a".repeat(length)), (4..=16).contains(&length));
            for position in 0..length {
                for byte in 0..=0x7f_u8 {
                    let mut text = "a".repeat(length);
                    text.replace_range(position..=position, char::from(byte).encode_utf8(&mut [0]));
                    let is_harmless = matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b',';
                    assert_eq!(
                        is_put(&text),
                        is_harmless && (4..=16).contains(&length),
                        "{text:?}"
                    );
                }
            }
        }
        assert!(!is_put("année"));
    }
}
