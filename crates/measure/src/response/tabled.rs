//! For programs that keep flows of requests in tables of their own (`fathom balance`): what they are told, and how what they tell reads.

use fathom_record::Nanoseconds;

use super::engine::{HANDSHAKES, record, waiting};
use super::{ResponseEpoch, Settings};
use crate::Error;
use crate::kernel::{InterfaceNames, bytes_of, read_prefix};
use crate::native::{
    Requests, flow_key, response_bins, response_config, response_epoch, response_flow,
};

/// How a program measures, and what it says.
#[derive(Debug, Clone)]
pub struct Tabled {
    config: response_config,
    settings: Settings,
}

/// What the table of a program holds of a flow.
#[derive(Clone, Copy)]
pub struct TabledFlow {
    flow: response_flow,
    bins: response_bins,
    key: flow_key,
}

impl Tabled {
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

    /// A `struct response_epoch` at the begin of these bytes. `time_offset` makes its times count from 1970.
    pub fn epoch(&self, bytes: &[u8], time_offset: u64) -> Option<EpochOfFlow> {
        let (epoch, _) = read_prefix::<response_epoch>(bytes)?;
        Some(self.read(&epoch, time_offset))
    }

    fn read(&self, epoch: &response_epoch, time_offset: u64) -> EpochOfFlow {
        let names = InterfaceNames::default();
        EpochOfFlow {
            begin: epoch.begin,
            epoch: record(epoch, None, self.settings.estimator, &names, time_offset),
        }
    }

    /// A `struct response_flow`, and its bins behind it, at the begin of these bytes; of a flow of this protocol.
    pub fn flow(&self, bytes: &[u8], protocol: u8) -> Option<TabledFlow> {
        let (flow, rest) = read_prefix::<response_flow>(bytes)?;
        let (bins, _) = read_prefix::<response_bins>(rest)?;
        let mut key = flow_key::default();
        key.set_protocol(protocol.into());
        Some(TabledFlow { flow, bins, key })
    }

    /// The epoch of a flow that is over at `now` though no packet has told.
    pub fn end(&self, flow: &TabledFlow, now: u64, time_offset: u64) -> Option<EpochOfFlow> {
        let mut requests = Requests::of_bytes(flow.flow, bytes_of(&flow.bins))?;
        // The kernel may have written to it since.
        let now = now.max(flow.flow.last);
        let ended = requests.end_epoch(&flow.key, now, false, &self.config)?;
        Some(self.read(&ended, time_offset))
    }
}

/// An epoch that is over.
#[derive(Debug, Clone, Copy)]
pub struct EpochOfFlow {
    /// When it began, by the clock of the kernel: told twice, it is the same.
    pub begin: u64,
    /// What came of it.
    pub epoch: ResponseEpoch,
}

impl TabledFlow {
    /// When the last request passed, by the clock of the kernel; 0: none has.
    pub fn last(&self) -> u64 {
        self.flow.last
    }

    /// How long the last request has been unanswered, if it is. Only TCP tells.
    pub fn waiting(&self, now: u64) -> Option<Nanoseconds> {
        waiting(&self.key, &self.flow, now).filter(|_| self.flow.last != 0)
    }
}

/// The clock that the kernel stamps packets with.
pub fn kernel_clock() -> u64 {
    crate::kernel::monotonic_ns()
}

/// What makes the kernel's times count from 1970; to be read anew each time, since the wall clock is adjusted.
pub fn kernel_clock_offset() -> u64 {
    crate::kernel::wall_clock_offset()
}
