//! What is asked of the measurement.

use crate::selection::Selection;
use crate::traffic::native;

/// What is asked of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Flows that have state at the same time. When full, those go that were not used again.
    pub flows: u32,
    /// Look into tunnels: the flow is the innermost.
    pub has_tunnels: bool,
    /// Which flows are measured.
    pub selection: Selection,
}

impl Settings {
    /// For a live interface.
    pub fn live() -> Self {
        Self {
            flows: 65_536,
            has_tunnels: true,
            selection: Selection::default(),
        }
    }

    /// For capture files.
    pub fn files() -> Self {
        Self {
            flows: 1_048_576,
            ..Self::live()
        }
    }

    /// As the C side takes them.
    pub(crate) fn to_native(&self, seed: u64) -> native::traffic_config {
        native::traffic_config {
            seed,
            has_tunnels: u8::from(self.has_tunnels),
            ..native::traffic_config::default()
        }
    }
}
