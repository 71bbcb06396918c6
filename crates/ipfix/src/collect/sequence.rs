//! How many records were lost, by the numbers of messages (RFC 7011, sections 3.1 and 10.3.2).

/// The numbers of one stream and domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    /// The number the next message should have; `None` before the first, and after one whose
    /// records could not be counted.
    expected: Option<u32>,
    lost: u64,
}

impl Sequence {
    /// Takes the number of a message and how many records are in it, `None` if that could not be
    /// told. Gives the change of the count of lost records: negative when a message that was
    /// thought lost comes late.
    pub(super) fn message(&mut self, number: u32, records: Option<u32>) -> i64 {
        let ahead = match self.expected {
            Some(expected) => number.wrapping_sub(expected).cast_signed(),
            None => 0,
        };
        let next = records.map(|records| number.wrapping_add(records));
        if ahead >= 0 {
            self.expected = next;
            self.lost += u64::from(ahead.cast_unsigned());
            return i64::from(ahead);
        }
        // An earlier number: a message that was overtaken has been counted as lost; otherwise the
        // exporter has begun anew.
        let late = u64::from(records.unwrap_or(0));
        let was_counted = self.lost >= u64::from(ahead.unsigned_abs()).min(late.max(1));
        if was_counted && late <= u64::from(ahead.unsigned_abs()) {
            self.lost -= late.min(self.lost);
            return -i64::try_from(late).unwrap_or(0);
        }
        *self = Self {
            expected: next,
            lost: 0,
        };
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost records after messages of these numbers and sizes.
    fn lost(messages: &[(u32, u32)]) -> i64 {
        let mut sequence = Sequence::default();
        let messages = messages.iter();
        messages
            .map(|&(number, records)| sequence.message(number, Some(records)))
            .sum()
    }

    #[test]
    fn gaps_are_lost_records() {
        assert_eq!(lost(&[(500, 10), (510, 0), (510, 5), (520, 1)]), 5);
        assert_eq!(lost(&[(u32::MAX - 1, 4), (2, 1), (10, 1)]), 7);
    }

    #[test]
    fn what_comes_late_is_not_lost() {
        assert_eq!(lost(&[(0, 10), (20, 10), (10, 10), (30, 1)]), 0);
        assert_eq!(lost(&[(0, 10), (30, 10), (20, 10), (10, 10), (40, 1)]), 0);
    }

    #[test]
    fn an_exporter_that_begins_anew_has_lost_nothing() {
        assert_eq!(lost(&[(5_000, 10), (0, 10), (10, 10)]), 0);
        assert_eq!(lost(&[(5_000, 10), (0, 10), (20, 10)]), 10);
    }

    #[test]
    fn uncounted_records_are_no_loss() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.message(0, None), 0);
        assert_eq!(sequence.message(77, Some(3)), 0);
        assert_eq!(sequence.message(81, Some(3)), 1);
    }
}
