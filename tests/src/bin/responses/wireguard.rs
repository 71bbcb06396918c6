//! A tunnel of `WireGuard` between client and server, on a library of others: nothing but lengths
//! tells what passes in it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use anyhow::{Result, bail};
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use fathom_lab::{Device, Layer, Namespace, Stop, Topology, Worker};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Where the server is for those that ask through the tunnel.
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
const INTERFACE: &str = "wg0";
const PORT: u16 = 51_820;
/// What fits a path of 1500 bytes.
const MTU_BYTES: u32 = 1420;
const PACKET_BYTES: usize = 1 << 16;
/// How soon timers, and the end, are looked at, in ms.
const PATIENCE_MS: u16 = 20;

/// A tunnel between client and server, until it is dropped.
pub(crate) struct Tunnel {
    ends: Vec<Worker<Result<()>>>,
}

impl Tunnel {
    pub(crate) fn start(client: &Namespace, server: &Namespace) -> Result<Self> {
        let secrets = [StaticSecret::from([1; 32]), StaticSecret::from([2; 32])];
        let public = secrets.each_ref().map(PublicKey::from);
        let [first, second] = secrets;
        let ends = [
            (client, CLIENT, Topology::SERVER_V4, first, public[1]),
            (server, SERVER, Topology::CLIENT_V4, second, public[0]),
        ];
        let mut workers = Vec::new();
        for (index, (namespace, address, peer, secret, public)) in (0..).zip(ends) {
            let device = Device::create(namespace, INTERFACE, Layer::Ip, MTU_BYTES)?;
            namespace.run(&format!("ip address add {address}/24 dev {INTERFACE}"))?;
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
            let socket = namespace.enter(|| UdpSocket::bind(any))??;
            socket.set_nonblocking(true)?;
            socket.connect(SocketAddr::new(peer, PORT))?;
            let mut end = End {
                tunnel: Tunn::new(secret, public, None, None, index, None),
                device,
                socket,
            };
            workers.push(Worker::start("wireguard", move |stop| end.run(stop))?);
        }
        Ok(Self { ends: workers })
    }

    /// Ends it.
    pub(crate) fn finish(self) -> Result<()> {
        self.ends.into_iter().try_for_each(Worker::finish)
    }
}

/// One end of the tunnel.
struct End {
    tunnel: Tunn,
    device: Device,
    socket: UdpSocket,
}

impl End {
    fn run(&mut self, stop: &Stop) -> Result<()> {
        let mut packet = vec![0; PACKET_BYTES];
        let mut output = vec![0; PACKET_BYTES];
        while !stop.is_set() {
            let mut waiting = [
                PollFd::new(self.device.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut waiting, PollTimeout::from(PATIENCE_MS))?;
            while let Some(length) = self.device.read(&mut packet)? {
                let sealed = self.tunnel.encapsulate(&packet[..length], &mut output);
                pass(&self.device, &self.socket, sealed)?;
            }
            while let Ok(length) = self.socket.recv(&mut packet) {
                let mut opened = self
                    .tunnel
                    .decapsulate(None, &packet[..length], &mut output);
                // What is to be sent may have more behind it.
                while pass(&self.device, &self.socket, opened)? {
                    opened = self.tunnel.decapsulate(None, &[], &mut output);
                }
            }
            pass(
                &self.device,
                &self.socket,
                self.tunnel.update_timers(&mut output),
            )?;
        }
        Ok(())
    }
}

/// Hands a packet on. Returns whether it went to the other end.
fn pass(device: &Device, socket: &UdpSocket, result: TunnResult<'_>) -> Result<bool> {
    match result {
        TunnResult::Done => Ok(false),
        TunnResult::Err(error) => bail!("the tunnel: {error:?}"),
        TunnResult::WriteToNetwork(bytes) => {
            // The other end may not be there yet, or any more: the handshake is tried again.
            let _ = socket.send(bytes);
            Ok(true)
        }
        TunnResult::WriteToTunnelV4(bytes, _) | TunnResult::WriteToTunnelV6(bytes, _) => {
            device.write(bytes)?;
            Ok(false)
        }
    }
}
