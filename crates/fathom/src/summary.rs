//! What is said on standard error when a measurement ends.

use std::fmt::Write as _;

/// A headline, and what was counted by name below it.
pub(crate) fn text(headline: &str, named: impl Iterator<Item = (&'static str, u64)>) -> String {
    let named: Vec<_> = named.collect();
    let widths = named.iter().map(|(name, _)| name.len());
    let width = widths.max().unwrap_or_default();
    let mut text = format!("{headline}\n");
    for (name, count) in named {
        // Writing to memory does not fail.
        let _ = writeln!(text, "  {name:width$}  {count}");
    }
    text
}
