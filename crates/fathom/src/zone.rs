//! Local time, for people.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// By the variable `TZ`, else /etc/localtime, else UTC.
static HERE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);

/// What is to be added to UTC at this second since 1970; none where the calendar ends.
pub(crate) fn offset_at(second: u64) -> i32 {
    let time = i64::try_from(second).ok();
    let time = time.and_then(|second| Timestamp::from_second(second).ok());
    time.map_or(0, |time| HERE.to_offset(time).seconds())
}
