//! Which time is shown.

use clap::ValueEnum;

use crate::lists::Range;

/// How long a range is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Width {
    /// A minute.
    #[value(name = "1m")]
    Minute,
    /// Ten minutes.
    #[value(name = "10m")]
    TenMinutes,
    /// An hour.
    #[value(name = "1h")]
    Hour,
    /// A day.
    #[value(name = "1d")]
    Day,
}

impl Width {
    const ALL: [Self; 4] = [Self::Minute, Self::TenMinutes, Self::Hour, Self::Day];

    /// So many seconds.
    pub(crate) fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::TenMinutes => 600,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    pub(super) fn ns(self) -> i64 {
        self.seconds() * 1_000_000_000
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Minute => "1 minute",
            Self::TenMinutes => "10 minutes",
            Self::Hour => "1 hour",
            Self::Day => "1 day",
        }
    }

    fn moved(self, by: isize) -> Self {
        let place = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        let place = place.saturating_add_signed(by).min(Self::ALL.len() - 1);
        Self::ALL[place]
    }
}

/// What the user chose: a width, and an end, or the newest records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Nanoseconds since the Unix epoch; `None`: it follows the newest records.
    pub(super) end_ns: Option<i64>,
    pub(super) width: Width,
}

impl Span {
    /// The range it is, where the newest record has this time.
    pub(super) fn range(self, newest_ns: i64) -> Range {
        let to_ns = self.end_ns.unwrap_or(newest_ns);
        Range {
            from_ns: to_ns.saturating_sub(self.width.ns()),
            to_ns,
        }
    }

    /// The same, half its width later, or earlier. What would reach the newest record follows it.
    pub(super) fn moved(self, steps: i64, newest_ns: i64) -> Self {
        let end_ns = self.end_ns.unwrap_or(newest_ns) + steps * self.width.ns() / 2;
        Self {
            end_ns: Some(end_ns).filter(|end_ns| *end_ns < newest_ns),
            ..self
        }
    }

    /// A wider one, or one less wide, with the same end.
    pub(super) fn widened(self, by: isize) -> Self {
        Self {
            width: self.width.moved(by),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_back_and_to_the_newest_records_again() {
        let second = 1_000_000_000;
        let newest = 1_000 * second;
        let live = Span {
            end_ns: None,
            width: Width::Minute,
        };
        let back = live.moved(-1, newest);
        assert_eq!(back.range(newest).to_ns, 970 * second);
        assert_eq!(back.range(newest).from_ns, 910 * second);
        // New records do not move what was chosen.
        assert_eq!(back.range(newest + second), back.range(newest));
        assert_eq!(back.moved(1, newest), live);
        assert_eq!(live.moved(1, newest), live);
    }

    #[test]
    fn widths_end_at_both_ends() {
        let mut span = Span {
            end_ns: Some(0),
            width: Width::Hour,
        };
        for _ in 0..9 {
            span = span.widened(1);
        }
        assert_eq!(span.width, Width::Day);
        for _ in 0..9 {
            span = span.widened(-1);
        }
        assert_eq!((span.width, span.end_ns), (Width::Minute, Some(0)));
    }
}
