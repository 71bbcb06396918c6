//! From options to what the measurement takes.

use fathom_measure::response::{Grouping, ResponseAggregate, ResponseEpoch, Settings};
use fathom_measure::{Scope, Selection};

use super::arguments::ResponseArguments;
use crate::output::LineOptions;

impl ResponseArguments {
    /// For capture files.
    pub(super) fn settings_for_files(&self) -> Settings {
        self.settings(&Settings::files())
    }

    #[cfg(feature = "live")]
    pub(super) fn settings_for_interfaces(&self) -> Settings {
        self.settings(&Settings::live())
    }

    fn settings(&self, defaults: &Settings) -> Settings {
        Settings {
            estimator: self.estimation.estimator,
            epoch: self.estimation.epoch,
            timeout: self.estimation.timeout,
            datagram_timeout: self.estimation.timeout,
            threshold: self.estimation.threshold,
            servers: self.servers.net.clone(),
            ports: self.servers.port.clone(),
            one_flow_in: self.servers.flows_sampled,
            scope: Scope {
                selection: Selection {
                    excluded: self.servers.not_net.clone(),
                    protocols: self.servers.protocol.clone(),
                    ..Selection::default()
                },
                has_tunnels: !self.servers.no_tunnels,
                flows: self.flows.unwrap_or(defaults.scope.flows),
            },
        }
    }

    /// How epochs are put together, if they are.
    pub(super) fn grouping(&self) -> Option<Grouping> {
        let prefixes = &self.groups.prefixes;
        self.groups.by.0.map(|by| Grouping {
            by,
            prefix_v4: prefixes.prefix_v4,
            prefix_v6: prefixes.prefix_v6,
        })
    }

    /// Where records go.
    pub(super) fn line_options(&self) -> LineOptions<'_> {
        LineOptions {
            target: &self.output.target,
            export: &self.export,
            format: self.output.format,
            formatter: None,
            main: match self.groups.by.0 {
                None => ResponseEpoch::SCHEMA,
                Some(_) => ResponseAggregate::SCHEMA,
            },
        }
    }
}
