//! What is asked of the measurement.

use crate::selection::Scope;
use crate::traffic::native;

/// What is asked of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which packets are measured.
    pub scope: Scope,
}

impl Settings {
    /// For a live interface.
    pub fn live() -> Self {
        Self {
            scope: Scope::live(),
        }
    }

    /// For capture files.
    pub fn files() -> Self {
        Self {
            scope: Scope::files(),
        }
    }

    /// As the C side takes them.
    pub(crate) fn to_native(&self, seed: u64) -> native::traffic_config {
        native::traffic_config {
            seed,
            has_tunnels: u8::from(self.scope.has_tunnels),
            ..native::traffic_config::default()
        }
    }
}
