//! The live table: painted over itself on a terminal, else a line a second.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use crate::rows::{Row, Rows};

const REPAINT_INTERVAL: Duration = Duration::from_millis(250);
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Where the table is shown.
pub(crate) struct Screen {
    is_terminal: bool,
    next: Duration,
    /// Lines of the table that stands there now.
    lines: usize,
}

impl Screen {
    pub(crate) fn new(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            next: Duration::ZERO,
            lines: 0,
        }
    }

    /// Shows `rows` as they are `elapsed` after the start, unless it has just done so.
    pub(crate) fn show(&mut self, elapsed: Duration, rows: &Rows) -> io::Result<()> {
        if elapsed < self.next {
            return Ok(());
        }
        let interval = if self.is_terminal {
            REPAINT_INTERVAL
        } else {
            LINE_INTERVAL
        };
        self.next = elapsed + interval;
        let mut stdout = io::stdout().lock();
        if self.is_terminal {
            let table = table(elapsed, rows);
            if self.lines > 0 {
                // Up to the first line of the table, and clear all below.
                write!(stdout, "\x1b[{}F\x1b[J", self.lines)?;
            }
            self.lines = table.lines().count();
            stdout.write_all(table.as_bytes())?;
        } else {
            let sides = [("server", false), ("client", true)];
            let medians = sides.map(|(name, is_towards_client)| {
                let median_ns = rows.median_ns(is_towards_client);
                median_ns.map_or(String::new(), |median_ns| {
                    format!("; towards the {name} {:.1} ms", milliseconds(median_ns))
                })
            });
            let (seconds, samples) = (elapsed.as_secs(), rows.count());
            writeln!(
                stdout,
                "{seconds:>3} s: {samples} samples{}",
                medians.concat()
            )?;
        }
        stdout.flush()
    }
}

fn table(elapsed: Duration, rows: &Rows) -> String {
    let mut table = format!(
        "fathom rtt after {} s:\n{}  {:>7}  {:>8}  {:>8}  {:>8}  {:>8}\n",
        elapsed.as_secs(),
        Row::HEADER,
        "samples",
        "last ms",
        "min ms",
        "p50 ms",
        "max ms",
    );
    for (row, summary) in rows.summaries() {
        // Writing to memory does not fail.
        let _ = writeln!(
            table,
            "{row}  {:>7}  {:>8.2}  {:>8.2}  {:>8.2}  {:>8.2}",
            summary.count,
            milliseconds(summary.last_ns),
            milliseconds(summary.least_ns),
            milliseconds(summary.median_ns),
            milliseconds(summary.greatest_ns),
        );
    }
    table
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
