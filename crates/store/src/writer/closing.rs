//! The records of a log become segments: one a kind and hour.

use std::cell::Cell;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::Error;
use crate::layout::{Found, Layout, SegmentName, have_log};
use crate::log::{Frame, Log, Logged};
use crate::rows::{by_hour, in_order};
use crate::schema::{fitted, united};
use crate::segment::SegmentWriter;
use crate::source::{Source, in_order_of_times};

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Segments that were written.
    pub(super) segments: u64,
    /// Records in them.
    pub(super) rows: u64,
    /// Records that the disk does not give back as it took them.
    pub(super) lost_rows: u64,
}

impl Closing {
    /// Writes the segments of a kind, but for those that are there: it was done in part before.
    /// Batches are read one after the other, so few of them are in memory at a time.
    ///
    /// # Errors
    /// As those of [`SegmentWriter`], [`Error::File`] when the log cannot be read, and
    /// [`Error::Records`] when its columns do not go together. Segments that were finished stay.
    pub(super) fn write(&mut self, layout: &Layout, kind: &str, log: &Log) -> Result<(), Error> {
        let Some(logged) = log.kind(kind) else {
            return Ok(());
        };
        let newest = logged.columns.last().cloned();
        let Some(columns) = united(&logged.columns).or(newest) else {
            return Ok(());
        };
        let lost_rows = Cell::new(0);
        let sources = sources(log, kind, logged, &columns, &lost_rows);
        let there = {
            let _held = layout.hold();
            layout.segments(kind)?
        };
        let mut hours = Hours {
            layout,
            kind,
            log: log.number,
            there,
            columns: &columns,
            current: None,
            done: self,
        };
        let written = in_order_of_times(sources, kind, &columns, |rows| hours.put(rows));
        if let Err(error) = written.and_then(|()| hours.finish_hour()) {
            if let Some(current) = hours.current {
                current.segment.discard();
            }
            return Err(error);
        }
        self.lost_rows += lost_rows.get();
        Ok(())
    }
}

/// All that a log has of a kind, with these columns.
fn sources<'a>(
    log: &'a Log,
    kind: &'a str,
    logged: &'a Logged,
    columns: &'a SchemaRef,
    lost_rows: &'a Cell<u64>,
) -> Vec<Source<'a>> {
    let fitted = move |rows: RecordBatch| {
        let rows = in_order(rows).and_then(|rows| fitted(&rows, columns));
        rows.map_err(Error::records("put in order", kind))
    };
    let of_frame = |frame: &'a Frame| {
        Source::new(columns, frame.begin_ns, move || {
            let rows = log.read(frame)?;
            if rows.is_none() {
                lost_rows.set(lost_rows.get() + frame.rows);
            }
            Ok(Box::new(rows.map(fitted).into_iter()))
        })
    };
    let in_memory = |rows: &'a RecordBatch| {
        Source::new(columns, i64::MIN, move || {
            Ok(Box::new([fitted(rows.clone())].into_iter()))
        })
    };
    let frames = logged.frames.iter().map(of_frame);
    frames
        .chain(logged.in_memory.iter().map(in_memory))
        .collect()
}

/// Segments of a kind that are written, one hour after the other. A segment has the rows of one: so
/// they can become rows of longer intervals without those of others.
struct Hours<'a> {
    layout: &'a Layout,
    kind: &'a str,
    log: u64,
    /// Those that were there before.
    there: Vec<Found>,
    columns: &'a SchemaRef,
    current: Option<Current>,
    done: &'a mut Closing,
}

/// The segment of an hour.
struct Current {
    name: SegmentName,
    segment: SegmentWriter,
    rows: u64,
}

impl Hours<'_> {
    /// Takes rows, none of which is older than those before.
    fn put(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        for (begin_s, rows) in by_hour(rows) {
            if have_log(&self.there, begin_s, self.log) {
                continue;
            }
            let is_same = |current: &Current| current.name.is_of_hour(begin_s);
            if !self.current.as_ref().is_some_and(is_same) {
                self.finish_hour()?;
                self.begin_hour(begin_s)?;
            }
            if let Some(current) = &mut self.current {
                current.segment.write(&rows)?;
                current.rows += rows.num_rows() as u64;
            }
        }
        Ok(())
    }

    fn begin_hour(&mut self, begin_s: i64) -> Result<(), Error> {
        let name = SegmentName {
            begin_s,
            first: self.log,
            last: self.log,
            interval_s: 0,
        };
        let segment = SegmentWriter::create(self.layout, self.kind, &name, self.columns.clone())?;
        self.current = Some(Current {
            name,
            segment,
            rows: 0,
        });
        Ok(())
    }

    fn finish_hour(&mut self) -> Result<(), Error> {
        if let Some(current) = self.current.take() {
            current.segment.finish()?.appear()?;
            self.done.segments += 1;
            self.done.rows += current.rows;
        }
        Ok(())
    }
}
