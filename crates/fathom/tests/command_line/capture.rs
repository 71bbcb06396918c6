//! Captures of echoes, each answered after 20 ms.

use std::path::PathBuf;

use etherparse::{Icmpv4Header, PacketBuilder, PacketBuilderStep};
use fathom_capture::{LinkType, Writer};
use tempfile::TempDir;

/// Between one echo and the next, in nanoseconds.
pub(crate) const PERIOD_NS: u64 = 100_000_000;
/// Between an echo and its answer.
pub(crate) const DELAY_NS: u64 = 20_000_000;
/// 2023-11-14T22:13:20Z.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// A pcap file of so many echoes and their answers.
pub(crate) fn bytes(echoes: u16) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 1, 1]);
    let mut writer = Writer::new(Vec::new(), LinkType::IPV4, 0).unwrap();
    let mut write = |time_ns, packet: PacketBuilderStep<Icmpv4Header>| {
        let mut bytes = Vec::new();
        packet.write(&mut bytes, &[0; 8]).unwrap();
        writer.write(time_ns, bytes.len() as u32, &bytes).unwrap();
    };
    for sequence in 0..echoes {
        let time_ns = BEGIN_NS + u64::from(sequence) * PERIOD_NS;
        let request = PacketBuilder::ipv4(client, server, 64).icmpv4_echo_request(7, sequence);
        let reply = PacketBuilder::ipv4(server, client, 64).icmpv4_echo_reply(7, sequence);
        write(time_ns, request);
        write(time_ns + DELAY_NS, reply);
    }
    writer.finish().unwrap()
}

/// The same in a directory of its own, which goes with the value.
pub(crate) struct Capture {
    pub(crate) directory: TempDir,
    pub(crate) path: PathBuf,
}

impl Capture {
    pub(crate) fn new(echoes: u16) -> Self {
        Self::holding(&bytes(echoes))
    }

    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("echoes.pcap");
        std::fs::write(&path, bytes).unwrap();
        Self { directory, path }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// A file beside it.
    pub(crate) fn beside(&self, name: &str, content: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
