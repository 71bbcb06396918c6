//! What is told of measured connections.

use crate::frame::Packet;
use crate::kernel::{self, Kernel};
use crate::world::{CLIENT, IPIP4, MEASURED, SERVICE};

const HANDSHAKE_NS: u64 = 30_000_000;
const GAP_NS: u64 = 20_000_000;
/// Shared structs hold time in ticks of 16 ns, and a handshake in 8.192 us.
const TICK_NS: u64 = 16;
const HANDSHAKE_UNIT_NS: u64 = 8192;
/// The epoch is half a second; the first request ends no gap, and the packet that finds the epoch over belongs to the next.
const GAPS: u64 = 24;

#[test]
fn an_epoch_tells_what_a_client_waited_and_how_far_it_is() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    for family in 0..2 {
        let mut kernel = Kernel::load();
        kernel.reset();
        kernel.balancer.set_ring(IPIP4);
        let client = std::net::SocketAddr::new(CLIENT[family].parse().unwrap(), 40_000).to_string();
        let service =
            std::net::SocketAddr::new(SERVICE[family].parse().unwrap(), MEASURED).to_string();
        kernel.run(&Packet::syn(&client, &service).frame());
        kernel.wait_ns(HANDSHAKE_NS);
        kernel.run(&Packet::tcp(&client, &service).sized(0).frame());
        for number in 0..GAPS as u32 + 3 {
            let request = Packet::tcp(&client, &service).flags(|tcp| {
                tcp.sequence_number = 1001 + 20 * number;
                tcp.acknowledgment_number = 5001 + 100 * number;
            });
            kernel.run(&request.frame());
            kernel.wait_ns(GAP_NS);
        }
        let told = kernel.epochs();
        let [ended] = told.as_slice() else {
            panic!("{} epochs instead of one", told.len());
        };
        assert_eq!((ended.server, ended.service), (IPIP4, 202));
        let flow = &ended.epoch.flow;
        assert_eq!(u64::from(flow.handshake), HANDSHAKE_NS / HANDSHAKE_UNIT_NS);
        assert_eq!(u64::from(flow.causal), GAPS);
        assert_eq!(u64::from(flow.retained), GAPS * GAP_NS / TICK_NS);
        let key = &ended.epoch.key;
        let mut ports = [key.low_port, key.high_port];
        ports.sort_unstable();
        assert_eq!(ports, [MEASURED, 40_000]);
    }
}
