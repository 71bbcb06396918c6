//! A capture whose figures are known.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use etherparse::{PacketBuilder, TcpHeader, TcpOptionElement};
use fathom_capture::{LinkType, Writer};

const MS: u64 = 1_000_000;
/// 2023-11-14T22:13:20Z, and half a second.
const BEGIN_NS: u64 = 1_700_000_000_500 * MS;
/// From the point of capture to the server and back.
const SERVER_NS: u64 = 20 * MS;
/// The same of the client.
const CLIENT_NS: u64 = 5 * MS;
const REQUESTS: u32 = 400;
const BYTES: usize = 100;

/// Writes the capture of a connection, whose client sends its next request when it has the answer
/// to the last: 400 of 100 bytes, 20 ms from the server at 10.0.1.1:8080 and 5 ms from the client.
pub fn capture_of_requests(path: &Path) -> Result<()> {
    let mut writer = Writer::new(File::create(path)?, LinkType::IPV4, 0)?;
    let mut write =
        |time_ns: u64, is_request: bool, echoed_ns: u64, length: usize, count: u32| -> Result<()> {
            let (client, server) = (([10, 0, 0, 1], 40_000), ([10, 0, 1, 1], 8080));
            let (from, to) = if is_request {
                (client, server)
            } else {
                (server, client)
            };
            let mut header = TcpHeader::new(from.1, to.1, count * BYTES as u32 + 1, 65_000);
            header.ack = true;
            header.psh = length > 0;
            // The answer to a request acknowledges it.
            let answered = count + u32::from(!is_request);
            header.acknowledgment_number = answered * BYTES as u32 + 1;
            let ticks = |ns: u64| (ns / MS) as u32;
            header.set_options(&[TcpOptionElement::Timestamp(
                ticks(time_ns),
                ticks(echoed_ns),
            )])?;
            let mut bytes = Vec::new();
            let packet = PacketBuilder::ipv4(from.0, to.0, 64).tcp_header(header);
            packet.write(&mut bytes, &vec![7; length])?;
            writer.write(time_ns, bytes.len() as u32, &bytes)?;
            Ok(())
        };
    let mut time_ns = BEGIN_NS;
    for count in 0..REQUESTS {
        write(time_ns, true, time_ns - CLIENT_NS, BYTES, count)?;
        write(time_ns + SERVER_NS, false, time_ns, BYTES, count)?;
        time_ns += SERVER_NS + CLIENT_NS;
    }
    writer.finish()?;
    Ok(())
}
