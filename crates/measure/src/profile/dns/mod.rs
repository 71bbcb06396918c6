//! Names: DNS exchanges on the wire, and how long applications wait for `getaddrinfo`. The README
//! beside this file says what each means.

mod codes;
#[cfg(test)]
mod events;
mod exchange;
mod exchanges;
mod libraries;
mod lookups;
#[cfg(test)]
mod message;
mod name;
mod record;
#[cfg(test)]
mod vectors;
mod waiting;
mod wire;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use record::{DnsProfile, LookupProfile};

use super::connections::Report;
use super::names::Names;
use super::{Indicator, Probes};
use crate::kernel::{Group, NO_GROUPS, Ring};
use crate::{Error, Selection};
use lookups::Lookups;
use wire::Wire;

/// What to measure of names.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    /// Which exchanges.
    pub(super) selection: &'a Selection,
    /// Only of sockets and processes in this control group or below.
    pub(super) group: Group,
    /// Where control groups are mounted.
    pub(super) root: Option<&'a Path>,
    /// A query that was not answered for so long is not waited for any more.
    pub(super) timeout: Duration,
    /// Report the names that were looked up.
    pub(super) has_names: bool,
    /// Those of processes and control groups.
    pub(super) names: Names,
}

/// The measurement of names: as much of it as this kernel allows.
pub(super) struct Dns {
    wire: Wire,
    lookups: Option<Lookups>,
}

impl Dns {
    /// Those of its events.
    pub(super) fn rings(&self) -> impl Iterator<Item = Arc<Ring>> {
        let lookups = self.lookups.as_ref().and_then(Lookups::ring);
        self.wire.ring().into_iter().chain(lookups)
    }

    /// Attaches. `probes` is told if nobody could look names up in a way that is measured.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when exchanges cannot be had, or the kernel refuses to probe lookups.
    pub(super) fn start(scope: &Scope<'_>, probes: &mut Probes) -> Result<Self, Error> {
        let wire = load_wire(scope).and_then(|(mut wire, root)| {
            wire.attach(root).map_err(|error| why(&error))?;
            Ok(wire)
        });
        let wire = wire.map_err(|why| refused(Indicator::Dns, why))?;
        let lookups = match start_lookups(scope, &mut probes.notes) {
            Ok(lookups) => lookups,
            // Processes that use a library may come.
            Err(Obstacle::Nobody) => {
                probes.miss(Indicator::Lookups, Obstacle::Nobody.to_string());
                None
            }
            Err(Obstacle::Refused(why)) => return Err(refused(Indicator::Lookups, why)),
        };
        Ok(Self { wire, lookups })
    }

    /// Tells `sets` what could not be attached with any of them.
    pub(super) fn examine(scope: &Scope<'_>, sets: &mut [Probes]) {
        let wire = load_wire(scope).map(drop);
        let mut notes = Vec::new();
        let lookups = start_lookups(scope, &mut notes);
        let lookups = lookups.map(drop).map_err(|obstacle| obstacle.to_string());
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
        self.wire.poll(report)?;
        self.lookups
            .as_mut()
            .map_or(Ok(()), |lookups| lookups.poll(report))
    }

    /// Reports what has ended, and what has not; nothing is measured any more.
    ///
    /// # Errors
    /// As [`Dns::poll`].
    pub(super) fn finish(&mut self, report: Report<'_>) -> Result<(), Error> {
        self.wire.finish(report)?;
        self.lookups
            .as_mut()
            .map_or(Ok(()), |lookups| lookups.finish(report))
    }

    /// What went wrong since the start, by name.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub(super) fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let lookups = self.lookups.as_ref().map(Lookups::counts).transpose()?;
        let counts = self.wire.counts()?.into_iter();
        Ok(counts.chain(lookups.into_iter().flatten()).collect())
    }
}

/// What there is, or nothing, and `probes` are told why.
fn or_miss<T>(found: Result<T, String>, indicator: Indicator, probes: &mut Probes) -> Option<T> {
    found.map_err(|why| probes.miss(indicator, why)).ok()
}

/// What was requested and is not possible.
fn refused(indicator: Indicator, why: String) -> Error {
    Error::Unsupported {
        needs: format!("DNS was asked for ({})", indicator.about()),
        found: why,
        remedy: "leave DNS out, or run `fathom doctor` to see what is missing".to_owned(),
    }
}

/// Why lookups are not measured.
#[derive(Debug)]
enum Obstacle {
    /// No process uses a library that is probed.
    Nobody,
    /// The kernel, or what the process may do.
    Refused(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nobody => "no process uses glibc or musl as a shared library",
            Self::Refused(why) => why,
        })
    }
}

fn load_wire<'a>(scope: &Scope<'a>) -> Result<(Wire, &'a Path), String> {
    let root = scope.root.ok_or(NO_GROUPS)?;
    let wire = Wire::load(scope).map_err(|error| why(&error))?;
    Ok((wire, root))
}

/// `None` where a selection leaves all lookups out: they belong to no network and no port.
fn start_lookups(scope: &Scope<'_>, notes: &mut Vec<String>) -> Result<Option<Lookups>, Obstacle> {
    if !scope.selection.networks.is_empty() || !scope.selection.ports.is_empty() {
        return Ok(None);
    }
    let lookups = Lookups::load(scope);
    let mut lookups = lookups.map_err(|error| Obstacle::Refused(why(&error)))?;
    lookups.look();
    if lookups.probed() == 0 {
        let failure = lookups.failures().first();
        return Err(failure.map_or(Obstacle::Nobody, |(library, why)| {
            Obstacle::Refused(format!("{library}: {why}"))
        }));
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
