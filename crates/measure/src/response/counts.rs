//! What happened to packets, epochs and flows.

use crate::Counts;
use crate::counts::PacketCounts;
use crate::response::native::{self, RESPONSE_COUNT_EPOCHS, RESPONSE_COUNTER_COUNT};

pub(super) type ResponseCounts = PacketCounts<{ RESPONSE_COUNTER_COUNT as usize }>;

impl From<ResponseCounts> for Counts {
    fn from(counts: ResponseCounts) -> Self {
        counts.named(native::counter_names(), ("epochs", RESPONSE_COUNT_EPOCHS))
    }
}
