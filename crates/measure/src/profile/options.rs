//! What to profile.

use std::path::PathBuf;
use std::time::Duration;

use super::probes::ProbeSet;
use crate::kernel::Group;
use crate::{Error, Selection};

/// What to profile.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "flags")]
pub struct Options {
    /// The set of probes; `None`: the one that can do more on this kernel.
    pub set: Option<ProbeSet>,
    /// Which connections.
    pub selection: Selection,
    /// Only sockets in this control group or below, a folder of the version 2 hierarchy.
    pub group: Option<PathBuf>,
    /// After so long without a profile a connection gets one; zero: never.
    pub active_timeout: Duration,
    /// A connection that ends within 200 ms after it was established has one profile in place of
    /// two: from its beginning to its end.
    pub coalesces: bool,
    /// Look through the sockets of all network namespaces that some process is in, not only through
    /// those of its own.
    pub has_all_namespaces: bool,
    /// DNS exchanges too, and how long applications wait for names; the latter have neither network
    /// nor port, and a selection by these leaves them out.
    pub has_dns: bool,
    /// Tell which names applications wait for.
    pub has_names: bool,
    /// A DNS query that was not answered for so long since it was last sent will not be; resolver
    /// libraries wait 5 s.
    pub dns_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            set: None,
            selection: Selection::default(),
            group: None,
            active_timeout: Duration::from_secs(300),
            coalesces: false,
            has_all_namespaces: false,
            has_dns: false,
            has_names: true,
            dns_timeout: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// The whole host, with its names.
    pub fn everything() -> Self {
        Self {
            has_dns: true,
            ..Self::default()
        }
    }

    /// The control group, as the programs compare it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the folder is none.
    pub(super) fn group(&self) -> Result<Group, Error> {
        self.group
            .as_deref()
            .map_or(Ok(Group::default()), Group::of)
    }
}
