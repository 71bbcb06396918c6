//! Names: DNS exchanges on the wire, and how long applications wait for `getaddrinfo`. The README beside this file says what each means.

mod codes;
#[cfg(test)]
mod events;
mod exchange;
mod exchanges;
mod libraries;
mod lookups;
#[cfg(test)]
mod message;
mod record;
mod waiting;
mod wire;

use std::path::Path;
use std::time::Duration;

use fathom_record::{Count, Time};

pub use record::{DnsProfile, LookupProfile};

use super::connections::Report;
use super::{Indicator, Probes};
use crate::kernel::Group;
use crate::{Error, Selection};
use lookups::Lookups;
use wire::Wire;

/// What to measure of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Which exchanges.
    pub(super) selection: &'a Selection,
    /// Only of sockets and processes in this control group or below.
    pub(super) group: Group,
    /// Where control groups are mounted.
    pub(super) root: Option<&'a Path>,
    /// A query that was not answered for so long is not waited for any more.
    pub(super) timeout: Duration,
    /// Tell what was looked up.
    pub(super) has_names: bool,
}

/// The measurement of names: as much of it as this kernel allows.
pub(super) struct Dns {
    wire: Option<Wire>,
    lookups: Option<Lookups>,
}

impl Dns {
    /// Attaches what can be attached; `probes` is told what cannot, and why.
    pub(super) fn start(scope: &Scope<'_>, probes: &mut Probes) -> Self {
        let wire = load_wire(scope).and_then(|(mut wire, root)| {
            wire.attach(root).map_err(|error| why(&error))?;
            Ok(wire)
        });
        let lookups = start_lookups(scope, &mut probes.notes);
        Self {
            wire: or_miss(wire, Indicator::Dns, probes),
            lookups: or_miss(lookups, Indicator::Lookups, probes).flatten(),
        }
    }

    /// Tells `sets` what could not be attached with any of them.
    pub(super) fn examine(scope: &Scope<'_>, sets: &mut [Probes]) {
        let wire = load_wire(scope).map(drop);
        let mut notes = Vec::new();
        let lookups = start_lookups(scope, &mut notes).map(drop);
        for set in sets {
            or_miss(wire.clone(), Indicator::Dns, set);
            or_miss(lookups.clone(), Indicator::Lookups, set);
            set.notes.extend_from_slice(&notes);
        }
    }

    /// Reports what has ended.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel's events cannot be read.
    pub(super) fn poll(&mut self, report: Report<'_>) -> Result<(), Error> {
        if let Some(wire) = &mut self.wire {
            wire.poll(report)?;
        }
        self.lookups
            .as_mut()
            .map_or(Ok(()), |lookups| lookups.poll(report))
    }

    /// Reports what has ended, and what has not; nothing is measured any more.
    ///
    /// # Errors
    /// As [`Dns::poll`].
    pub(super) fn finish(&mut self, report: Report<'_>) -> Result<(), Error> {
        if let Some(wire) = &mut self.wire {
            wire.finish(report)?;
        }
        self.lookups
            .as_mut()
            .map_or(Ok(()), |lookups| lookups.finish(report))
    }

    /// What went wrong since the start, by name.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub(super) fn counts(&self, time: Time) -> Result<Vec<Count>, Error> {
        let wire = self.wire.as_ref().map(Wire::counts).transpose()?;
        let lookups = self.lookups.as_ref().map(Lookups::counts).transpose()?;
        let counts = wire.into_iter().chain(lookups).flatten();
        Ok(counts
            .map(|(name, count)| Count::new(time, "profile", name, count))
            .collect())
    }
}

/// What there is, or nothing, and `probes` are told why.
fn or_miss<T>(found: Result<T, String>, indicator: Indicator, probes: &mut Probes) -> Option<T> {
    found.map_err(|why| probes.miss(indicator, why)).ok()
}

fn load_wire<'a>(scope: &Scope<'a>) -> Result<(Wire, &'a Path), String> {
    let root = scope
        .root
        .ok_or("no version 2 hierarchy of control groups is mounted")?;
    let wire = Wire::load(scope.group, scope.selection, scope.timeout);
    Ok((wire.map_err(|error| why(&error))?, root))
}

/// `None` where a selection leaves all lookups out: they belong to no network and no port.
fn start_lookups(scope: &Scope<'_>, notes: &mut Vec<String>) -> Result<Option<Lookups>, String> {
    if !scope.selection.networks.is_empty() || !scope.selection.ports.is_empty() {
        return Ok(None);
    }
    let lookups = Lookups::load(scope.group, scope.has_names);
    let mut lookups = lookups.map_err(|error| why(&error))?;
    lookups.look();
    if lookups.probed() == 0 {
        let failure = lookups.failures().first();
        return Err(failure.map_or_else(
            || "no process uses glibc or musl as a shared library".to_owned(),
            |(library, why)| format!("{library}: {why}"),
        ));
    }
    for (library, why) in lookups.failures() {
        notes.push(format!("getaddrinfo of {library} cannot be probed: {why}"));
    }
    Ok(Some(lookups))
}

/// The error with its causes, in a line: what the verifier had to say goes on for pages.
fn why(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.lines().next().unwrap_or_default().to_owned()
}
