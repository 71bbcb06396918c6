//! The graph of all paths, in the language of Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use fathom_record::Record;
use fathom_record::format::display_duration;

use super::paths::{Hop, Path, Paths};
use crate::output::Formatter;

/// Nothing but the graph of all paths, at the end.
pub(super) struct Graph(Paths);

impl Graph {
    pub(super) fn new() -> Self {
        Self(Paths::new())
    }
}

impl Formatter for Graph {
    fn put(&mut self, record: &dyn Record, _: &mut Vec<u8>) {
        self.0.take(record);
    }

    fn finish(&mut self, text: &mut Vec<u8>) {
        text.extend(graph(&self.0).into_bytes());
    }
}

/// What flows have in common between two routers.
#[derive(Debug, Default)]
struct Edge {
    flows: u64,
    /// By how much the median round trip grows, ns, of each flow.
    steps_ns: Vec<i64>,
    /// Hops in between that nobody answered for.
    silent: usize,
    /// Nobody answers behind it: the destination is, of which nothing is known.
    is_last: bool,
}

fn graph(paths: &Paths) -> String {
    let mut labels = BTreeMap::<IpAddr, String>::new();
    let mut edges = BTreeMap::<(IpAddr, IpAddr), Edge>::new();
    for path in paths.flows.all() {
        add(path, &mut labels, &mut edges);
    }
    let mut text = String::from("digraph paths {\n  rankdir=LR\n  node [shape=box]\n");
    // Writing to a string does not fail.
    if paths.flows.left_out > 0 {
        let _ = writeln!(text, "  // {} flows are left out", paths.flows.left_out);
    }
    for (address, label) in &labels {
        let _ = writeln!(text, "  \"{address}\" [label=\"{label}\"]");
    }
    for ((from, to), edge) in &mut edges {
        let _ = writeln!(
            text,
            "  \"{from}\" -> \"{to}\" [label=\"{}\"{}]",
            edge.label(),
            edge.style()
        );
    }
    text.push_str("}\n");
    text
}

fn add(
    path: &Path,
    labels: &mut BTreeMap<IpAddr, String>,
    edges: &mut BTreeMap<(IpAddr, IpAddr), Edge>,
) {
    let flow = &path.flow;
    for end in [flow.source, flow.destination] {
        labels.entry(end).or_insert_with(|| end.to_string());
    }
    let (mut before, mut before_ns, mut silent) = (flow.source, 0, 0);
    for (_, hop) in path.hops() {
        let Some(responder) = hop.responder else {
            silent += 1;
            continue;
        };
        let label = label(hop, responder);
        let known = labels.entry(responder).or_default();
        // Not every flow knows its name by now.
        if label.len() > known.len() {
            *known = label;
        }
        let median_ns = hop.rtts.quantile(0.5).unwrap_or_default().cast_signed();
        // A destination that refuses probes answers itself, at more than one TTL.
        if responder != before {
            let edge = edges.entry((before, responder)).or_default();
            edge.flows += 1;
            edge.steps_ns.push(median_ns - before_ns);
            edge.silent = edge.silent.max(silent);
        }
        (before, before_ns, silent) = (responder, median_ns, 0);
    }
    if before != flow.destination {
        let edge = edges.entry((before, flow.destination)).or_default();
        edge.flows += 1;
        let destination = path.destination();
        match destination.and_then(|(_, hop)| hop.rtts.quantile(0.5)) {
            Some(median_ns) => edge.steps_ns.push(median_ns.cast_signed() - before_ns),
            None => edge.is_last = true,
        }
    }
}

fn label(hop: &Hop, responder: IpAddr) -> String {
    let mut label = responder.to_string();
    if let Some(name) = &hop.name {
        // Who owns an address chooses its name.
        let safe: String = name
            .chars()
            .filter(|character| character.is_ascii_graphic() && !"\"\\".contains(*character))
            .collect();
        label = format!("{safe}\\n{label}");
    }
    if let Some(number) = hop.as_number {
        let _ = write!(label, "\\nAS{number}");
    }
    label
}

impl Edge {
    fn label(&mut self) -> String {
        let noun = if self.flows == 1 { "flow" } else { "flows" };
        let mut label = format!("{} {noun}", self.flows);
        self.steps_ns.sort_unstable();
        if let Some(step_ns) = self.steps_ns.get(self.steps_ns.len() / 2) {
            let sign = if *step_ns < 0 { '-' } else { '+' };
            let _ = write!(
                label,
                "\\n{sign}{}",
                display_duration(step_ns.unsigned_abs())
            );
        }
        if self.silent > 0 {
            let _ = write!(label, "\\n{} without answer", self.silent);
        }
        label
    }

    fn style(&self) -> &'static str {
        if self.is_last || self.silent > 0 {
            ", style=dashed"
        } else {
            ""
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::paths::tests::{probe, summary};

    #[test]
    fn the_graph_looks_like_this() {
        let mut paths = Paths::new();
        for (port, branch) in [(1, 78), (2, 78), (3, 79)] {
            paths.take(&probe(port, 1, Some(([10, 78, 1, 2], 1_000_000))));
            let rtt_ns = u64::from(branch) * 100_000;
            paths.take(&probe(port, 2, Some(([10, branch, 2, 2], rtt_ns))));
            paths.take(&probe(port, 3, None));
            paths.take(&probe(port, 4, Some(([10, 78, 4, 1], 7_000_000))));
        }
        let mut named = summary(1, 1);
        named.responder_name = Some("a\"b.example".into());
        named.as_number = Some(64_500);
        paths.take(&named);
        insta::assert_snapshot!(graph(&paths));
    }

    #[test]
    fn a_destination_that_answers_is_at_the_end_of_an_edge() {
        let mut paths = Paths::new();
        paths.take(&probe(1, 1, Some(([10, 78, 1, 2], 1_000_000))));
        let mut destination = summary(1, 2);
        destination.responder = Some(destination.flow.destination);
        destination.is_destination = true;
        destination.rtt_histogram.record(3_000_000);
        paths.take(&destination);
        let edge = "\"10.78.1.2\" -> \"10.78.4.2\" [label=\"1 flow\\n+2.000 ms\"]";
        let graph = graph(&paths);
        assert!(graph.contains(edge), "{graph}");
    }
}
