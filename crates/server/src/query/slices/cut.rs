//! Which slices of time there are.

/// So many rows of one table or several are worth a slice. Tests have few.
const ROWS: u64 = if cfg!(test) { 64 } else { 128 << 10 };
/// More are several slices, though that takes longer: their tables need too much memory.
const MOST_ROWS: u64 = 4 * ROWS;

/// Some records: a file, or what is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The time of the first, in nanoseconds since 1970.
    pub(super) first_ns: i64,
    /// The time of the last.
    pub(super) last_ns: i64,
    /// How many there are.
    pub(super) rows: u64,
}

/// A slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    /// Its first nanosecond, since 1970.
    pub(super) first_ns: i64,
    /// Its last.
    pub(super) last_ns: i64,
}

impl Slice {
    /// Are some of its records in this slice?
    pub(super) fn touches(&self, piece: &Piece) -> bool {
        piece.first_ns <= self.last_ns && self.first_ns <= piece.last_ns
    }

    /// Are all of them?
    pub(super) fn has(&self, piece: &Piece) -> bool {
        self.first_ns <= piece.first_ns && piece.last_ns <= self.last_ns
    }
}

/// Slices that have all records of these pieces, each once, in the order of time. Pieces stay whole
/// where they are small enough: those of an hour end where those of the next begin.
pub(super) fn slices(mut pieces: Vec<Piece>) -> Vec<Slice> {
    pieces.sort_by_key(|piece| piece.first_ns);
    let mut slices = Vec::new();
    let mut open: Option<Piece> = None;
    for piece in runs(&pieces) {
        match &mut open {
            Some(open) if open.rows + piece.rows <= ROWS => {
                open.last_ns = piece.last_ns;
                open.rows += piece.rows;
            }
            _ => slices.extend(open.replace(piece).into_iter().flat_map(cut)),
        }
    }
    slices.extend(open.into_iter().flat_map(cut));
    slices
}

/// Pieces whose times overlap are one. They come in the order of their first records.
fn runs(pieces: &[Piece]) -> Vec<Piece> {
    let mut runs: Vec<Piece> = Vec::new();
    for &piece in pieces {
        match runs.last_mut() {
            Some(run) if piece.first_ns <= run.last_ns => {
                run.last_ns = run.last_ns.max(piece.last_ns);
                run.rows += piece.rows;
            }
            _ => runs.push(piece),
        }
    }
    runs
}

/// As many slices as it is worth, of the same length.
fn cut(run: Piece) -> Vec<Slice> {
    let parts = i128::from(run.rows.div_ceil(MOST_ROWS).max(1));
    let (first_ns, last_ns) = (i128::from(run.first_ns), i128::from(run.last_ns));
    let span_ns = last_ns - first_ns + 1;
    let parts = parts.min(span_ns);
    let begin = |part: i128| first_ns + span_ns * part / parts;
    let slices = (0..parts).map(|part| Slice {
        first_ns: begin(part) as i64,
        last_ns: (begin(part + 1) - 1) as i64,
    });
    slices.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(first_ns: i64, last_ns: i64, rows: u64) -> Piece {
        Piece {
            first_ns,
            last_ns,
            rows,
        }
    }

    fn slice(first_ns: i64, last_ns: i64) -> Slice {
        Slice { first_ns, last_ns }
    }

    #[test]
    fn hours_go_together_until_they_are_worth_it() {
        let hours = vec![
            piece(1, 100, ROWS / 2),
            piece(2, 99, ROWS / 4),
            piece(101, 200, ROWS / 8),
            piece(201, 300, ROWS / 2),
        ];
        assert_eq!(slices(hours), [slice(1, 200), slice(201, 300)]);
        assert_eq!(slices(Vec::new()), []);
    }

    #[test]
    fn many_records_of_an_hour_are_several_slices() {
        let late = vec![piece(0, 59, MOST_ROWS), piece(50, 99, MOST_ROWS)];
        assert_eq!(slices(late), [slice(0, 49), slice(50, 99)]);
        // A time cannot be cut.
        assert_eq!(slices(vec![piece(7, 7, 9 * MOST_ROWS)]), [slice(7, 7)]);
        let all = slices(vec![piece(i64::MIN, i64::MAX, 2 * MOST_ROWS)]);
        assert_eq!(all, [slice(i64::MIN, -1), slice(0, i64::MAX)]);
    }

    proptest! {
        #[test]
        fn every_record_is_in_one_slice(
            pieces in prop::collection::vec((0i64..1_000, 0i64..100, 0..2 * MOST_ROWS), 0..20)
        ) {
            let pieces: Vec<_> = pieces
                .into_iter()
                .map(|(first, length, rows)| piece(first, first + length, rows))
                .collect();
            let slices = slices(pieces.clone());
            prop_assert!(slices.is_sorted_by(|one, next| one.last_ns < next.first_ns));
            for ns in pieces.iter().flat_map(|piece| piece.first_ns..=piece.last_ns) {
                let has = |slice: &&Slice| slice.first_ns <= ns && ns <= slice.last_ns;
                prop_assert_eq!(slices.iter().filter(has).count(), 1, "{}", ns);
            }
        }
    }
}
