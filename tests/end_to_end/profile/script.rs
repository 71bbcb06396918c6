//! A script plays the other end, segment by segment, so that only the kernel's end has a profile.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use fathom_lab::{Connection, Opening, ScriptedPeer, TcpFlags};
use fathom_tests::{Fathom, Prediction, Profile, check};

use crate::stage::{Family, PATIENCE, about, listen, whole_profiles};

/// The script's port.
const SCRIPT_PORT: u16 = 4000;

/// Plays a case with the kernel, at this port.
pub(crate) type Play = fn(&ScriptedPeer, Family, u16);

/// What selects the connections with a script.
pub(crate) const NETWORKS: [&str; 2] = ["--net", "10.78.0.0/16,fd78::/16"];

/// A peer for scripts, and a kernel without loss probes.
pub(crate) fn prepare() -> ScriptedPeer {
    let peer = ScriptedPeer::new().unwrap();
    let kernel = peer.namespace();
    kernel.set_congestion_control("reno").unwrap();
    kernel.set("net/ipv4/tcp_early_retrans", "0").unwrap();
    peer
}

/// Plays all cases over both families, one after the other; their ports.
pub(crate) fn perform(peer: &ScriptedPeer, cases: &[(u16, Play)]) -> Vec<u16> {
    let mut ports = Vec::new();
    for family in Family::BOTH {
        for (case, play) in cases {
            let port = family.port(*case);
            play(peer, family, port);
            ports.push(port);
        }
    }
    ports
}

/// What was printed of all cases, by port.
pub(crate) struct Scripted(Vec<(u16, Vec<Profile>)>);

impl Scripted {
    /// Plays all cases over both families, one after the other.
    pub(crate) fn play(cases: &[(u16, Play)]) -> Self {
        let peer = prepare();
        let kernel = peer.namespace();
        let fathom = Fathom::profile(kernel, &NETWORKS).unwrap();
        let ports = perform(&peer, cases);
        let whole = |port| (port, whole_profiles(&fathom, kernel, port));
        let found = ports.into_iter().map(whole).collect();
        fathom.finish().unwrap();
        Self(found)
    }

    /// Holds the profiles of a case, over both families, against what was predicted.
    pub(crate) fn check(&self, case: u16, predictions: &[Prediction]) {
        for family in Family::BOTH {
            let port = family.port(case);
            let (_, profiles) = self.0.iter().find(|found| found.0 == port).unwrap();
            check(&format!("{family:?}"), profiles, predictions);
        }
    }
}

fn kernel_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => ScriptedPeer::KERNEL_V4,
        Family::V6 => ScriptedPeer::KERNEL_V6,
    }
}

/// The script connects, plays and closes; then the kernel closes.
pub(crate) fn be_accepted(
    peer: &ScriptedPeer,
    family: Family,
    port: u16,
    script: impl FnOnce(&mut Connection, &mut TcpStream),
) {
    be_accepted_from(1, peer, family, port, script);
}

/// The same, with this initial sequence number of the script.
pub(crate) fn be_accepted_from(
    initial_sequence: u32,
    peer: &ScriptedPeer,
    family: Family,
    port: u16,
    script: impl FnOnce(&mut Connection, &mut TcpStream),
) {
    let address = SocketAddr::from((kernel_address(family), port));
    let listener = listen(peer.namespace(), address);
    let opening = Opening {
        initial_sequence,
        ..Opening::default()
    };
    let mut connection = peer
        .connect_to_kernel(SCRIPT_PORT, address, opening, PATIENCE)
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    script(&mut connection, &mut stream);
    close(connection, stream);
}

/// The script's FIN, then the kernel's, unless it was before.
pub(crate) fn close(mut connection: Connection, mut stream: TcpStream) {
    connection.send(&connection.fin()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    drop(stream);
    let last = connection.sequence_at(connection.sent().cast_signed());
    connection
        .expect(PATIENCE, |segment| {
            segment.has(TcpFlags::FIN) || segment.acknowledgement == last
        })
        .unwrap();
    connection.drain().unwrap();
    connection.send(&connection.ack()).unwrap();
}

/// The script's bytes from `offset` on; everything before has arrived.
pub(crate) fn deliver(connection: &mut Connection, offset: u32, length: usize) {
    connection.send(&connection.data(offset, length)).unwrap();
}

/// The handshake, of which the kernel's end takes no time: the script answers at once.
pub(crate) fn established() -> Prediction {
    Prediction::new("NEW", "ESTABLISHED", "established")
        .with("packets_acknowledged", 1)
        .within("establishment_ns", about(Duration::ZERO))
}

/// The end of a connection that took in so much and sent nothing but a FIN.
pub(crate) fn received(bytes: u32, packets: u32) -> Prediction {
    Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_received", bytes)
        .with("packets_received", packets)
        .with("packets_acknowledged", 1)
}
