//! Records that are not of the kind that a table has: each kind goes into a file of its own, or is
//! counted.

use std::path::{Path, PathBuf};

use fathom_record::{Record, Schema};

use super::{Backlog, Format, Output};
use crate::failure::say;
use crate::signals::Signals;

/// The tables beside one.
pub(super) struct Tables {
    main: &'static Schema,
    others: Vec<(&'static Schema, Table)>,
    failure: Option<anyhow::Error>,
    may_wait: bool,
}

/// Where records of another kind go.
enum Table {
    File(Box<Output>),
    /// Nowhere: so many.
    LeftOut(u64),
}

impl Tables {
    /// None yet, beside that of the kind `main`.
    pub(super) fn new(main: &'static Schema) -> Self {
        Self {
            main,
            others: Vec::new(),
            failure: None,
            may_wait: true,
        }
    }

    #[inline]
    pub(super) fn is_main(&self, record: &dyn Record) -> bool {
        std::ptr::eq(record.schema(), self.main)
    }

    /// Takes a record of another kind than `main`, whose table is at `path`.
    pub(super) fn put(
        &mut self,
        record: &dyn Record,
        path: Option<&Path>,
        host: &str,
        signals: &Signals,
    ) {
        match self.table(record.schema(), path, host, signals) {
            Ok(Table::File(output)) => output.put(record),
            Ok(Table::LeftOut(count)) => *count += 1,
            Err(error) => self.failure = Some(error),
        }
    }

    fn table(
        &mut self,
        schema: &'static Schema,
        path: Option<&Path>,
        host: &str,
        signals: &Signals,
    ) -> anyhow::Result<&mut Table> {
        let known = |(other, _): &(&'static Schema, _)| std::ptr::eq(*other, schema);
        let index = if let Some(index) = self.others.iter().position(known) {
            index
        } else {
            let table = match path {
                Some(path) => {
                    let path = beside(path, schema.kind);
                    let (format, host) = (Format::Csv, host.to_owned());
                    let mut output =
                        Output::start(Some(&path), format, host, None, Backlog::Long, signals)?;
                    output.may_wait(self.may_wait);
                    Table::File(Box::new(output))
                }
                None => Table::LeftOut(0),
            };
            self.others.push((schema, table));
            self.others.len() - 1
        };
        Ok(&mut self.others[index].1)
    }

    /// # Errors
    /// As [`Output::flush`], and when a file could not be opened.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.files().try_for_each(Output::flush)
    }

    /// Waits until all is written, and says what is in no table.
    ///
    /// # Errors
    /// As [`Output::finish`].
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.files().try_for_each(Output::finish)?;
        for (schema, table) in &self.others {
            if let Table::LeftOut(count) = table {
                say!(
                    "fathom: {count} records of the kind {} are not among these, as CSV is a table of one kind: \
                     --output writes each kind into a file of its own, --format json all",
                    schema.kind
                );
            }
        }
        Ok(())
    }

    /// As [`Output::may_wait`], for those that come, too.
    pub(super) fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
        self.files().for_each(|output| output.may_wait(may_wait));
    }

    pub(super) fn reopen(&mut self) {
        self.files().for_each(Output::reopen);
    }

    fn files(&mut self) -> impl Iterator<Item = &mut Output> {
        self.others.iter_mut().filter_map(|(_, table)| match table {
            Table::File(output) => Some(&mut **output),
            Table::LeftOut(_) => None,
        })
    }
}

/// `run.rtt_flow.csv`, beside `run.csv`.
fn beside(path: &Path, kind: &str) -> PathBuf {
    let extension = match path.extension() {
        Some(extension) => format!("{kind}.{}", extension.to_string_lossy()),
        None => kind.to_owned(),
    };
    path.with_extension(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_by_their_kind() {
        let name = |path: &str| beside(Path::new(path), "rtt_flow");
        assert_eq!(name("/a.b/run.csv"), Path::new("/a.b/run.rtt_flow.csv"));
        assert_eq!(name("run"), Path::new("run.rtt_flow"));
    }
}
