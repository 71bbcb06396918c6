//! A line of a vector as words, with the conversions that vectors need.

use std::iter::Peekable;
use std::str::{FromStr, SplitWhitespace};

/// What is wrong with a line, for whoever wrote it.
pub(crate) type Problem = String;

/// The words of a line that are still to be read.
pub(crate) struct Words<'a> {
    words: Peekable<SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    /// All words of `line`.
    pub(crate) fn new(line: &'a str) -> Self {
        Self {
            words: line.split_whitespace().peekable(),
        }
    }

    /// The next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// The next word, which must be there; `what` says what it would have been.
    pub(crate) fn expect(&mut self, what: &str) -> Result<&'a str, Problem> {
        self.words
            .next()
            .ok_or_else(|| format!("{what} is missing at the end of the line"))
    }

    /// The next word without taking it.
    pub(crate) fn peek(&mut self) -> Option<&'a str> {
        self.words.peek().copied()
    }

    /// Takes the next word if it is this one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.words.next_if(|next| *next == word).is_some()
    }

    /// The next word as a number or another type that text can be read as.
    pub(crate) fn value<T: FromStr>(&mut self, what: &str) -> Result<T, Problem> {
        let word = self.expect(what)?;
        word.parse().map_err(|_| format!("\"{word}\" is no {what}"))
    }

    /// The next word as a number if it is one.
    pub(crate) fn value_if<T: FromStr>(&mut self) -> Option<T> {
        let value = self.peek()?.parse().ok()?;
        self.words.next();
        Some(value)
    }

    /// A number and its unit, as nanoseconds: `1.5 ms`, `10 s`, `0 ns`.
    pub(crate) fn duration_ns(&mut self) -> Result<u64, Problem> {
        let number = self.expect("time")?;
        let unit = self.expect("unit of time")?;
        let scale: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            _ => return Err(format!("\"{unit}\" is no unit of time")),
        };
        let wrong = |_| format!("\"{number}\" is no time");
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut time_ns = whole.parse::<u64>().map_err(wrong)? * scale;
        let mut digit_ns = scale;
        for digit in fraction.chars() {
            digit_ns /= 10;
            time_ns += u64::from(
                digit
                    .to_digit(10)
                    .ok_or(format!("\"{number}\" is no time"))?,
            ) * digit_ns;
        }
        Ok(time_ns)
    }

    /// Bytes in hexadecimal, as one word.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Problem> {
        let word = self.expect("hexadecimal bytes")?;
        let wrong = || format!("\"{word}\" are no hexadecimal bytes");
        (0..word.len())
            .step_by(2)
            .map(|at| {
                let digits = word.get(at..at + 2).ok_or_else(wrong)?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())
            })
            .collect()
    }

    /// Refuses words that nobody has read.
    pub(crate) fn end(&mut self) -> Result<(), Problem> {
        self.next().map_or(Ok(()), |word| {
            Err(format!("\"{word}\" is not understood here"))
        })
    }
}
