//! What came from whom, and what did not come whole.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fathom_record::{Time, record};

/// So many are counted each by itself; those that come then are not told apart.
const MOST: usize = 4_096;
/// Of one peer that sends what cannot be read, a message each time this has passed.
const QUIET: Duration = Duration::from_secs(10);

record! {
    /// What a collector has got of an exporter or agent since it began. A record is written a
    /// minute after the last one, and at the end, if something has changed.
    #[record = "exporters"]
    pub struct ExporterRecord {
        /// When.
        pub time: Time,
        /// The address from which messages come.
        pub exporter: IpAddr,
        /// How they come: `http` or `ipfix`.
        pub transport: &'static str,
        /// The observation domain of IPFIX.
        pub observation_domain: Option<u32>,
        /// Records that were kept.
        pub records: u64,
        /// Records that did not arrive, by the sequence numbers of IPFIX.
        pub lost_records: u64,
        /// Records that came again after they had been kept, and were left out.
        pub repeated_records: u64,
        /// Records whose columns are none that the store can have.
        pub refused_records: u64,
        /// Messages that could not be read.
        pub malformed_messages: u64,
    }
}

/// Who sends, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) exporter: IpAddr,
    /// `None`: by HTTP.
    pub(super) domain: Option<u32>,
}

/// What came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) refused: u64,
    pub(super) malformed: u64,
}

#[derive(Debug, Default)]
struct Known {
    counts: Counts,
    /// As they were written last.
    written: Counts,
    is_ipfix: bool,
    told: Option<Instant>,
    /// Not told of yet.
    untold: u64,
}

/// All that sent something.
#[derive(Debug, Default)]
pub(super) struct Exporters {
    known: Mutex<HashMap<Source, Known>>,
}

impl Exporters {
    fn lock(&self) -> MutexGuard<'_, HashMap<Source, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a source.
    pub(super) fn count(&self, source: Source, change: impl FnOnce(&mut Counts)) {
        change(&mut entry(&mut self.lock(), source).counts);
    }

    /// So many records have been lost on the way. The first time this is told.
    pub(super) fn lost(&self, source: Source, lost: u64) {
        let mut all = self.lock();
        let known = entry(&mut all, source);
        let is_first = known.counts.lost == 0 && lost > 0;
        known.counts.lost = lost;
        drop(all);
        if is_first {
            eprintln!(
                "fathom-server: {}: {lost} records did not arrive, by their numbers; more are counted in the table exporters",
                source.exporter
            );
        }
    }

    /// Something could not be read, or was refused: it is counted, and now and then told.
    pub(super) fn malformed(&self, source: Source, reason: &dyn fmt::Display) {
        let mut all = self.lock();
        let known = entry(&mut all, source);
        known.counts.malformed += 1;
        known.untold += 1;
        if known.told.is_none_or(|told| told.elapsed() >= QUIET) {
            let more = known.untold - 1;
            known.told = Some(Instant::now());
            known.untold = 0;
            drop(all);
            let more = match more {
                0 => String::new(),
                more => format!(", and {more} before it"),
            };
            eprintln!("fathom-server: {}: {reason}{more}", source.exporter);
        }
    }

    /// The records of those of which there is something new.
    pub(super) fn changed(&self) -> Vec<ExporterRecord> {
        let time = Time::now();
        let mut all = self.lock();
        let changed = all
            .iter_mut()
            .filter(|(_, known)| known.counts != known.written);
        let records = changed.map(|(source, known)| {
            known.written = known.counts;
            let counts = known.counts;
            ExporterRecord {
                time,
                exporter: source.exporter,
                transport: if known.is_ipfix { "ipfix" } else { "http" },
                observation_domain: source.domain,
                records: counts.records,
                lost_records: counts.lost,
                repeated_records: counts.repeated,
                refused_records: counts.refused,
                malformed_messages: counts.malformed,
            }
        });
        records.collect()
    }

    /// All together, for people.
    pub(super) fn total(&self) -> Total {
        let all = self.lock();
        let mut sum = Counts::default();
        for Known { counts, .. } in all.values() {
            sum.records += counts.records;
            sum.lost += counts.lost;
            sum.repeated += counts.repeated;
            sum.refused += counts.refused;
            sum.malformed += counts.malformed;
        }
        Total(all.len(), sum)
    }
}

fn entry(all: &mut HashMap<Source, Known>, source: Source) -> &mut Known {
    let is_room = all.len() < MOST || all.contains_key(&source);
    let source = if is_room {
        source
    } else {
        let exporter = IpAddr::from([0; 4]);
        Source { exporter, ..source }
    };
    let known = all.entry(source).or_default();
    known.is_ipfix = source.domain.is_some();
    known
}

/// What all have sent.
pub(super) struct Total(usize, Counts);

impl fmt::Display for Total {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(exporters, counts) = self;
        write!(
            formatter,
            "{exporters} exporters: {} records, {} lost on the way, {} repeated, {} refused, {} messages malformed",
            counts.records, counts.lost, counts.repeated, counts.refused, counts.malformed
        )
    }
}
