//! What others know of routers: their names, and the systems that they are of.

use std::time::Duration;

use fathom_measure::Take;
use fathom_measure::hops::HopSummary;
use fathom_record::Record;

use super::arguments::HopsArguments;
use super::names::Names;
use super::systems::Systems;

/// How long names are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Those that are asked.
pub(super) struct Registry {
    names: Option<Names>,
    systems: Option<Systems>,
}

impl Registry {
    /// Those that the user wants to be asked.
    ///
    /// # Errors
    /// When one cannot be.
    pub(super) fn open(arguments: &HopsArguments) -> anyhow::Result<Self> {
        let output = &arguments.output;
        Ok(Self {
            names: output.names.then(Names::start).transpose()?,
            systems: output.asn.as_deref().map(Systems::open).transpose()?,
        })
    }

    /// Hands the record on, with name and number of its router, if they are wanted and known by
    /// now.
    pub(super) fn complete(&self, record: &dyn Record, take: &mut Take<'_>) {
        let hop = record.downcast_ref::<HopSummary>();
        let Some((hop, responder)) = hop.and_then(|hop| Some((hop, hop.responder?))) else {
            return take(record);
        };
        let (names, systems) = (self.names.as_ref(), self.systems.as_ref());
        take(&HopSummary {
            responder_name: names.and_then(|names| names.of(responder)),
            as_number: systems.and_then(|systems| systems.of(responder)),
            ..hop.clone()
        });
    }

    /// Waits for names that were asked for.
    pub(super) fn settle(&self) {
        if let Some(names) = &self.names {
            names.settle(PATIENCE);
        }
    }
}
