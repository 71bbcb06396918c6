//! Which end of a flow is the server's.

use std::collections::HashMap;

use super::{response, rtt, traffic};

/// An address and a port.
pub(super) type Place = (String, u16);

/// A flow of the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) client: Place,
    pub(super) server: Place,
    /// When it was first told of.
    pub(super) first_ns: i64,
}

/// The flows of the subject, by their Community IDs.
#[derive(Debug, Default)]
pub(super) struct Flows(HashMap<String, Flow>);

/// A flow is established when it was told of for so long.
const ESTABLISHED_NS: i64 = 1_500_000_000;

impl Flows {
    /// What waits for responses is a client, so `response` is asked first, then who began by
    /// `traffic`, then the numbers of ports.
    pub(super) fn of(
        responses: &[response::Row],
        traffic: &[traffic::Row],
        rtts: &[rtt::Row],
    ) -> Self {
        let mut flows = Self::default();
        for row in responses {
            let client = (row.source.as_str(), row.source_port);
            let server = (row.destination.as_str(), row.destination_port);
            flows.add(&row.community_id, row.time_ns, client, server);
        }
        for row in traffic {
            let client = (row.source.as_str(), row.source_port);
            let server = (row.destination.as_str(), row.destination_port);
            flows.add(&row.community_id, row.time_ns, client, server);
        }
        for row in rtts {
            if row.source_port > row.destination_port {
                let client = (row.source.as_str(), row.source_port);
                let server = (row.destination.as_str(), row.destination_port);
                flows.add(&row.community_id, row.time_ns, client, server);
            }
        }
        flows
    }

    fn add(&mut self, id: &str, time_ns: i64, client: (&str, u16), server: (&str, u16)) {
        if let Some(flow) = self.0.get_mut(id) {
            flow.first_ns = flow.first_ns.min(time_ns);
            return;
        }
        let place = |(address, port): (&str, u16)| (address.to_owned(), port);
        let flow = Flow {
            client: place(client),
            server: place(server),
            first_ns: time_ns,
        };
        self.0.insert(id.to_owned(), flow);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Flow> {
        self.0.get(id)
    }

    /// A flow with its Community ID.
    pub(super) fn entry(&self, id: &str) -> Option<(&str, &Flow)> {
        self.0
            .get_key_value(id)
            .map(|(id, flow)| (id.as_str(), flow))
    }

    /// Whether this is the server's end of the flow; not known of one that is not known.
    pub(super) fn is_server(&self, id: &str, address: &str, port: u16) -> Option<bool> {
        let flow = self.0.get(id)?;
        Some(flow.server.0 == address && flow.server.1 == port)
    }

    /// Whether its first packets are past.
    pub(super) fn is_established(&self, id: &str, time_ns: i64) -> bool {
        let flow = self.0.get(id);
        flow.is_some_and(|flow| time_ns - flow.first_ns >= ESTABLISHED_NS)
    }
}

/// An address with its port, as people write it.
pub(super) fn shown((address, port): &Place) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}
