//! How long applications wait for `getaddrinfo`: the C libraries probed, and what the probes say
//! read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};
use libbpf_rs::{Link, UprobeOpts};

use super::Scope;
use super::libraries::{Library, Search};
use super::record::LookupProfile;
use crate::Error;
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{Programs, Ring, decompress, monotonic_ns, set_constants, wall_clock_offset};
use crate::profile::connections::Report;
use crate::profile::moment::text;
use crate::profile::names::Names;
use crate::profile::native::{self, lookup_config, lookup_event};

/// The compiled programs: 0.5 MB, of use while they are loaded.
fn object() -> Vec<u8> {
    decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/lookup.bpf.o.zst"
    )))
}

const FUNCTION: &str = "getaddrinfo";
/// Between looks for libraries that were not in use before.
const PAUSE: Duration = Duration::from_secs(10);
/// Libraries that are probed at a time: each costs four descriptors.
const LIBRARIES_MAX: usize = 256;
/// Every process.
const ALL: i32 = -1;

/// Lookups while they are measured.
pub(super) struct Lookups {
    programs: Programs,
    search: Search,
    /// What is known of each library, by its file.
    libraries: HashMap<(u64, u64), Probed>,
    /// Libraries that could not be probed, and why; since the start.
    failures: Vec<(String, String)>,
    refused: u64,
    names: Names,
    last_look_ns: u64,
}

/// A library that was tried.
struct Probed {
    /// The mount namespace of those who use it; `None`: our own.
    namespace: Option<u64>,
    /// Empty where it could not be probed.
    links: Vec<Link>,
}

impl Lookups {
    pub(super) fn ring(&self) -> Option<Arc<Ring>> {
        self.programs.ring()
    }

    /// Loads without probing: does this kernel take the programs?
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges do not allow it, [`Error::Kernel`] when the kernel
    /// refuses.
    pub(super) fn load(scope: &Scope<'_>) -> Result<Self, Error> {
        let configuration = lookup_config {
            cgroup: scope.group.number,
            cgroup_level: scope.group.level,
            has_names: scope.has_names.into(),
        };
        let constants = [(".rodata.lookup_config", bytes_of(&configuration))];
        Ok(Self {
            programs: Programs::load(&object(), "lookup_events", |object| {
                set_constants(object, &constants)
            })?,
            search: Search::default(),
            libraries: HashMap::new(),
            failures: Vec::new(),
            refused: 0,
            names: scope.names.clone(),
            last_look_ns: 0,
        })
    }

    /// Probes the libraries that are in use and were not, and lets go of those whose users are
    /// gone.
    pub(super) fn look(&mut self) {
        self.last_look_ns = monotonic_ns();
        let found = self.search.look();
        // A probe holds the file, and so the file system that it is on.
        self.libraries.retain(|_, probed| {
            probed
                .namespace
                .is_none_or(|namespace| found.namespaces.contains(&namespace))
        });
        for library in found.libraries {
            if self.libraries.contains_key(&library.file) {
                continue;
            }
            if self.libraries.len() >= LIBRARIES_MAX {
                self.refused += 1;
                continue;
            }
            let links = self.probe(&library).unwrap_or_else(|why| {
                self.failures.push((library.name.clone(), why));
                Vec::new()
            });
            let namespace = library.namespace;
            self.libraries
                .insert(library.file, Probed { namespace, links });
        }
    }

    /// Libraries that could not be probed, and why.
    pub(super) fn failures(&self) -> &[(String, String)] {
        &self.failures
    }

    /// How many libraries are probed.
    pub(super) fn probed(&self) -> usize {
        let tried = self.libraries.values();
        tried.filter(|probed| !probed.links.is_empty()).count()
    }

