//! The table at the end, with the columns of `mtr --report`.

use std::fmt::Write as _;

use fathom_record::Record;

use super::paths::{Hop, Path, Paths};
use crate::output::Formatter;

/// Nothing but the table, at the end.
pub(super) struct Report(Paths);

impl Report {
    pub(super) fn new() -> Self {
        Self(Paths::new())
    }
}

impl Formatter for Report {
    fn put(&mut self, record: &dyn Record, _: &mut Vec<u8>) {
        self.0.take(record);
    }

    fn finish(&mut self, text: &mut Vec<u8>) {
        text.extend(report(&self.0).into_bytes());
    }
}

/// Every path, the one with most probes first.
fn report(paths: &Paths) -> String {
    let mut flows: Vec<_> = paths.flows.all().collect();
    flows.sort_by_key(|path| std::cmp::Reverse(path.probes));
    let mut text = String::new();
    for path in flows {
        // Writing to a string does not fail.
        let _ = put(path, &mut text);
    }
    if paths.flows.left_out > 0 {
        let _ = writeln!(text, "{} flows are left out", paths.flows.left_out);
    }
    text
}

fn put(path: &Path, text: &mut String) -> std::fmt::Result {
    let rows: Vec<_> = path.rows().collect();
    if rows.is_empty() {
        return Ok(());
    }
    let titles = rows.iter().map(|(_, hop)| hop.title().chars().count());
    let width = titles.max().unwrap_or(0).max(20);
    writeln!(text, "{}, times in ms", path.flow)?;
    writeln!(
        text,
        "hop  {:width$}   Loss%   Snt     Last      Avg     Best     Wrst    StDev    Queue",
        "host"
    )?;
    let mut before_ns = 0;
    for (ttl, hop) in rows {
        let excess_ns = hop.excess_ns();
        let queue_ns = excess_ns.map(|excess| excess.saturating_sub(before_ns));
        before_ns = excess_ns.unwrap_or(before_ns);
        let is_destination = path.is_destination(hop);
        let times_ns = [
            hop.last_ns,
            hop.rtts.mean(),
            hop.rtts.min(),
            hop.rtts.max(),
            hop.deviation_ns(),
            queue_ns.filter(|_| !is_destination),
        ];
        let (title, loss, sent) = (hop.title(), hop.loss_percent(), hop.sent);
        write!(text, "{ttl:>3}  {title:width$}  {loss:5.1}%  {sent:>4}")?;
        for ns in times_ns {
            match ns {
                Some(ns) => write!(text, " {:8.3}", ns as f64 / 1e6)?,
                None => write!(text, " {:>8}", "-")?,
            }
        }
        for remark in remarks(hop, is_destination) {
            write!(text, "  {remark}")?;
        }
        text.push('\n');
    }
    Ok(())
}

/// What else there is to say of a hop.
fn remarks(hop: &Hop, is_destination: bool) -> impl Iterator<Item = &str> {
    let silence = hop.silence.filter(|_| hop.lost > 0);
    let destination = is_destination.then_some("destination");
    destination
        .into_iter()
        .chain(silence)
        .chain(hop.marks.as_deref())
}

#[cfg(test)]
mod tests {
    use fathom_record::{Histogram, Nanoseconds};

    use super::*;
    use crate::hops::paths::tests::{probe, summary};

    #[test]
    fn the_report_looks_like_this() {
        let mut paths = Paths::new();
        for round in 0..10 {
            for ttl in 1..=3 {
                let answers = ttl != 2 || round % 4 == 0;
                let rtt_ns = u64::from(ttl) * 2_000_000 + round * 10_000;
                let answer = answers.then_some(([10, 78, ttl, 2], rtt_ns));
                paths.take(&probe(5000, ttl, answer));
            }
        }
        paths.take(&probe(5001, 1, None));
        let mut limited = summary(5000, 2);
        limited.probes_lost = 7;
        limited.silence = Some("rate limited");
        paths.take(&limited);
        for (rtt_ns, deviation_ns) in [(9_000_000, 100_000), (9_400_000, 0)] {
            let mut rtts = Histogram::new();
            rtts.record_many(rtt_ns, 5);
            let mut destination = summary(5000, 4);
            destination.responder = Some([10, 78, 4, 2].into());
            destination.is_destination = true;
            destination.probes_sent = 5;
            destination.rtt_last_ns = Some(Nanoseconds(rtt_ns));
            destination.rtt_stdev_ns = Some(Nanoseconds(deviation_ns));
            destination.rtt_histogram = rtts;
            paths.take(&destination);
        }
        insta::assert_snapshot!(report(&paths));
    }
}
