//! A table of flows that is full, and floods of flows that send one packet.

use etherparse::PacketBuilder;
use fathom_measure::Scope;
use fathom_measure::rtt::{Method, Settings};

use crate::compile;
use crate::frame::Frame;
use crate::kernel::Kernel;

const FLOWS: u32 = 4096;
const PROGRAM: &str = "ethernet_ingress";

/// Data of a client of this number, after so many segments like it.
fn data(client: u32, before: u32) -> Frame {
    let [_, b, c, d] = client.to_be_bytes();
    let segment = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, b, c, d], [192, 0, 2, 1], 64)
        .tcp(40_000, 443, 1000 + 100 * before, 65_535)
        .ack(1);
    let mut data = Vec::new();
    segment.write(&mut data, &[0; 100]).unwrap();
    let length = data.len() as u32;
    Frame { length, data }
}

/// Has each of the flows send a segment, which is its first after so many.
fn round(flows: std::ops::Range<u32>, before: u32) -> impl Iterator<Item = (u64, Frame)> {
    flows.map(move |client| (u64::from(before) * 1_000_000, data(client, before)))
}

/// Flows that the programs opened.
fn opened(kernel: &mut Kernel, frames: &[(u64, Frame)]) -> u64 {
    kernel.run(frames).counts["flows opened"]
}

#[test]
fn a_table_has_room_for_as_many_flows_as_it_was_asked_for() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let settings = Settings {
        scope: Scope {
            flows: FLOWS,
            ..Scope::live()
        },
        ..Settings::live()
    };
    let mut kernel = Kernel::load(&[PROGRAM], &settings, &Method::ALL);
    // Whose flow has gone opens it again: in each round those that found both buckets full.
    let rounds = 4;
    let frames: Vec<_> = (0..=rounds)
        .flat_map(|before| round(0..FLOWS, before))
        .collect();
    let again = opened(&mut kernel, &frames) - u64::from(FLOWS);
    let most = u64::from(rounds * FLOWS / 100);
    assert!(again <= most, "{again} were opened again");
}

#[test]
fn a_flood_of_single_packets_drives_out_no_flow_that_goes_on() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let settings = Settings {
        scope: Scope {
            flows: FLOWS,
            ..Scope::live()
        },
        ..Settings::live()
    };
    let mut kernel = Kernel::load(&[PROGRAM], &settings, &Method::ALL);
    let (own, flood) = (0..FLOWS / 2, FLOWS..FLOWS * 10);
    let before: Vec<_> = (0..2)
        .flat_map(|before| round(own.clone(), before))
        .chain(round(flood.clone(), 2))
        .collect();
    let mut after = before.clone();
    after.extend(round(own.clone(), 3));
    let again = opened(&mut kernel, &after) - opened(&mut kernel, &before);
    assert!(again <= u64::from(FLOWS) / 100, "{again} were opened again");
}
