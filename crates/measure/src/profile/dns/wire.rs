//! DNS messages of this host's sockets: the programs attached, and what they say read.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use libbpf_rs::Link;

use super::Scope;
use super::exchanges::Exchanges;
use crate::Error;
use crate::bytes::bytes_of;
use crate::kernel::{Programs, Ring, decompress, monotonic_ns, set_constants, wall_clock_offset};
use crate::profile::connections::Report;
use crate::profile::native::{self, dns_config};

/// The compiled programs: 0.5 MB, of use while they are loaded.
pub(super) fn object() -> Vec<u8> {
    decompress(include_bytes!(concat!(env!("OUT_DIR"), "/wire.bpf.o.zst")))
}

/// DNS exchanges while they are measured.
pub(super) struct Wire {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    links: Vec<Link>,
    programs: Programs,
    exchanges: Exchanges,
}

impl Wire {
    pub(super) fn ring(&self) -> Option<Arc<Ring>> {
        self.programs.ring()
    }

    /// Loads without attaching: does this kernel take the programs?
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges do not allow it, [`Error::Kernel`] when the kernel
    /// refuses.
    pub(super) fn load(scope: &Scope<'_>) -> Result<Self, Error> {
        let configuration = dns_config {
            cgroup: scope.group.number,
            cgroup_level: scope.group.level,
            has_names: scope.has_names.into(),
        };
        let selection = scope.selection.to_native()?;
        let constants = [
            (".rodata.dns_config", bytes_of(&configuration)),
            (".rodata.selection", bytes_of(&selection)),
        ];
        Ok(Self {
            links: Vec::new(),
            programs: Programs::load(&object(), "dns_events", |object| {
                set_constants(object, &constants)
            })?,
            exchanges: Exchanges::new(scope.timeout, scope.names.clone()),
        })
    }

    /// Attaches to all sockets below the control group at `root`, beside what others have attached
    /// there.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel refuses.
    pub(super) fn attach(&mut self, root: &Path) -> Result<(), Error> {
        let folder = File::open(root)
            .map_err(|error| Error::kernel(format!("open {}", root.display()), error))?;
        let failed = |name: &str, error| Error::kernel(format!("attach {name}"), error);
        // Answers first: an exchange must not begin that cannot end.
        for name in ["dns_ingress", "dns_egress"] {
            let program = self.programs.program(name)?;
            let link = program.attach_cgroup(folder.as_raw_fd());
            self.links.push(link.map_err(|error| failed(name, error))?);
        }
        let errors = self.programs.program("dns_error")?.attach();
        self.links
            .push(errors.map_err(|error| failed("dns_error", error))?);
        Ok(())
    }

    /// Reports the exchanges that have ended.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring or the counters cannot be read.
    pub(super) fn poll(&mut self, report: Report<'_>) -> Result<(), Error> {
        // Before the messages are read: one that is lost afterwards was not waited for.
        let now_ns = monotonic_ns();
        self.read(report)?;
        let lost = self.count(native::DNS_COUNT_EVENTS_LOST)?;
        self.exchanges.look_back(now_ns, lost, report);
        Ok(())
    }

    /// Reports all exchanges, also those that have not ended.
    ///
    /// # Errors
    /// As [`Wire::poll`].
    pub(super) fn finish(&mut self, report: Report<'_>) -> Result<(), Error> {
        self.links.clear();
        self.poll(report)?;
        self.exchanges.finish(monotonic_ns(), report);
        Ok(())
    }

    /// What went wrong since the start, by name.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub(super) fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts = vec![
            (
                "DNS queries not followed: too many wait for their answer",
                self.exchanges.refused,
            ),
            (
                "DNS answers that nothing waited for: late, repeated, or to a query before the start",
                self.exchanges.unmatched,
            ),
        ];
        for (index, name) in (0_u32..).zip(native::dns_counter_names()) {
            counts.push((name, self.count(index)?));
        }
        Ok(counts)
    }

    fn count(&self, index: u32) -> Result<u64, Error> {
        self.programs.counter("dns_counters", index)
    }

    fn read(&mut self, report: Report<'_>) -> Result<(), Error> {
        let exchanges = &mut self.exchanges;
        self.programs
            .read_events(|events| exchanges.read(events, wall_clock_offset(), report))
    }
}
