//! What fathom keeps for each connection, in the kernel and for itself.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use fathom_benches::live::Memory;
use fathom_lab::Namespace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::bulk::pairs;
use super::profiling::Invocation;

const CLIENT_ADDRESS: &str = "10.79.0.1/24";
const SERVER_ADDRESS: &str = "10.79.0.2/24";
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 79, 0, 2), 8_080);
/// Messages of each connection, each way: round trips enough for some to be measured.
const MESSAGES: u32 = 4;
const MESSAGE: [u8; 512] = [b'.'; 512];
/// Until fathom has read what the kernel told it, and until the first retransmission timeout.
const SETTLING: Duration = Duration::from_secs(1);

/// The moments at which memory is looked at.
pub(super) struct Moments {
    /// Before there were any connections.
    pub(super) before: Memory,
    /// All are established and have exchanged messages.
    pub(super) established: Memory,
    /// And half of them, the ends that opened them, have a retransmission timeout behind them.
    pub(super) stalled: Memory,
}

impl Moments {
    /// How much each kind of memory grew, by name, until connections were established and until
    /// half of them had stalled; in bytes.
    pub(super) fn growth(&self) -> Vec<(String, i64, i64)> {
        let grown = |later: &Memory, index: usize| {
            let bytes = |memory: &Memory| memory.kernel[index].bytes.cast_signed();
            bytes(later) - bytes(&self.before)
        };
        let objects = self.before.kernel.iter().enumerate();
        objects
            .map(|(index, object)| {
                (
                    object.name.clone(),
                    grown(&self.established, index),
                    grown(&self.stalled, index),
                )
            })
            .collect()
    }
}

/// Follows `ends` ends of connections: half as many connections, since this host has both ends.
pub(super) fn measure(invocation: &Invocation, ends: usize) -> anyhow::Result<Moments> {
    allow_descriptors()?;
    let client = Namespace::new("client")?;
    let server = Namespace::new("server")?;
    client.connect("veth0", &server, "veth1")?;
    client.add_address("veth0", CLIENT_ADDRESS)?;
    server.add_address("veth1", SERVER_ADDRESS)?;
    let fathom = invocation.start(&client, Stdio::null())?;
    let look = || {
        thread::sleep(SETTLING);
        Memory::of(fathom.id())
    };
    let before = look()?;

    let listener = server
        .enter(|| TcpListener::bind(SERVER))?
        .with_context(|| format!("listen at {SERVER}"))?;
    let (opened, accepted) = client
        .enter(|| pairs(&listener, ends / 2))?
        .context("open the connections")?;
    for _ in 0..MESSAGES {
        send(&opened, &accepted)
            .and_then(|()| send(&accepted, &opened))
            .context("exchange messages")?;
    }
    let established = look()?;

    // From now on nothing arrives, and nobody says so.
    server.run(&format!("ip address del {SERVER_ADDRESS} dev veth1"))?;
    for mut stream in &opened {
        stream.write_all(&MESSAGE).context("send what gets lost")?;
    }
    let stalled = look()?;
    fathom.stop()?;
    Ok(Moments {
        before,
        established,
        stalled,
    })
}

fn send(from: &[TcpStream], to: &[TcpStream]) -> io::Result<()> {
    let mut received = [0; MESSAGE.len()];
    for (mut from, mut to) in from.iter().zip(to) {
        from.write_all(&MESSAGE)?;
        to.read_exact(&mut received)?;
    }
    Ok(())
}

/// Thousands of sockets are more than most shells allow.
fn allow_descriptors() -> anyhow::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("allow more open files")
}
