//! Many cases in one lab at a time, told apart by their ports.

use std::net::SocketAddr;

use fathom_lab::Topology;
use fathom_tests::{Prediction, Profile, check};

use crate::stage::{Family, ROUND_TRIP, Stage, about, profiles_of};

/// Makes the connection of a case, to this address of the server.
pub(crate) type Script = fn(&Topology, SocketAddr);

/// Makes the connections of all scripts over both families at once, each with its port.
pub(crate) fn perform(lab: &Topology, scripts: &[(u16, Script)]) {
    std::thread::scope(|scope| {
        for (case, script) in scripts {
            for family in Family::BOTH {
                let address = SocketAddr::from((family.server(), family.port(*case)));
                scope.spawn(move || script(lab, address));
            }
        }
    });
}

/// What was printed of all cases: of a port, at the client and at the server.
pub(crate) struct Cases(Vec<(u16, Vec<Profile>, Vec<Profile>)>);

impl Cases {
    /// Plays all scripts over both families at once, each with its port.
    pub(crate) fn play(stage: Stage, scripts: &[(u16, Script)]) -> Self {
        perform(&stage.lab, scripts);
        let [client, server] = [&stage.lab.client, &stage.lab.server];
        let mut found = Vec::new();
        for family in Family::BOTH {
            for (case, _) in scripts {
                let port = family.port(*case);
                let at_client = stage.profiles(client, port);
                let is_attempt = at_client.len() == 1;
                let at_server = if is_attempt {
                    Vec::new()
                } else {
                    stage.profiles(server, port)
                };
                found.push((port, at_client, at_server));
            }
        }
        let finished = stage.fathom.finish().unwrap();
        // What was lost, if anything was, is told there.
        println!("{}", finished.errors);
        let all = finished.profiles();
        for (port, at_client, at_server) in &found {
            // Nothing came behind the last.
            assert_eq!(profiles_of(&all, client, *port), *at_client);
            assert_eq!(profiles_of(&all, server, *port), *at_server);
        }
        Self(found)
    }

    /// Holds the profiles of a case, over both families, against what was predicted.
    pub(crate) fn check(&self, case: u16, client: &[Prediction], server: &[Prediction]) {
        for family in Family::BOTH {
            let port = family.port(case);
            let (_, at_client, at_server) = self.0.iter().find(|found| found.0 == port).unwrap();
            check(&format!("{family:?} client"), at_client, client);
            check(&format!("{family:?} server"), at_server, server);
        }
    }
}

/// A handshake without incidents, at either end: a SYN, or SYN-ACK, acknowledged a round trip
/// later.
pub(crate) fn established() -> Prediction {
    handshake().within("establishment_ns", about(ROUND_TRIP))
}

/// The same, where it is not known when it began.
pub(crate) fn handshake() -> Prediction {
    Prediction::new("NEW", "ESTABLISHED", "established")
        .with("packets_acknowledged", 1)
        .within("duration_ns", about(ROUND_TRIP))
        .within("srtt_ns", about(ROUND_TRIP))
        .within("rtt_min_ns", about(ROUND_TRIP))
        .within("stalled_ns", about(std::time::Duration::ZERO))
}
