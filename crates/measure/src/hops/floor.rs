//! The least of a series, where the least may rise: by drift of a clock, or because the path has
//! become longer.

/// A minimum that forgets slowly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floor {
    /// The least value, and when it was found.
    least: Option<(u64, i64)>,
    /// How much it is raised, in parts of a million of the time that passes.
    rise_ppm: i64,
}

impl Floor {
    pub(super) fn new(rise_ppm: i64) -> Self {
        Self {
            least: None,
            rise_ppm,
        }
    }

    /// Takes a value, ns, at a time, ns.
    pub(super) fn take(&mut self, time: u64, value: i64) {
        if self.level(time).is_none_or(|level| value < level) {
            self.least = Some((time, value));
        }
    }

    /// The least by now, ns; `None` before the first value.
    pub(super) fn level(&self, time: u64) -> Option<i64> {
        let (found, least) = self.least?;
        let passed_ms = time.saturating_sub(found) / 1_000_000;
        Some(least + passed_ms.cast_signed() * self.rise_ppm)
    }

    /// How much more than the least a value is, ns; 0 before the first value.
    pub(super) fn excess(&self, time: u64, value: i64) -> u64 {
        let level = self.level(time).unwrap_or(value);
        u64::try_from(value - level).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_rises_until_something_lies_lower() {
        const SECOND: u64 = 1_000_000_000;
        let mut floor = Floor::new(50);
        assert_eq!(floor.excess(0, 7), 0);
        floor.take(0, 1_000_000);
        floor.take(SECOND, 3_000_000);
        // 50 us a second.
        assert_eq!(floor.level(10 * SECOND), Some(1_500_000));
        assert_eq!(floor.excess(10 * SECOND, 3_000_000), 1_500_000);
        assert_eq!(floor.excess(10 * SECOND, 1_200_000), 0);
        floor.take(10 * SECOND, 1_200_000);
        assert_eq!(floor.level(10 * SECOND), Some(1_200_000));
        floor.take(11 * SECOND, -5);
        assert_eq!(floor.level(9 * SECOND), Some(-5));
    }
}
