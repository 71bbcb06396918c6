//! The application: a socket that sends small datagrams at a steady pace.

use std::hint;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;

/// With the headers of IPv4 and UDP a packet of 60 bytes.
const PAYLOAD_BYTES: usize = 32;
/// One of so many packets has a probe, as `departures.bpf.c` has it.
pub(super) const SAMPLED: u32 = 100;

/// Sends so many packets; `before_sampled` is called before each packet that is to have a probe.
/// Returns how many packets a second there were.
pub(super) fn send(
    destination: SocketAddrV4,
    packets_per_second: u32,
    count: u32,
    mut before_sampled: impl FnMut(),
) -> anyhow::Result<f64> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("open the application's socket")?;
    socket.connect(destination).context("find a way")?;
    let mut payload = [0; PAYLOAD_BYTES];
    let start = Instant::now();
    for number in 0..count {
        let due = start + Duration::from_secs(1) * number / packets_per_second;
        while Instant::now() < due {
            hint::spin_loop();
        }
        if number % SAMPLED == 0 {
            before_sampled();
        }
        payload[..4].copy_from_slice(&number.to_ne_bytes());
        socket.send(&payload).context("send a datagram")?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}
