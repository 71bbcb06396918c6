//! What is told of measured connections.

use etherparse::TcpOptionElement::{Noop, Timestamp};

use crate::frame::Packet;
use crate::kernel::{self, Kernel};
use crate::world::{CLIENT, IPIP4, MEASURED, SERVICE};

const HANDSHAKE_NS: u64 = 30_000_000;
const GAP_NS: u64 = 20_000_000;
/// Shared structs hold time in ticks of 16 ns, and a handshake in 8.192 us.
const TICK_NS: u64 = 16;
const HANDSHAKE_UNIT_NS: u64 = 8192;
/// The epoch is half a second; the first request ends no gap, and the packet that finds the epoch
/// over belongs to the next.
const GAPS: u64 = 24;

/// What comes between the requests of a client, and is no part of its connection: the name that it
/// is counted by, its TTL, whether it has timestamps.
const LEFT_OUT: [(&str, u8, bool); 2] = [
    (
        "segments without timestamps in a connection that has them",
        61,
        false,
    ),
    ("segments with a TTL far below their connection's", 3, true),
];

#[test]
fn an_epoch_tells_what_a_client_waited_and_how_far_it_is() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let between = [None, Some(LEFT_OUT[0]), Some(LEFT_OUT[1])];
    for (family, between) in [0, 1]
        .into_iter()
        .flat_map(|it| between.map(|own| (it, own)))
    {
        let mut kernel = Kernel::load();
        kernel.reset();
        kernel.balancer.set_ring(IPIP4);
        let client = std::net::SocketAddr::new(CLIENT[family].parse().unwrap(), 40_000).to_string();
        let service =
            std::net::SocketAddr::new(SERVICE[family].parse().unwrap(), MEASURED).to_string();
        let segment = |sent: u32, has_timestamps: bool| {
            Packet::tcp(&client, &service).flags(|tcp| {
                tcp.sequence_number = 1001 + 20 * sent;
                tcp.acknowledgment_number = 5001 + 100 * sent;
                if has_timestamps {
                    tcp.set_options(&[Noop, Noop, Timestamp(1, 1)]).unwrap();
                }
            })
        };
        kernel.run(&Packet::syn(&client, &service).frame());
        kernel.wait_ns(HANDSHAKE_NS);
        kernel.run(&Packet::tcp(&client, &service).sized(0).frame());
        for number in 0..GAPS as u32 + 3 {
            kernel.run(&segment(number, between.is_some()).frame());
            kernel.wait_ns(GAP_NS / 2);
            if let Some((name, ttl, has_timestamps)) = between {
                let probe = segment(number + 1, has_timestamps).with(|packet| packet.ttl = ttl);
                let (_, _, counted) = kernel.run(&probe.frame());
                assert_eq!(counted.get(name), Some(&1), "{counted:?}");
            }
            kernel.wait_ns(GAP_NS / 2);
        }
        let told = kernel.epochs();
        let [ended] = told.as_slice() else {
            panic!("{} epochs instead of one", told.len());
        };
        assert_eq!((ended.server, ended.service), (IPIP4, 202));
        let flow = &ended.epoch.flow;
        let tcp = flow.tcp();
        assert_eq!(u64::from(tcp.handshake), HANDSHAKE_NS / HANDSHAKE_UNIT_NS);
        assert_eq!(u64::from(tcp.causal), GAPS);
        assert_eq!(u64::from(flow.retained), GAPS * GAP_NS / TICK_NS);
        let key = &ended.epoch.key;
        let mut ports = [key.low_port, key.high_port];
        ports.sort_unstable();
        assert_eq!(ports, [MEASURED, 40_000]);
    }
}
