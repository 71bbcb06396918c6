//! For programs that keep flows of requests in tables of their own (`fathom balance`): what they
//! are told, and how what they tell reads.

use fathom_record::Nanoseconds;

use super::engine::{HANDSHAKES, record, waiting};
use super::{ResponseEpoch, Settings};
use crate::Error;
use crate::bytes::bytes_of;
use crate::kernel::InterfaceNames;
use crate::native::flow_key;
use crate::response::native::{
    Requests, response_bins, response_config, response_epoch, response_flow,
};

/// How a program measures, and what it says.
#[derive(Debug, Clone)]
pub struct EpochReader {
    config: response_config,
    settings: Settings,
}

/// What the table of a program holds of a flow.
#[derive(Clone, Copy)]
pub struct StoredFlow {
    /// How it stands.
    pub flow: response_flow,
    /// The gaps of its epoch.
    pub bins: response_bins,
    /// The key, of which only the protocol counts.
    pub key: flow_key,
}

impl EpochReader {
    /// With an estimator that keeps bins. `seed` is a secret.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the selection is too long.
    pub fn new(settings: &Settings, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            config: settings.to_native(seed, HANDSHAKES)?,
            settings: settings.clone(),
        })
    }

    /// The bytes of `struct response_config`.
    pub fn config(&self) -> &[u8] {
        bytes_of(&self.config)
    }

    /// What came of an epoch. `time_offset` makes its times count from 1970.
    pub fn read(&self, epoch: &response_epoch, time_offset: u64) -> FlowEpoch {
        let names = InterfaceNames::default();
        FlowEpoch {
            begin: epoch.begin,
            epoch: record(epoch, None, self.settings.estimator, &names, time_offset),
        }
    }

    /// The epoch of a flow that is over at `now` though no packet has told.
    pub fn end(&self, flow: &StoredFlow, now: u64, time_offset: u64) -> Option<FlowEpoch> {
        let mut requests = Requests::of_bytes(flow.flow, bytes_of(&flow.bins))?;
        // The kernel may have written to it since.
        let now = now.max(flow.flow.last);
        let ended = requests.end_epoch(&flow.key, now, false, &self.config)?;
        Some(self.read(&ended, time_offset))
    }
}

/// An epoch that is over.
#[derive(Debug, Clone, Copy)]
pub struct FlowEpoch {
    /// When it began, by the clock of the kernel: told twice, it is the same.
    pub begin: u64,
    /// What came of it.
    pub epoch: ResponseEpoch,
}

impl StoredFlow {
    /// When the last request passed, by the clock of the kernel; 0: none has.
    pub fn last(&self) -> u64 {
        self.flow.last
    }

    /// How long the last request has been unanswered, if it is. Only TCP tells.
    pub fn waiting(&self, now: u64) -> Option<Nanoseconds> {
        waiting(&self.key, &self.flow, now).filter(|_| self.flow.last != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::read_prefix;
    use crate::response::native::{
        RESPONSE_IS_USED, response_state, response_tcp, response_triggers,
    };

    /// A flow that sent its last request at 900 ms, 300 ms after its epoch began, with ten
    /// responses of 30 ms.
    fn flow(pure_age: u32, protocol: u32) -> StoredFlow {
        let ticks = |ms: u32| ms * 1_000_000 / 16;
        let flow = response_flow {
            last: 900_000_000,
            age: ticks(300),
            retained: ticks(300),
            state: response_state {
                tcp: response_tcp {
                    causal: 10,
                    pure_age,
                    ..Default::default()
                },
            },
            flags: RESPONSE_IS_USED as u16,
            ..response_flow::default()
        };
        let triggers = response_triggers {
            count: 10,
            ..Default::default()
        };
        let (bins, _) = read_prefix(bytes_of(&triggers)).unwrap();
        let mut key = flow_key::default();
        key.set_protocol(protocol);
        StoredFlow { flow, bins, key }
    }

    #[test]
    fn an_epoch_ends_without_a_packet() {
        let tabled = EpochReader::new(&Settings::live(), 7).unwrap();
        let flow = flow(0, 6);
        assert!(
            tabled.end(&flow, 1_000_000_000, 0).is_none(),
            "it lasts 500 ms"
        );
        let ended = tabled.end(&flow, 1_200_000_000, 0).unwrap();
        assert_eq!(ended.begin, 600_000_000);
        assert_eq!(ended.epoch.causal_gaps, 10);
        let latency = ended.epoch.latency_ns.unwrap().0;
        assert!((29_900_000..30_100_000).contains(&latency), "{latency}");
    }

    #[test]
    fn who_has_no_answer_waits() {
        let waiting = |pure_age, protocol| flow(pure_age, protocol).waiting(950_000_000);
        assert_eq!(waiting(0, 6), Some(Nanoseconds(50_000_000)));
        assert_eq!(waiting(5, 6), None, "the answer was acknowledged");
        assert_eq!(waiting(0, 17), None, "only TCP tells");
    }
}
