//! Which columns a terminal has room for.

/// Space between columns.
pub(crate) const SPACING: u16 = 2;

/// Columns of `all` that fit into this width together, in their order there; the first `by_importance` are left out last.
pub(crate) fn fitting_of<C: Copy + PartialEq>(
    all: &[C],
    by_importance: &[C],
    width_of: impl Fn(C) -> u16,
    width: u16,
) -> Vec<C> {
    let mut used = 0;
    let chosen: Vec<_> = by_importance
        .iter()
        .take_while(|column| {
            used += width_of(**column) + SPACING;
            used <= width + SPACING
        })
        .collect();
    let is_chosen = |column: &C| chosen.contains(&column);
    all.iter().copied().filter(is_chosen).collect()
}
