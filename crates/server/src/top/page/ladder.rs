//! The routers on the path of a flow, with their queues as bars.

use fathom_terminal::{Cell, Column, Rows, Severity, duration, percent};

use crate::lists::flow::Hop;
use crate::top::columns::router_name;

/// Cells of the longest bar.
const BAR: usize = 20;
/// What the longest bar stands for at least: a queue of less is short on any path.
const LEAST_NS: u64 = 10_000_000;
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

const COLUMNS: &[Column] = &[
    Column::number("hop", 3, 1),
    Column::wide("router", 20, 0),
    Column::number("rtt p50", 8, 2),
    Column::number("p99", 8, 6),
    Column::number("queue", 8, 3),
    Column::text("", BAR as u16, 4),
    Column::text("lost", 20, 5),
    Column::text("marks", 10, 7),
];

/// The routers.
#[derive(Default)]
pub(super) struct Ladder {
    hops: Vec<Hop>,
    longest_ns: u64,
}

impl Ladder {
    /// With bars relative to the longest queue.
    pub(super) fn new(hops: Vec<Hop>) -> Self {
        let queues = hops.iter().filter_map(|hop| hop.queue_ns);
        let longest_ns = queues.max().unwrap_or_default().max(LEAST_NS);
        Self { hops, longest_ns }
    }

    pub(super) fn len(&self) -> usize {
        self.hops.len()
    }
}

impl Rows for Ladder {
    type Row = Hop;

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn all(&self) -> Vec<&Hop> {
        self.hops.iter().collect()
    }

    fn lines(&self, hop: &Hop) -> Vec<Vec<Cell>> {
        let severity = Severity::of_queue(hop.queue_ns);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let share = hop
            .probes_lost
            .zip(hop.probes_sent)
            .filter(|(lost, _)| *lost > 0);
        let share = share.map(|(lost, sent)| lost as f64 / sent.max(1) as f64);
        let lost = [percent(share), text(&hop.silence)];
        vec![vec![
            hop.ttl.to_string().into(),
            router_name(&text(&hop.responder), &text(&hop.responder_name)).into(),
            duration(hop.rtt_p50_ns).into(),
            duration(hop.rtt_p99_ns).into(),
            Cell::rated(duration(hop.queue_ns), severity),
            Cell::rated(
                bar(hop.queue_ns.unwrap_or_default(), self.longest_ns),
                severity,
            ),
            lost.join(" ").trim().to_owned().into(),
            text(&hop.marks).into(),
        ]]
    }
}

/// A bar in eighths of a cell; what is not 0 is seen.
fn bar(ns: u64, longest_ns: u64) -> String {
    let eighths = u128::from(ns) * (BAR * EIGHTHS.len()) as u128;
    let eighths = eighths.div_ceil(u128::from(longest_ns.max(1))) as usize;
    let mut bar = "█".repeat(eighths / EIGHTHS.len());
    if !eighths.is_multiple_of(EIGHTHS.len()) {
        bar.push(EIGHTHS[eighths % EIGHTHS.len() - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_queues() {
        assert_eq!(bar(0, 80), "");
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(4, 80), "█");
        assert_eq!(bar(6, 80), "█▌");
        assert_eq!(bar(80, 80).chars().count(), BAR);
    }
}
