//! What becomes of fields when records become one of a longer time.

use std::fmt;

/// What becomes of a field when several records become one: those that say the same in all fields
/// without a fold, one after the other in time. Kinds of which a record is an interval of a flow,
/// or of whatever else, declare it for their fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fold<'a> {
    /// It becomes the end of the longer interval.
    End,
    /// It becomes the length of the longer interval. A kind without such a field is not folded.
    Length,
    /// All of them add up.
    Sum,
    /// It counts a second: over the longer interval what it counts adds up.
    Rate,
    /// The least of them.
    Least,
    /// The greatest of them.
    Greatest,
    /// Their mean, each with the weight that the field of this name has in its record.
    Mean(&'a str),
    /// The standard deviation of all samples, of which each record has this: the fields of these
    /// names have their mean and their number.
    Deviation {
        /// The mean of a record's samples.
        mean: &'a str,
        /// How many it has.
        weight: &'a str,
    },
    /// Their histograms become one.
    Merge,
    /// What so many of a hundred samples of that histogram do not exceed.
    Percentile(u8),
    /// Nothing can be said of the longer interval.
    Absent,
}

impl<'a> Fold<'a> {
    /// From what it is shown as.
    pub fn parse(text: &'a str) -> Option<Self> {
        Some(match text.split_once(' ') {
            None => match text {
                "end" => Self::End,
                "length" => Self::Length,
                "sum" => Self::Sum,
                "rate" => Self::Rate,
                "least" => Self::Least,
                "greatest" => Self::Greatest,
                "merge" => Self::Merge,
                "absent" => Self::Absent,
                _ => return None,
            },
            Some(("mean", weight)) => Self::Mean(weight),
            Some(("deviation", rest)) => {
                let (mean, weight) = rest.split_once(' ')?;
                Self::Deviation { mean, weight }
            }
            Some(("percentile", percent)) => Self::Percentile(percent.parse().ok()?),
            Some(_) => return None,
        })
    }
}

/// As metadata of columns say it.
impl fmt::Display for Fold<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::End => "end",
            Self::Length => "length",
            Self::Sum => "sum",
            Self::Rate => "rate",
            Self::Least => "least",
            Self::Greatest => "greatest",
            Self::Merge => "merge",
            Self::Absent => "absent",
            Self::Mean(weight) => return write!(formatter, "mean {weight}"),
            Self::Deviation { mean, weight } => {
                return write!(formatter, "deviation {mean} {weight}");
            }
            Self::Percentile(percent) => return write!(formatter, "percentile {percent}"),
        };
        formatter.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back() {
        for fold in [
            Fold::End,
            Fold::Length,
            Fold::Sum,
            Fold::Rate,
            Fold::Least,
            Fold::Greatest,
            Fold::Mean("packets"),
            Fold::Deviation {
                mean: "rtt_mean_ns",
                weight: "packets",
            },
            Fold::Merge,
            Fold::Percentile(99),
            Fold::Absent,
        ] {
            assert_eq!(Fold::parse(&fold.to_string()), Some(fold));
        }
        for other in [
            "",
            "median",
            "mean",
            "deviation of",
            "percentile many",
            "sum of",
        ] {
            assert_eq!(Fold::parse(other), None, "{other}");
        }
    }
}
