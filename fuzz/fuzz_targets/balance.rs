//! One Ethernet frame through what the balancer reads of it, and what it puts in front: another
//! parser must find both well-formed.
//!
//! The first byte picks the server: how packets get there, and by which family.
#![no_main]

use std::net::IpAddr;

use etherparse::{LaxSlicedPacket, SlicedPacket};
use fathom_balance::native::{BALANCE_BY_GUE, BALANCE_BY_IPIP, BALANCE_BY_LAYER2, balance_server};
use libfuzzer_sys::fuzz_target;

/// The longest headers in front of a packet: IPv6, UDP and GUE.
const OUTER: usize = 52;

#[expect(unsafe_code, reason = "the C of fathom-balance")]
unsafe extern "C" {
    fn fathom_balance_wrap(
        frame: *const u8,
        length: u32,
        server: *const balance_server,
        outer: *mut u8,
        network: *mut u32,
    ) -> i32;
}

/// What goes in front of the packet in this frame, and where that begins; the frame lies in memory
/// that is exactly as long.
fn wrap(frame: &[u8], server: &balance_server) -> Option<(Vec<u8>, usize)> {
    let frame = Box::<[u8]>::from(frame);
    let mut outer = Box::new([0; OUTER]);
    let mut network = 0;
    #[expect(unsafe_code, reason = "the C of fathom-balance")]
    // SAFETY: it reads only within the length, writes no more than the longest headers, and keeps
    // nothing.
    let bytes = unsafe {
        fathom_balance_wrap(
            frame.as_ptr(),
            frame.len() as u32,
            server,
            outer.as_mut_ptr(),
            &raw mut network,
        )
    };
    let bytes = usize::try_from(bytes).ok()?;
    Some((outer[..bytes].to_vec(), network as usize))
}

fn server(choice: u8) -> balance_server {
    let [source, destination] = match choice & 1 {
        0 => ["192.0.2.1", "192.0.2.2"].map(address),
        _ => ["2001:db8::1", "2001:db8::2"].map(address),
    };
    let encapsulation = match choice >> 1 & 3 {
        0 => BALANCE_BY_LAYER2,
        1 => BALANCE_BY_GUE,
        _ => BALANCE_BY_IPIP,
    };
    balance_server {
        source: source.into(),
        destination: destination.into(),
        encapsulation: encapsulation as u8,
        mtu: 9_000,
        gue_port: 6080,
        ttl: 64,
        spread_bits: choice >> 3,
        ..balance_server::default()
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("it is an address")
}

fuzz_target!(|input: &[u8]| {
    let [choice, frame @ ..] = input else {
        return;
    };
    let Some((outer, network)) = wrap(frame, &server(*choice)) else {
        return;
    };
    let inner = SlicedPacket::from_ethernet(frame);
    assert!(inner.is_ok(), "malformed, and sent: {inner:?}");
    if outer.is_empty() {
        return;
    }
    let whole = [outer.as_slice(), &frame[network..]].concat();
    let parsed = LaxSlicedPacket::from_ip(&whole).expect("there is a header");
    assert!(parsed.net.is_some() && parsed.stop_err.is_none(), "{parsed:?}");
});
