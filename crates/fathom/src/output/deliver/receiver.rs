//! Who is sent records, and says what it has kept.

use std::time::Duration;

/// Takes records for sure. It leaves out, or forgets, what comes twice.
pub(crate) trait Receiver: Send + 'static {
    /// Sends batches, as [`fathom_store::received`] reads them, and waits until they are kept.
    ///
    /// # Errors
    /// When they are not, or may not be.
    fn send(&mut self, batches: &[u8]) -> Result<Taken, Failure>;

    /// Batches wait so long for others to be sent with them.
    fn pace(&self) -> Duration {
        Duration::ZERO
    }
}

/// What became of batches that were sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Records of these that will never be taken, as far as this side counts them.
    pub(crate) refused_rows: u64,
    /// What is to be told of them.
    pub(crate) words: Option<String>,
}

/// Why batches were not kept.
#[derive(Debug)]
pub(crate) enum Failure {
    /// They never will be.
    Refused(String),
    /// They may be later.
    Away(String),
}

/// Who it is, for people and for the spool.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// What counts are told under.
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "an agent tells of it")
    )]
    pub(crate) sink: &'static str,
    /// As people know it.
    pub(crate) name: String,
    /// The directory of the spool in which records wait for it.
    pub(crate) directory: String,
}
