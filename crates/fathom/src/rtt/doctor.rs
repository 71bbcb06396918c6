//! Are capture files measured? Two packets are, to see it. And interfaces?

#[cfg(feature = "live")]
use fathom_measure::kernel::{examine as examine_interface, interface_names};
#[cfg(feature = "live")]
use fathom_measure::rtt::RttMonitor;
use fathom_measure::rtt::{Engine, Report, Settings};
use fathom_measure::{Error, Replay};

use crate::doctor::Checks;

/// The delay that is in the capture, in microseconds.
const DELAY_US: u32 = 20_000;

pub(super) fn examine(checks: &mut Checks) {
    files(checks);
    live(checks);
}

#[cfg(feature = "live")]
fn live(checks: &mut Checks) {
    use fathom_measure::Scope;

    use crate::doctor::live::{FLOWS, attached, on_loopback};

    let settings = Settings {
        scope: Scope {
            flows: FLOWS,
            ..Scope::live()
        },
        ..Settings::live()
    };
    let started = RttMonitor::start(&on_loopback(settings, false), None);
    attached(checks, "rtt", started);
    interfaces(checks);
}

#[cfg(not(feature = "live"))]
fn live(checks: &mut Checks) {
    checks.no(
        "rtt",
        "interfaces",
        "this fathom was built for capture files only",
        "build it with the feature `live`",
    );
}

#[cfg(feature = "live")]
fn interfaces(checks: &mut Checks) {
    let mut measurable = Vec::new();
    for name in interface_names() {
        match examine_interface(&name) {
            Ok(()) => measurable.push(name),
            Err(error) => {
                checks.refused(
                    "rtt",
                    &format!("interface {name}"),
                    crate::doctor::Verdict::Note,
                    &error,
                );
            }
        }
    }
    checks.ok("rtt", "interfaces here", measurable.join(", "));
}

fn files(checks: &mut Checks) {
    let found = match measured_us() {
        Ok(us) if us == [u64::from(DELAY_US)] => {
            checks.ok(
                "rtt",
                "capture files",
                "an echo and its reply were measured; this needs no privileges",
            );
            return;
        }
        Ok(other) => format!("an echo that took {DELAY_US} us gave {other:?}"),
        Err(error) => format!("{:#}", anyhow::Error::new(error)),
    };
    checks.no(
        "rtt",
        "capture files",
        found,
        "report this as an error of fathom",
    );
}

fn measured_us() -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    let mut engine = Engine::new(&Settings::files(), 1)?;
    let mut replay = Replay::from_reader("self-test", std::io::Cursor::new(capture()))?;
    let mut report = |report| {
        if let Report::Sample(sample, _) = report {
            found.push(sample.rtt_ns.0 / 1000);
        }
    };
    while replay.run(&mut engine, &mut report).is_none() {}
    Ok(found)
}

/// A pcap file of bare IP: an echo request and its reply.
fn capture() -> Vec<u8> {
    const RAW_IP: u32 = 101;
    const MAX_BYTES: u32 = 65_535;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, MAX_BYTES, RAW_IP] {
        file.extend(u32::to_le_bytes(word));
    }
    let (client, server) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let packets = [
        (0, echo(8, client, server)),
        (DELAY_US, echo(0, server, client)),
    ];
    for (time_us, packet) in packets {
        let length = packet.len() as u32;
        for word in [1, time_us, length, length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(packet);
    }
    file
}

/// An IPv4 packet with an ICMP header, identifier 1, sequence 1. The checksums are not looked at.
fn echo(kind: u8, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    const LENGTH: u8 = 28;
    let start = [0x45, 0, 0, LENGTH, 0, 0, 0, 0, 64, 1, 0, 0];
    // The checksum (RFC 1071) is of the type, the identifier 1 and the sequence number 1.
    let [high, low] = (!(u16::from(kind) << 8 | 2)).to_be_bytes();
    let icmp = [kind, 0, high, low, 0, 1, 0, 1];
    [&start[..], &source, &destination, &icmp].concat()
}
