//! From when, until when: as people say it.

use std::str::FromStr;
use std::time::Duration;

use anyhow::ensure;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A moment: a time, a time of day, or so long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Ago(Duration),
    At(Timestamp),
    /// In this host's time zone, lately.
    Local(Time),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let local = |time: DateTime| time.to_zoned(TimeZone::system()).ok();
        let at = |time: Zoned| Self::At(time.timestamp());
        let duration = humantime::parse_duration(text).ok().map(Self::Ago);
        // A time of day is tried last: it would be read out of a whole date, too.
        duration
            .or_else(|| text.parse().ok().map(Self::At))
            .or_else(|| text.parse().ok().and_then(local).map(at))
            .or_else(|| text.parse().ok().map(Self::Local))
            .ok_or_else(|| {
                "it is neither a duration such as 7d, nor a time such as 12:00, 2026-11-24T08:00 (of this host's time zone) or 2026-11-24T08:00:00Z".to_owned()
            })
    }
}

impl Moment {
    /// When it is; at the earliest the beginning of 1970. A time of day is the last one.
    pub(crate) fn time(self, now: &Zoned) -> Timestamp {
        let time = match self {
            Self::Ago(duration) => now.timestamp().checked_sub(duration).ok(),
            Self::At(time) => Some(time),
            Self::Local(time) => last(time, now),
        };
        let time = time.unwrap_or(Timestamp::UNIX_EPOCH);
        time.max(Timestamp::UNIX_EPOCH)
    }
}

/// From `since`, which may be so long before `until`, to `until`; by default that is now.
///
/// # Errors
/// When nothing is between them.
pub(crate) fn span(
    since: Moment,
    until: Option<Moment>,
    now: &Zoned,
) -> anyhow::Result<(Timestamp, Timestamp)> {
    let until = until.map_or(now.timestamp(), |until| until.time(now));
    let since = since.time(&until.to_zoned(now.time_zone().clone()));
    ensure!(
        since < until,
        "nothing is between {since} and {until}: --since is to be before --until"
    );
    Ok((since, until))
}

/// When it was that time of day.
fn last(time: Time, now: &Zoned) -> Option<Timestamp> {
    let day = |date: jiff::civil::Date| {
        let zoned = date.to_datetime(time).to_zoned(now.time_zone().clone());
        zoned.ok().map(|zoned| zoned.timestamp())
    };
    let today = day(now.date())?;
    if today <= now.timestamp() {
        return Some(today);
    }
    day(now.date().yesterday().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> String {
        let now: Zoned = "2026-11-26T10:30:00+01:00[Europe/Berlin]".parse().unwrap();
        text.parse::<Moment>().unwrap().time(&now).to_string()
    }

    #[test]
    fn a_moment_is_a_time_or_so_long_ago() {
        assert_eq!(time("30m"), "2026-11-26T09:00:00Z");
        assert_eq!(time("2026-11-24T08:00:00Z"), "2026-11-24T08:00:00Z");
        assert_eq!(time("2026-11-24T08:00+02:00"), "2026-11-24T06:00:00Z");
        assert_eq!(time("1000years"), "1970-01-01T00:00:00Z");
        assert!("noon".parse::<Moment>().is_err());
        assert!("25:00".parse::<Moment>().is_err());
    }

    #[test]
    fn a_time_of_day_is_the_last_one_here() {
        assert_eq!(time("10:00"), "2026-11-26T09:00:00Z");
        assert_eq!(time("12:00"), "2026-11-25T11:00:00Z", "yesterday");
        assert_eq!(time("10:30:00"), "2026-11-26T09:30:00Z");
    }

    #[test]
    fn so_long_ago_is_before_the_end() {
        let now: Zoned = "2026-11-26T10:30:00+01:00[Europe/Berlin]".parse().unwrap();
        let moment = |text: &str| text.parse::<Moment>().unwrap();
        let (since, until) = span(moment("1h"), Some(moment("08:00")), &now).unwrap();
        assert_eq!(since.to_string(), "2026-11-26T06:00:00Z");
        assert_eq!(until.to_string(), "2026-11-26T07:00:00Z");
        assert!(span(moment("2027-01-01T00:00:00Z"), None, &now).is_err());
    }

    #[test]
    fn a_date_is_one_of_this_host() {
        let local: DateTime = "2026-11-24T08:00".parse().unwrap();
        let local = local.to_zoned(TimeZone::system()).unwrap().timestamp();
        assert_eq!("2026-11-24 08:00".parse(), Ok(Moment::At(local)));
    }
}
