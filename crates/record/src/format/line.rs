//! A line in the making: numbers, addresses and times as digits.

use std::fmt;

/// Constant bytes of a line. Short ones are copied as a block of fixed size, which takes two
/// instructions instead of a call.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Short {
        block: [u8; Piece::BLOCK],
        length: usize,
    },
    Long(Box<[u8]>),
}

impl Piece {
    const BLOCK: usize = 32;

    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut block = [0; Self::BLOCK];
        match block.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                Self::Short {
                    block,
                    length: bytes.len(),
                }
            }
            None => Self::Long(bytes.into()),
        }
    }
}

/// The bytes of a line so far. Its memory is used again for the next one.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// What lies after `length` is left from earlier lines and blocks.
    bytes: Vec<u8>,
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: vec![0; 1024],
            length: 0,
        }
    }
}

impl Line {
    /// The longest block there is.
    const ROOM: usize = Piece::BLOCK;

    /// Begins an empty line.
    pub(super) fn restart(&mut self) {
        self.length = 0;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The block of fixed size after what is written, of which the first `used` bytes will be kept.
    #[inline]
    pub(super) fn block<const SIZE: usize>(&mut self, used: usize) -> &mut [u8; SIZE] {
        const { assert!(SIZE <= Self::ROOM) };
        debug_assert!(used <= SIZE);
        let start = self.length;
        self.length = start + used;
        if self.bytes.len() < start + Self::ROOM {
            self.grow();
        }
        match self.bytes[start..].first_chunk_mut() {
            Some(block) => block,
            None => unreachable!("a line has room for a block after its end"),
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(2 * (self.length + Self::ROOM), 0);
    }

    /// Removes the last bytes.
    #[inline]
    pub(super) fn take_back(&mut self, count: usize) {
        self.length -= count;
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        *self.block(1) = [byte];
    }

    #[inline]
    pub(super) fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Short { block, length } => *self.block(*length) = *block,
            Piece::Long(bytes) => self.slice(bytes),
        }
    }

    /// Any bytes. Names are short: they are copied as two halves that may overlap, again to save
    /// the call.
    #[inline]
    pub(super) fn slice(&mut self, bytes: &[u8]) {
        match bytes.len() {
            2..=4 => self.halves::<2>(bytes),
            5..=8 => self.halves::<4>(bytes),
            9..=16 => self.halves::<8>(bytes),
            _ => self.any_slice(bytes),
        }
    }

    /// Bytes of which there are at least `HALF`, and at most twice that.
    #[inline]
    pub(super) fn halves<const HALF: usize>(&mut self, bytes: &[u8]) {
        let length = bytes.len();
        let block: &mut [u8; 16] = self.block(length);
        if let (Some(first), Some(last)) = (bytes.first_chunk::<HALF>(), bytes.last_chunk::<HALF>())
        {
            block[..HALF].copy_from_slice(first);
            block[length - HALF..length].copy_from_slice(last);
        }
    }

    /// Bytes that are not few.
    pub(super) fn any_slice(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.length += bytes.len();
        if self.bytes.len() < self.length {
            self.grow();
        }
        self.bytes[start..self.length].copy_from_slice(bytes);
    }

    /// A number in decimal digits.
    #[inline]
    pub(super) fn unsigned(&mut self, number: u64) {
        if number < 10 {
            // Most counters of most records.
            self.byte(b'0' + number as u8);
        } else if number < EIGHT_DIGITS {
            self.padded(
                number,
                number.checked_ilog10().map_or(1, |log| log as usize + 1),
            );
        } else {
            self.unsigned_long(number);
        }
    }

    fn unsigned_long(&mut self, number: u64) {
        self.unsigned(number / EIGHT_DIGITS);
        self.padded(number % EIGHT_DIGITS, 8);
    }

    /// The last `digits` decimal digits, from one to eight, of a number of at most eight, with
    /// leading zeros.
    #[inline]
    pub(super) fn padded(&mut self, number: u64, digits: usize) {
        debug_assert!(number < EIGHT_DIGITS && (1..=8).contains(&digits));
        // What follows the digits is overwritten by what comes next.
        let from_the_first = eight_digits(number) >> ((64 - 8 * digits) & 63);
        *self.block(digits) = from_the_first.to_le_bytes();
    }
}

/// The first number with more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// The eight decimal digits of a number below [`EIGHT_DIGITS`], the first one in the lowest byte.
///
/// It divides twice four digits, then four times two, in the lanes of one register: several times
/// faster than digit by digit. The multiplications stand for divisions by 100 and 10, exact for
/// numbers of at most four and two digits.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 5243) >> 19) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | ((pairs - 10 * tens) << 8);
    digits | 0x3030_3030_3030_3030
}

/// The four decimal digits of a number below 10 000, likewise.
#[inline]
pub(super) const fn four_digits(number: u32) -> u32 {
    let hundreds = (number * 5243) >> 19;
    let pairs = hundreds | ((number - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f;
    let digits = tens | ((pairs - 10 * tens) << 8);
    digits | 0x3030_3030
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line_of(put: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::default();
        put(&mut line);
        String::from_utf8(line.bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_line_grows_as_needed() {
        let text = "x".repeat(5000);
        let long = Piece::new(text.as_bytes());
        let shown = line_of(|line| {
            line.piece(&long);
            line.unsigned(7);
            line.slice(text.as_bytes());
            for _ in 0..600 {
                line.slice(b"12345");
            }
        });
        assert_eq!(shown, format!("{text}7{text}{}", "12345".repeat(600)));
    }

    #[test]
    fn text_of_any_length_is_copied() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            let shown = line_of(|line| {
                line.slice(&text.as_bytes()[..length]);
                line.byte(b'.');
            });
            assert_eq!(shown, format!("{}.", &text[..length]));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(number in any::<u64>().prop_map(|bits| bits >> (bits % 64))) {
            prop_assert_eq!(line_of(|line| line.unsigned(number)), number.to_string());
            prop_assert_eq!(line_of(|line| line.padded(number % EIGHT_DIGITS, 8)), format!("{:08}", number % EIGHT_DIGITS));
        }
    }
}
