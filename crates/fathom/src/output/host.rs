//! Who observes.

use anyhow::Context;

use crate::arguments::OutputTarget;

impl OutputTarget {
    /// The name of this host in records.
    ///
    /// # Errors
    /// When none was given, and the host has none that can be read.
    pub(crate) fn host(&self) -> anyhow::Result<String> {
        const WHAT: &str = "this host has no name that can be read: give it one with --host";
        if let Some(host) = &self.host {
            return Ok(host.clone());
        }
        let name = nix::unistd::gethostname().context(WHAT)?;
        let name = name.into_string().ok().filter(|name| !name.is_empty());
        name.context(WHAT)
    }
}
