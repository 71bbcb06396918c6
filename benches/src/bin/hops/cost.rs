//! What a packet that is not cloned costs, over an empty program.

use fathom_benches::native::{hops_config, selection};
use fathom_benches::programs::Step;
use fathom_benches::statistics::median;
use fathom_lab::summary::Row;

use crate::packets::{Packet, SELECTED};
use crate::programs::load;

const MOST_NS: f64 = 60.0;
/// Of each program in each round.
const PACKETS: u32 = 10_000;
const ROUNDS: u32 = 100;
/// As `fathom hops` has by default.
const TIMEOUT_NS: u64 = 2_000_000_000;
const NAMES: [&str; 4] = ["empty", "clock", "leaving", "arriving"];

/// Measures all packets; the row is of the dearest.
pub(crate) fn measure() -> anyhow::Result<Row> {
    println!(
        "{PACKETS} packets a program and round, {ROUNDS} rounds, medians; ns a packet over an empty program"
    );
    let (mut costs, mut clocks) = (Vec::new(), Vec::new());
    for packet in Packet::all() {
        let (cost_ns, clock_ns) = cost(&packet)?;
        println!("{:44} {cost_ns:>6.1}", packet.name);
        costs.push((packet.name, cost_ns));
        clocks.push(clock_ns);
    }
    let clock_ns = median(clocks);
    println!("bpf_ktime_get_ns: {clock_ns:.1} ns");
    let dearest = costs.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let (name, most_ns) = dearest.map_or(("", f64::NAN), |(name, cost_ns)| (name, *cost_ns));
    Ok(Row {
        what: "`hops`, a packet that is not cloned, over an empty program".to_owned(),
        target: format!("at most {MOST_NS} ns"),
        measured: format!(
            "{most_ns:.0} ns at most ({name}); {:.0} ns, the median of {} kinds of packets; reading the clock {clock_ns:.0} ns",
            median(costs.iter().map(|(_, cost_ns)| *cost_ns)),
            costs.len()
        ),
        is_reached: Some(most_ns <= MOST_NS),
    })
}

/// What it costs, and what reading the clock does meanwhile.
fn cost(packet: &Packet) -> anyhow::Result<(f64, f64)> {
    // Without TTLs to probe no turn ever comes; the path of the packet is that of one whose turn
    // has not come.
    let config = hops_config {
        timeout: TIMEOUT_NS,
        has_owners: packet.selects_processes.into(),
        ..hops_config::default()
    };
    let mut selection = selection::default();
    selection.ports[0] = SELECTED;
    selection.port_count = 1;
    let programs = load(&NAMES, &config, &selection)?;
    programs.set_steps([Step::default(); 2])?;
    if let Some(frame) = &packet.before {
        programs.run("leaving", frame, 1)?;
    }
    programs.set_steps([packet.step, Step::default()])?;
    let run = |name: &str, frame: &[u8]| anyhow::Ok(programs.run(name, frame, PACKETS)?.packet_ns);
    let (mut costs, mut clocks) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut frame = packet.frame.clone();
        packet.step.take(&mut frame, round.wrapping_mul(PACKETS));
        let empty_ns = run("empty", &frame)?;
        let packet_ns = run(packet.program, &frame)?;
        costs.push(packet_ns - empty_ns);
        clocks.push(run("clock", &frame)? - empty_ns);
    }
    // The first round warms up.
    let of = |costs: Vec<f64>| median(costs.into_iter().skip(1));
    Ok((of(costs), of(clocks)))
}
