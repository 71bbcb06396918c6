//! What the other direction of a capture tells of the same responses: a check of the estimates that needs nothing but the capture.

use crate::native::fathom_reading;

/// Responses of a flow as the packets of the server show them: from the first request of a batch to the last packet with data before the
/// request that follows it.
#[derive(Debug, Clone, Default)]
pub(super) struct Responses {
    /// When the batch that is under way began, in nanoseconds; 0: none is.
    batch: u64,
    /// When the last packet with data came since; 0: none has.
    answered: u64,
    sum: u64,
    count: u32,
}

impl Responses {
    /// A packet of the server.
    pub(super) fn on_answer(&mut self, reading: &fathom_reading, now: u64) {
        if reading.packet.payload > 0 {
            self.answered = now;
        }
    }

    /// A packet of the client that counts as a request.
    pub(super) fn on_request(&mut self, now: u64) {
        if self.batch != 0 && self.answered == 0 {
            return;
        }
        if self.batch != 0 {
            self.sum += self.answered.saturating_sub(self.batch);
            self.count += 1;
        }
        (self.batch, self.answered) = (now, 0);
    }

    /// The average since the last call, in nanoseconds.
    pub(super) fn take(&mut self) -> Option<f64> {
        let average = (self.count > 0).then(|| self.sum as f64 / f64::from(self.count));
        (self.sum, self.count) = (0, 0);
        average
    }
}
