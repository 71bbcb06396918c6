//! Rings while nobody polls what fills them.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fathom_measure::kernel::Hooks;
use fathom_measure::{Measurement, rtt};

/// More than a ring has room for.
const EXCHANGES: u16 = 30_000;
/// Of this host alone, and nobody's.
const SERVER: ([u8; 4], u16) = ([127, 53, 53, 53], 53);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks for names, and is answered, so often.
fn exchange() {
    let server = UdpSocket::bind(SocketAddr::from(SERVER)).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(SocketAddr::from(SERVER)).unwrap();
    let mut message = [0; 19];
    message[5] = 1;
    message[12..].copy_from_slice(&[1, b'a', 0, 0, 1, 0, 1]);
    let mut taken = [0; 64];
    for id in 0..EXCHANGES {
        message[..2].copy_from_slice(&id.to_be_bytes());
        message[2..4].copy_from_slice(&[1, 0]);
        client.send(&message).unwrap();
        let (length, asking) = server.recv_from(&mut taken).unwrap();
        taken[2..4].copy_from_slice(&[0x81, 0x80]);
        server.send_to(&taken[..length], asking).unwrap();
        client.recv(&mut taken).unwrap();
    }
}

/// How many samples are there afterwards, and how many found no room.
fn samples(is_emptied: bool) -> (u64, u64) {
    let settings = rtt::Settings {
        sample_interval: Duration::ZERO,
        per_rtt: 0,
        ..rtt::Settings::live()
    };
    let hooks = Hooks::attach(&["lo".to_owned()], false, &[&settings]).unwrap();
    let mut monitor = rtt::RttMonitor::of(&hooks, &settings, None).unwrap();
    let rings = monitor.rings();
    assert_eq!(rings.len(), 1);
    let (stop, stopped) = channel::<()>();
    thread::scope(|scope| {
        if is_emptied {
            scope.spawn(move || {
                while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    rings[0].collect().unwrap();
                }
            });
        }
        exchange();
        drop(stop);
    });
    let mut samples = 0;
    monitor
        .poll(&mut |record| {
            let sample = record.downcast_ref::<rtt::Report>();
            samples += u64::from(matches!(sample, Some(rtt::Report::Sample(..))));
        })
        .unwrap();
    let lost = monitor.counts().unwrap();
    (samples, lost.get("samples lost: ring buffer full"))
}

#[test]
fn a_thread_that_empties_a_ring_keeps_what_nobody_polls() {
    if !crate::is_root() {
        println!("skipped: loading BPF programs needs root");
        return;
    }
    let (kept, lost) = samples(false);
    assert!(lost > 0, "a ring has room for all of {kept}");
    let (kept, lost) = samples(true);
    assert_eq!(lost, 0);
    assert!(kept >= u64::from(EXCHANGES), "{kept}");
}
