//! Packets in bursts, with headers that the caller makes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

use crate::{Error, Namespace, Result, Worker};

/// A flood of IPv4 packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flood {
    /// Where they are routed to.
    pub destination: Ipv4Addr,
    /// How many, a multiple of those of a burst.
    pub packets: u32,
    /// How many come at once.
    pub burst: u32,
    /// From the beginning of a burst to that of the next.
    pub pause: Duration,
}

impl Flood {
    /// How long it takes, where the host keeps up.
    pub fn duration(&self) -> Duration {
        self.pause * (self.packets / self.burst)
    }

    /// Sends from `namespace` what `packet` makes of the numbers from 0 on. Returns how many could
    /// be sent; ends early when dropped.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the system has no raw socket or no thread for it.
    pub fn start(
        self,
        namespace: &Namespace,
        packet: impl Fn(u32) -> Vec<u8> + Send + 'static,
    ) -> Result<Worker<u32>> {
        let (family, kind) = (AddressFamily::Inet, SockType::Raw);
        let open = || socket(family, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw);
        let socket = namespace
            .enter(open)?
            .map_err(|error| Error::runtime("open a raw socket", error))?;
        let destination = SockaddrIn::from(SocketAddrV4::new(self.destination, 0));
        Worker::start("flood", move |stop| {
            let start = Instant::now();
            let mut sent = 0;
            for burst in 0..self.packets / self.burst {
                if stop.is_set() {
                    break;
                }
                for number in burst * self.burst..(burst + 1) * self.burst {
                    let packet = packet(number);
                    let result =
                        sendto(socket.as_raw_fd(), &packet, &destination, MsgFlags::empty());
                    sent += u32::from(result.is_ok());
                }
                stop.sleep_until(start + self.pause * (burst + 1));
            }
            sent
        })
    }
}

/// A permutation of the numbers that leaves no two near each other: flows made of its bits do not
/// come twice.
pub fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1)
}
