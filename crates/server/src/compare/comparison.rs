//! Each group against each other.

use super::metric::Kind;
use super::sessions::Group;
use super::statistics::{
    Difference, LEAST_SESSIONS, compare_ranks, compare_shares, corrected, quantile,
};

/// Two groups beside each other.
#[derive(Debug, Clone)]
pub(super) struct Comparison<'a> {
    pub(super) first: &'a Group,
    pub(super) second: &'a Group,
    /// What the test says; `None` where a group is too small for one.
    pub(super) tested: Option<Tested>,
}

/// What a test says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tested {
    pub(super) difference: Difference,
    /// The p corrected for all comparisons of the answer.
    pub(super) corrected_p: f64,
}

impl Tested {
    /// Below this a difference is believed.
    pub(super) const BELIEVED_P: f64 = 0.05;

    pub(super) fn is_believed(&self) -> bool {
        self.corrected_p < Self::BELIEVED_P
    }
}

impl Comparison<'_> {
    /// How much greater the median of the first is.
    pub(super) fn median_difference(&self) -> Option<f64> {
        Some(quantile(&self.first.values, 0.5)? - quantile(&self.second.values, 0.5)?)
    }
}

/// Compares all pairs; of several metrics those of the same metric, or of the same group.
pub(super) fn of_groups(groups: &[Group], kind: Kind) -> Vec<Comparison<'_>> {
    if kind == Kind::Count {
        return Vec::new();
    }
    let mut comparisons = Vec::new();
    for (place, first) in groups.iter().enumerate() {
        for second in &groups[place + 1..] {
            if first.metric == second.metric || first.label == second.label {
                comparisons.push((first, second, difference(first, second, kind)));
            }
        }
    }
    let tested = comparisons.iter().filter_map(|(.., it)| *it);
    let chances: Vec<f64> = tested.map(|difference| difference.p).collect();
    let mut corrected = corrected(&chances).into_iter();
    let comparisons = comparisons.into_iter().map(|(first, second, difference)| {
        let tested = difference.map(|difference| Tested {
            difference,
            corrected_p: corrected.next().unwrap_or(1.0),
        });
        Comparison {
            first,
            second,
            tested,
        }
    });
    comparisons.collect()
}

fn difference(first: &Group, second: &Group, kind: Kind) -> Option<Difference> {
    if kind == Kind::Share {
        let counts = |group: &Group| (group.happened, group.sessions);
        let is_enough = |group: &Group| group.sessions >= LEAST_SESSIONS as u64;
        let are_enough = is_enough(first) && is_enough(second);
        return are_enough.then(|| compare_shares(counts(first), counts(second)));
    }
    let are_enough = first.values.len().min(second.values.len()) >= LEAST_SESSIONS;
    are_enough.then(|| compare_ranks(&first.values, &second.values))
}
