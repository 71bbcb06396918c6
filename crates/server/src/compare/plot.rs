//! How values are distributed, as a row of bars over an axis that all groups share.
#![expect(
    clippy::cast_sign_loss,
    reason = "counts and durations are not negative"
)]

const WIDTH: usize = 40;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The powers of ten that may be marked, in nanoseconds; what is between them where there is room.
const POWERS: std::ops::RangeInclusive<i32> = 3..=12;

/// A logarithmic axis of nanoseconds, from the least to the greatest value of all groups. What is
/// 0 stands before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    least: f64,
    greatest: f64,
    has_zero: bool,
}

impl Axis {
    /// The axis of some sorted samples; `None` when all values are 0.
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a [f64]>) -> Option<Self> {
        let mut axis: Option<Self> = None;
        let mut has_zero = false;
        for sample in samples {
            let positive = sample.partition_point(|value| *value <= 0.0);
            has_zero |= positive > 0;
            if let (Some(&first), Some(&last)) = (sample.get(positive), sample.last()) {
                let known = axis.unwrap_or(Self {
                    least: first,
                    greatest: last,
                    has_zero,
                });
                axis = Some(Self {
                    least: known.least.min(first),
                    greatest: known.greatest.max(last),
                    has_zero,
                });
            }
        }
        axis.map(|axis| Self { has_zero, ..axis })
    }

    fn cell(&self, value: f64) -> usize {
        let length = (self.greatest / self.least).ln();
        if length <= 0.0 {
            return 0;
        }
        let part = (value / self.least).ln() / length;
        ((part * WIDTH as f64) as usize).min(WIDTH - 1)
    }

    /// The bars of a sorted sample: the highest is as high as any can be, and none is left out that
    /// has a value.
    pub(super) fn bars(&self, sorted: &[f64]) -> String {
        let mut cells = [0_usize; WIDTH];
        let zeros = sorted.partition_point(|value| *value <= 0.0);
        for value in &sorted[zeros..] {
            cells[self.cell(*value)] += 1;
        }
        let highest = cells.iter().copied().max().unwrap_or(0).max(zeros);
        let bar = |count: usize| match count {
            0 => ' ',
            _ => BARS[(count * BARS.len()).div_ceil(highest) - 1],
        };
        let zero = self.has_zero.then(|| format!("{}│", bar(zeros)));
        zero.into_iter()
            .chain([cells.iter().map(|count| bar(*count)).collect()])
            .collect()
    }

    /// What stands below the bars.
    pub(super) fn marks(&self) -> String {
        let mut line = vec![' '; WIDTH];
        let powers = |times: f64| POWERS.map(move |power| times * 10_f64.powi(power));
        let places = powers(1.0).chain(powers(2.0)).chain(powers(5.0));
        for at in places.filter(|at| (self.least..=self.greatest).contains(at)) {
            let cell = self.cell(at);
            let text = format!("└{}", short(at));
            let end = cell + text.chars().count();
            // Marks do not touch each other.
            let around = line.get(cell.saturating_sub(1)..(end + 1).min(WIDTH));
            let is_free = around.is_some_and(|around| around.iter().all(|it| *it == ' '));
            if is_free && end <= WIDTH {
                line.splice(cell..end, text.chars());
            }
        }
        let line: String = line.into_iter().collect();
        let zero = if self.has_zero { "0 " } else { "" };
        format!("{zero}{line}").trim_end().to_owned()
    }
}

/// A round duration.
fn short(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{} ms", ns / 1e6),
        ns => format!("{} us", ns / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_an_axis() {
        let (fast, slow): ([f64; 3], [f64; 1]) = ([1e6, 1e6, 2e6], [1e9]);
        let axis = Axis::of([&fast[..], &slow[..]].into_iter()).unwrap();
        let (fast, slow) = (axis.bars(&fast), axis.bars(&slow));
        assert_eq!(fast.chars().next(), Some('█'));
        assert_eq!(fast.chars().filter(|bar| *bar == '▄').count(), 1);
        assert_eq!(slow.trim_start(), "█");
        assert_eq!(slow.chars().count(), WIDTH);
        let marks = axis.marks();
        assert!(marks.starts_with("└1 ms"), "{marks}");
        let place = marks.chars().position(|it| it == '1').unwrap();
        assert_eq!(place, 1);
        assert!(
            marks.contains("└10 ms") && marks.contains("└100 ms"),
            "{marks}"
        );
    }

    #[test]
    fn what_is_nothing_stands_before_the_axis() {
        let axis = Axis::of([&[0.0, 0.0, 5e6][..]].into_iter()).unwrap();
        assert_eq!(axis.bars(&[0.0, 0.0, 5e6]).trim_end(), "█│▄");
        assert!(axis.marks().starts_with('0'));
        assert_eq!(Axis::of([&[0.0][..], &[][..]].into_iter()), None);
    }
}
