//! Exporters: what they send by IPFIX, as rows of tables.
//!
//! Records of fathom's own exporters, which tell kinds and fields, go into the tables of their
//! kinds. Those of all others go into the table `ipfix`.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_ipfix::wire::DataValue;
use fathom_ipfix::{Collected, Collector, Hears, Limits, Listeners, Session};
use fathom_record::{Record, Schema, Time, Value, Visitor};
use fathom_store::Batches;

use super::addresses::Listen;
use super::exporters::{Exporters, Source};
use super::foreign::Foreign;
use super::keeper::{Keeper, Work};
use super::schemas::Schemas;

/// Rows are handed to the store at least so often,
const BATCH: Duration = Duration::from_millis(500);
/// or when there are so many.
const FULL_ROWS: usize = 8_192;
/// At the end, datagrams that wait are read for so long at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many names of observation domains are known at the same time.
const MOST_NAMES: usize = 4_096;

/// Starts to listen where exporters may send, if there is such an address. The thread ends when
/// `should_stop` says so.
///
/// # Errors
/// When an address cannot be listened at, or the system has no thread left.
pub(super) fn listen(
    addresses: &[Listen],
    keeper: &Keeper,
    exporters: &Arc<Exporters>,
    should_stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let addresses = addresses.iter().filter_map(|listen| match listen {
        Listen::Ipfix(address) => Some(address.clone()),
        Listen::Http { .. } => None,
    });
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() {
        return Ok(None);
    }
    let mut listeners = Listeners::open(&addresses).context("cannot take IPFIX")?;
    for address in listeners.addresses() {
        eprintln!("listening at ipfix+{}", address.replacen(':', "://", 1));
    }
    let mut taker = Taker {
        keeper: keeper.sender(),
        exporters: exporters.clone(),
        foreign: Foreign::default(),
        own: HashMap::new(),
        names: HashMap::new(),
        schemas: Schemas::default(),
        counts: HashMap::new(),
        rows: 0,
        handed_over: Instant::now(),
    };
    let should_stop = should_stop.clone();
    let thread = thread::Builder::new().name("ipfix".to_owned());
    let run = move || {
        let mut collector = Collector::new(Limits::default());
        let begin = Instant::now();
        while !should_stop.load(Ordering::Relaxed) {
            collector.advance(Time(begin.elapsed().as_nanos() as u64));
            if let Err(error) = listeners.wait(&mut collector, &mut taker) {
                eprintln!("fathom-server: IPFIX is not taken any more: {error}");
                break;
            }
            taker.tick(&collector);
        }
        listeners.drain(PATIENCE, &mut collector, &mut taker);
        taker.hand_over(&collector);
    };
    let thread = thread.spawn(run).context("cannot start a thread")?;
    Ok(Some(thread))
}

/// Makes rows of records.
struct Taker {
    keeper: SyncSender<Work>,
    exporters: Arc<Exporters>,
    foreign: Foreign,
    /// Records of fathom's exporters, by the host that observed.
    own: HashMap<Arc<str>, Batches>,
    /// What observation domains are called.
    names: HashMap<(IpAddr, u32), Arc<str>>,
    schemas: Schemas,
    /// Records since the last batch.
    counts: HashMap<Source, u64>,
    rows: usize,
    handed_over: Instant,
}

impl Taker {
    fn tick(&mut self, collector: &Collector) {
        if self.rows >= FULL_ROWS || self.handed_over.elapsed() >= BATCH {
            self.hand_over(collector);
        }
    }

    fn hand_over(&mut self, collector: &Collector) {
        self.handed_over = Instant::now();
        for (source, records) in self.counts.drain() {
            self.exporters
                .count(source, |counts| counts.records += records);
        }
        for (exporter, domain, lost) in collector.losses() {
            let exporter = exporter.to_canonical();
            let domain = Some(domain);
            let source = Source { exporter, domain };
            self.exporters.lost(source, lost);
        }
        if self.rows == 0 {
            return;
        }
        self.rows = 0;
        let mut batches: Vec<_> = self.own.values_mut().flat_map(Batches::take).collect();
        // Hosts come and go.
        self.own.clear();
        batches.extend(self.foreign.take());
        // Waits while the store is slow; meanwhile the kernel keeps datagrams, as many as it can,
        // and those that it loses are counted by their numbers. A store that has failed ends all.
        let _ = self.keeper.send(Work::Own(batches));
    }

    /// Takes what an exporter tells of itself; `true`: that is all that the record is for.
    fn learn(&mut self, record: &Collected<'_>) -> bool {
        let mut is_about_names = false;
        for field in record.fields() {
            match (field.name.as_ref(), field.value) {
                ("observationDomainName", DataValue::Text(name)) if !name.is_empty() => {
                    let key = domain_of(record);
                    if self.names.len() < MOST_NAMES || self.names.contains_key(&key) {
                        self.names.insert(key, name.into());
                    }
                    is_about_names = true;
                }
                // What elements are called, and kinds.
                ("informationElementId" | "record_kind", _) => is_about_names = true,
                _ => {}
            }
        }
        is_about_names
    }

    fn put_own(&mut self, record: &Collected<'_>, schema: &'static Schema) {
        let host = match self.names.get(&domain_of(record)) {
            Some(name) => name.clone(),
            None => record
                .session
                .exporter
                .ip()
                .to_canonical()
                .to_string()
                .into(),
        };
        let mut row = Row {
            schema,
            values: vec![Value::Missing; schema.fields.len()],
        };
        for (column, value) in record.values() {
            row.values[column] = value;
        }
        let batches = self.own.entry(host.clone());
        batches.or_insert_with(|| Batches::new(&host)).put(&row);
    }
}

fn domain_of(record: &Collected<'_>) -> (IpAddr, u32) {
    let Session { exporter, .. } = record.session;
    (exporter.ip().to_canonical(), record.header.domain)
}

impl Hears for Taker {
    fn record(&mut self, record: Collected<'_>) {
        if record.is_options() && self.learn(&record) {
            return;
        }
        let (exporter, domain) = domain_of(&record);
        let source = Source {
            exporter,
            domain: Some(domain),
        };
        *self.counts.entry(source).or_default() += 1;
        self.rows += 1;
        match record.table().and_then(|table| self.schemas.of(table)) {
            Some(schema) => self.put_own(&record, schema),
            None => self.foreign.put(&record),
        }
    }

    fn malformed(&mut self, exporter: SocketAddr, reason: &dyn Display, is_over: bool) {
        let source = Source {
            exporter: exporter.ip().to_canonical(),
            domain: Some(0),
        };
        let end = if is_over {
            "; the connection is closed"
        } else {
            ""
        };
        self.exporters
            .malformed(source, &format_args!("{reason}{end}"));
    }
}

/// A record as it was told.
struct Row<'a> {
    schema: &'static Schema,
    values: Vec<Value<'a>>,
}

impl Record for Row<'_> {
    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn value(&self, index: usize) -> Value<'_> {
        self.values.get(index).copied().unwrap_or(Value::Missing)
    }

    fn visit(&self, visitor: &mut dyn Visitor) {
        for (index, value) in self.values.iter().enumerate() {
            if *value != Value::Missing {
                visitor.value(index, *value);
            }
        }
    }
}
