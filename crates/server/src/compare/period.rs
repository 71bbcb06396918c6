//! From when until when.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

/// A moment: a time, or so long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Ago(Duration),
    At(Timestamp),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(duration) = humantime::parse_duration(text) {
            return Ok(Self::Ago(duration));
        }
        let time = text.parse().map(Self::At);
        time.map_err(|_| {
            "it is neither a duration such as 7d nor a time such as 2026-11-24T08:00:00Z".to_owned()
        })
    }
}

impl Moment {
    /// When it is; at the earliest the beginning of 1970.
    pub(super) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(duration) => now
                .checked_sub(duration)
                .map_or(Timestamp::UNIX_EPOCH, |time| {
                    time.max(Timestamp::UNIX_EPOCH)
                }),
            Self::At(time) => time,
        }
    }
}