    /// Reports the lookups that have ended.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub(super) fn poll(&mut self, report: Report<'_>) -> Result<(), Error> {
        if monotonic_ns().saturating_sub(self.last_look_ns) >= PAUSE.as_nanos() as u64 {
            self.look();
        }
        let names = &self.names;
        let offset_ns = wall_clock_offset();
        self.programs.read_events(|mut events| {
            while let Some((event, behind)) = read_prefix::<lookup_event>(events) {
                report(profile(&event, offset_ns, names).into());
                events = behind;
            }
        })
    }

    /// Reports what is left; nothing is probed any more.
    ///
    /// # Errors
    /// As [`Lookups::poll`].
    pub(super) fn finish(&mut self, report: Report<'_>) -> Result<(), Error> {
        self.libraries.clear();
        self.last_look_ns = monotonic_ns();
        self.poll(report)
    }

    /// What went wrong since the start, by name.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub(super) fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts = vec![
            (
                "C libraries whose getaddrinfo could not be probed",
                self.failures.len() as u64,
            ),
            ("C libraries not probed: too many", self.refused),
        ];
        for (index, name) in (0_u32..).zip(native::lookup_counter_names()) {
            counts.push((name, self.programs.counter("lookup_counters", index)?));
        }
        Ok(counts)
    }

    /// Probes a library, the return first: else the first calls would seem never to return.
    fn probe(&self, library: &Library) -> Result<Vec<Link>, String> {
        let attach = |program, is_return| {
            let options = UprobeOpts {
                func_name: Some(FUNCTION.to_owned()),
                retprobe: is_return,
                ..UprobeOpts::default()
            };
            let program = self
                .programs
                .program(program)
                .map_err(|error| error.to_string())?;
            program
                .attach_uprobe_with_opts(ALL, &library.path, 0, options)
                .map_err(|error| format!("{error:#}"))
        };
        Ok(vec![
            attach("lookup_return", true)?,
            attach("lookup_enter", false)?,
        ])
    }
}

fn profile(event: &lookup_event, offset_ns: u64, names: &Names) -> LookupProfile {
    let process = names.text(&event.process);
    LookupProfile {
        time: Time(event.end.wrapping_add(offset_ns)),
        start_time: Time(event.start.wrapping_add(offset_ns)),
        query_name: (event.name[0] != 0).then(|| text(&event.name).into()),
        result: result_name(event.result),
        latency_ns: Nanoseconds(event.end.saturating_sub(event.start)),
        pid: event.process_id,
        process: process.unwrap_or_else(|| Arc::from("")),
        group: names.group(event.cgroup),
    }
}

/// What `getaddrinfo` returned; glibc and musl use the same numbers for what both have.
fn result_name(result: i32) -> &'static str {
    match result {
        0 => "0",
        -1 => "EAI_BADFLAGS",
        -2 => "EAI_NONAME",
        -3 => "EAI_AGAIN",
        -4 => "EAI_FAIL",
        -5 => "EAI_NODATA",
        -6 => "EAI_FAMILY",
        -7 => "EAI_SOCKTYPE",
        -8 => "EAI_SERVICE",
        -9 => "EAI_ADDRFAMILY",
        -10 => "EAI_MEMORY",
        -11 => "EAI_SYSTEM",
        -12 => "EAI_OVERFLOW",
        -104 => "EAI_INTR",
        -105 => "EAI_IDN_ENCODE",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_becomes_a_profile() {
        let mut event = lookup_event {
            start: 5,
            end: 25,
            process_id: 7,
            result: -2,
            ..lookup_event::default()
        };
        let names = Names::default();
        let hidden = profile(&event, 100, &names);
        assert_eq!((hidden.query_name, hidden.result), (None, "EAI_NONAME"));
        assert_eq!((hidden.start_time, hidden.time), (Time(105), Time(125)));
        assert_eq!(hidden.latency_ns, Nanoseconds(20));
        for (target, letter) in event.name.iter_mut().zip(*b"a.test") {
            *target = letter.cast_signed();
        }
        // Garbage behind the zero is none of the name.
        event.name[7] = 1;
        let told = profile(&event, 100, &names);
        assert_eq!(told.query_name.as_deref(), Some("a.test"));
    }
}
