//! A router with one arm: what comes in by an interface leaves by it, and passes both hooks. Each
//! packet is measured once; what the router translates is another flow, and measured where it
//! leaves.

use crate::compile;
use crate::kernel::Kernel;
use crate::scenario;

/// `ingress_ifindex` and `ifindex` in `struct __sk_buff`.
const CAME_IN_BY: usize = 36;
const LEAVES_BY: usize = 40;
const LOOPBACK: u32 = 1;

const STORY: &str = "set events on
  0 ms client > server tcp syn seq 99
 20 ms server > client tcp syn seq 499 ack 100
 21 ms client > server tcp ack 500 seq 100
 30 ms client > server tcp seq 100 ack 500 len 10
 50 ms server > client tcp seq 500 ack 110 len 10
 55 ms client > server tcp seq 110 ack 510 len 10
 75 ms server > client tcp seq 510 ack 120 len 10
100 ms client > resolver dns query 7 a.example
110 ms resolver > client dns answer 7 a.example
200 ms client > server echo request 7 1
220 ms server > client echo reply 7 1";

fn context() -> Vec<u8> {
    let mut context = vec![0; 192];
    for at in [CAME_IN_BY, LEAVES_BY] {
        context[at..at + 4].copy_from_slice(&LOOPBACK.to_ne_bytes());
    }
    context
}

#[test]
fn a_packet_that_leaves_as_it_came_is_measured_once() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let scenario = scenario::read(STORY).unwrap();
    let programs = ["ethernet_ingress", "ethernet_egress"];
    let mut kernel = Kernel::load(&programs, &scenario.settings, &scenario.methods);
    let once = kernel.run(&scenario.frames);
    let mut twice = kernel.run_each(&scenario.frames, |run, now_ns, frame| {
        run.run(now_ns, &frame.data)?;
        run.run_by(
            programs[1],
            Some(&mut context()),
            now_ns + 1000,
            &frame.data,
        )
    });
    // Answers that leave have nothing left to answer, and are not known for copies.
    let copies = twice.counts.remove("copies of packets that had been seen");
    assert_eq!(copies, Some(scenario.frames.len() as u64 - 2));
    twice.counts.insert("frames", once.counts["frames"]);
    assert_eq!(twice, once);
    assert_eq!(once.counts["samples"], 7);

    let translated = kernel.run_each(&scenario.frames, |run, now_ns, frame| {
        run.run_by(programs[1], Some(&mut context()), now_ns, &frame.data)
    });
    assert_eq!(translated, once);
}
