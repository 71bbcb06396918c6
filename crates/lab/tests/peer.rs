//! A scripted peer and the kernel talk TCP as RFC 9293, 7323 and 2018 say.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fathom_lab::{Connection, Error, Opening, ScriptedPeer, Segment, TcpFlags};

/// For what should happen at once or after a timer of the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
/// For what should not happen: the kernel answers before the script goes on.
const AT_ONCE: Duration = Duration::ZERO;
const SCRIPT_PORT: u16 = 4000;
const KERNEL_PORT: u16 = 80;
const FAMILIES: [IpAddr; 2] = [ScriptedPeer::KERNEL_V4, ScriptedPeer::KERNEL_V6];

fn peer() -> ScriptedPeer {
    ScriptedPeer::new().unwrap()
}

/// A socket that listens in the namespace; as a connection is there once the script's handshake is
/// done, it need not block.
fn listen(peer: &ScriptedPeer, address: SocketAddr) -> TcpListener {
    let bind = || TcpListener::bind(address).unwrap();
    let listener = peer.namespace().enter(bind).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// The script connects to a socket of the kernel, which does not block.
fn connect(peer: &ScriptedPeer, kernel: IpAddr, opening: Opening) -> (Connection, TcpStream) {
    let address = SocketAddr::from((kernel, KERNEL_PORT));
    let listener = listen(peer, address);
    let connection = peer
        .connect_to_kernel(SCRIPT_PORT, address, opening, PATIENCE)
        .unwrap();
    let (stream, client) = listener.accept().unwrap();
    assert_eq!(client, connection.local());
    stream.set_nonblocking(true).unwrap();
    (connection, stream)
}

/// What the application can read now.
fn readable(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    assert!(end.is_ok() || end.unwrap_err().kind() == ErrorKind::WouldBlock);
    bytes
}

/// Sends the script's next bytes and waits until the kernel acknowledges all.
fn deliver(connection: &mut Connection, length: usize) -> Segment {
    connection
        .send(&connection.data(connection.sent(), length))
        .unwrap();
    let sent = connection.sequence_at(connection.sent().cast_signed());
    connection
        .expect(PATIENCE, |segment| segment.acknowledgement == sent)
        .unwrap()
}

/// A counter of the namespace, such as `PAWSEstab` of `TcpExt`.
fn counter(peer: &ScriptedPeer, name: &str) -> u64 {
    let table = || std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let table = peer.namespace().enter(table).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    let values = lines.chunks_exact(2).find_map(|pair| {
        let place = pair[0].split_whitespace().position(|word| word == name)?;
        pair[1].split_whitespace().nth(place)?.parse().ok()
    });
    values.unwrap()
}

#[fathom_lab::test]
fn script_opens_and_both_sides_close() {
    let peer = peer();
    for kernel in FAMILIES {
        let (mut connection, mut stream) = connect(&peer, kernel, Opening::default());
        assert!(connection.kernel_initial_sequence().is_some());
        connection.send(&connection.fin()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        drop(stream);
        let fin = connection
            .expect(PATIENCE, |segment| segment.has(TcpFlags::FIN))
            .unwrap();
        assert_eq!(connection.acknowledged_by(&fin), 1);
        assert_eq!(connection.received(), 1);
        connection.send(&connection.ack()).unwrap();
    }
}

#[fathom_lab::test]
fn kernel_opens_with_chosen_and_random_numbers() {
    let peer = peer();
    for (is_v6, initial_sequence) in [
        (false, None),
        (true, None),
        (false, Some(7)),
        (true, Some(7)),
    ] {
        let stream = peer
            .start_connecting(is_v6, SCRIPT_PORT, initial_sequence)
            .unwrap();
        let connection = peer
            .accept_from_kernel(SCRIPT_PORT, Opening::default(), PATIENCE)
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), connection.local());
        assert_eq!(stream.local_addr().unwrap(), connection.remote());
        let learnt = connection.kernel_initial_sequence().unwrap();
        assert_eq!(initial_sequence.unwrap_or(learnt), learnt);
    }
}

#[fathom_lab::test]
fn options_are_negotiated() {
    let peer = peer();
    let address = SocketAddr::from((ScriptedPeer::KERNEL_V4, KERNEL_PORT));
    let _listener = listen(&peer, address);
    let bare = Opening {
        maximum_segment_size: None,
        window_scale: None,
        is_sack_permitted: false,
        clock: None,
        ..Opening::default()
    };
    for (port, opening) in [(1, Opening::default()), (2, bare)] {
        let has_options = opening.clock.is_some();
        let mut connection = peer.open(port, address, opening);
        connection.send(&connection.syn()).unwrap();
        let answer = connection.next(AT_ONCE).unwrap();
        assert!(answer.has(TcpFlags::SYN | TcpFlags::ACK) && answer.has_right_checksum);
        // 1500 bytes without the headers.
        assert_eq!(answer.options.maximum_segment_size, Some(1460));
        assert_eq!(answer.options.window_scale.is_some(), has_options);
        assert_eq!(answer.options.is_sack_permitted, has_options);
        let echo = answer.options.timestamps.map(|timestamps| timestamps.echo);
        assert_eq!(echo, connection.clock());
        assert_eq!(connection.ack().options.timestamps.is_some(), has_options);
    }
}

#[fathom_lab::test]
fn data_crosses_the_wrap_both_ways() {
    let peer = peer();
    for is_v6 in [false, true] {
        let mut stream = peer
            .start_connecting(is_v6, SCRIPT_PORT, Some(u32::MAX - 500))
            .unwrap();
        let opening = Opening {
            initial_sequence: u32::MAX - 700,
            ..Opening::default()
        };
        let mut connection = peer
            .accept_from_kernel(SCRIPT_PORT, opening, PATIENCE)
            .unwrap();
        for _ in 0..3 {
            deliver(&mut connection, 1000);
        }
        assert!(connection.sequence_at(2999) < connection.sequence_at(0));
        assert_eq!(readable(&mut stream), Connection::payload(0, 3000));

        let message = Connection::payload(5, 3000);
        stream.write_all(&message).unwrap();
        let mut received = vec![0; message.len()];
        while connection.received() < 3000 {
            let segment = connection.next(PATIENCE).unwrap();
            assert!(segment.has_right_checksum, "{segment}");
            let offset = connection.offset_of(&segment) as usize;
            received[offset..][..segment.payload.len()].copy_from_slice(&segment.payload);
            connection.send(&connection.ack()).unwrap();
        }
        assert!(connection.kernel_sequence_at(2999) < connection.kernel_sequence_at(0));
        assert_eq!(received, message);
    }
}

#[fathom_lab::test]
fn out_of_order_and_duplicate_data_is_selectively_acknowledged() {
    let peer = peer();
    for kernel in FAMILIES {
        // The gap and both duplicates are on this side and on that side of the wrap.
        let opening = Opening {
            initial_sequence: u32::MAX - 1200,
            ..Opening::default()
        };
        let (mut connection, mut stream) = connect(&peer, kernel, opening);
        let mut exchange = |offset, length| {
            connection.send(&connection.data(offset, length)).unwrap();
            let answer = connection.next(PATIENCE).unwrap();
            (
                connection.acknowledged_by(&answer),
                connection.sacked_by(&answer),
            )
        };
        assert_eq!(exchange(1000, 1000), (0, vec![(1000, 2000)]));
        assert_eq!(exchange(3000, 500), (0, vec![(3000, 3500), (1000, 2000)]));
        assert_eq!(exchange(0, 1000), (2000, vec![(3000, 3500)]));
        assert_eq!(exchange(2000, 1000), (3500, vec![]));
        // RFC 2883: the first block is the duplicate, whole or in part.
        assert_eq!(exchange(500, 1000), (3500, vec![(500, 1500)]));
        assert_eq!(exchange(3000, 1000), (4000, vec![(3000, 3500)]));
        assert_eq!(readable(&mut stream), Connection::payload(0, 4000));
    }
}

#[fathom_lab::test]
fn old_timestamp_is_no_new_data() {
    let peer = peer();
    for kernel in FAMILIES {
        let (mut connection, mut stream) = connect(&peer, kernel, Opening::default());
        deliver(&mut connection, 1000);
        let before = counter(&peer, "PAWSEstab");
        let clock = connection.clock().unwrap();
        connection.set_clock(clock - 1000);
        let old = connection.data(1000, 1000);
        connection.send(&old).unwrap();
        // RFC 7323 §5.3: not acceptable, so it is dropped and answered with an acknowledgement.
        let answer = connection.next(AT_ONCE).unwrap();
        assert!(answer.is_bare_ack(), "{answer}");
        assert_eq!(connection.acknowledged_by(&answer), 1000);
        assert_eq!(counter(&peer, "PAWSEstab"), before + 1);
        assert_eq!(readable(&mut stream), Connection::payload(0, 1000));

        connection.set_clock(clock + 1);
        connection.send(&connection.data(1000, 1000)).unwrap();
        let answer = connection.next(PATIENCE).unwrap();
        assert_eq!(connection.acknowledged_by(&answer), 2000);
        assert_eq!(answer.options.timestamps.unwrap().echo, clock + 1);
    }
}

#[fathom_lab::test]
fn zero_window_of_the_script_holds_the_kernel_back() {
    let peer = peer();
    for kernel in FAMILIES {
        let (mut connection, mut stream) = connect(&peer, kernel, Opening::default());
        let open = connection.ack();
        connection
            .send(&Segment {
                window: 0,
                ..connection.ack()
            })
            .unwrap();
        stream.write_all(b"held back").unwrap();
        assert_eq!(connection.drain().unwrap(), []);
        // The kernel's probe is a byte that was acknowledged, without the byte.
        let probe = connection.next(PATIENCE).unwrap();
        assert!(probe.is_bare_ack(), "{probe}");
        assert_eq!(probe.sequence, connection.kernel_sequence_at(-1));
        connection.send(&open).unwrap();
        let data = connection.next(PATIENCE).unwrap();
        assert_eq!(data.payload, b"held back");
        assert_eq!(connection.received(), 9);
    }
}

#[fathom_lab::test]
fn kernel_closes_and_opens_its_window() {
    let peer = peer();
    let (mut connection, mut stream) = connect(&peer, FAMILIES[0], Opening::default());
    nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::RcvBuf, &4096).unwrap();
    let (mut filled, mut window) = (0, usize::MAX);
    for _ in 0..1000 {
        connection
            .send(&connection.data(filled, window.min(1000)))
            .unwrap();
        // Out of memory, the kernel closes the window and drops a segment that was inside: then
        // this does not move.
        let answer = connection.next(PATIENCE).unwrap();
        filled = connection.acknowledged_by(&answer);
        window = connection.window_of(&answer) as usize;
        if window == 0 {
            break;
        }
    }
    assert_eq!(window, 0);
    // A byte more than the window gets the same acknowledgement once more.
    connection.send(&connection.data(filled, 1)).unwrap();
    let answer = connection.next(PATIENCE).unwrap();
    assert_eq!(connection.acknowledged_by(&answer), filled);

    assert_eq!(readable(&mut stream).len(), filled as usize);
    let update = connection
        .expect(PATIENCE, |segment| segment.window > 0)
        .unwrap();
    assert_eq!(connection.acknowledged_by(&update), filled);
}

#[fathom_lab::test]
fn wrong_checksum_is_unseen() {
    let peer = peer();
    for kernel in FAMILIES {
        let (mut connection, mut stream) = connect(&peer, kernel, Opening::default());
        let right = connection.data(0, 100);
        let wrong = Segment {
            has_right_checksum: false,
            ..right.clone()
        };
        connection.send(&wrong).unwrap();
        assert_eq!(connection.drain().unwrap(), []);
        assert_eq!(readable(&mut stream), []);
        connection.send(&right).unwrap();
        let answer = connection.next(PATIENCE).unwrap();
        assert_eq!(connection.acknowledged_by(&answer), 100);
    }
}

#[fathom_lab::test]
fn lost_bytes_come_again_by_sack() {
    let peer = peer();
    let (mut connection, mut stream) = connect(&peer, FAMILIES[1], Opening::default());
    stream.write_all(&Connection::payload(0, 1380 * 5)).unwrap();
    let first = connection.next(PATIENCE).unwrap();
    let length = first.payload.len() as u32;
    connection
        .expect(PATIENCE, |segment| {
            segment.sequence_end() == first.sequence.wrapping_add(length * 4)
        })
        .unwrap();
    // As if the second had been lost: three acknowledgements of the first with all others, and it
    // comes again.
    for arrived in 3..=4 {
        let blocks = [(length * 2, length * arrived)];
        connection
            .send(&connection.ack_of(length, &blocks))
            .unwrap();
    }
    let again = connection
        .expect(PATIENCE, |segment| segment.sequence == first.sequence_end())
        .unwrap();
    assert_eq!(connection.offset_of(&again), length);
}

#[fathom_lab::test]
fn lost_tail_comes_again_by_a_probe() {
    let peer = peer();
    let (mut connection, mut stream) = connect(&peer, FAMILIES[0], Opening::default());
    stream.write_all(b"x").unwrap();
    let lost = connection.next(AT_ONCE).unwrap();
    let before = counter(&peer, "TCPTimeouts");
    let again = connection
        .expect(PATIENCE, |segment| segment.payload == b"x")
        .unwrap();
    assert_eq!(lost.sequence, again.sequence);
    connection.send(&connection.ack()).unwrap();
    assert!(connection.drain().unwrap().is_empty());
    // RFC 8985 §7: the probe comes before the timeout, which it spares.
    assert_eq!(counter(&peer, "TCPTimeouts"), before);
    assert_eq!(counter(&peer, "TCPLossProbes"), 1);
}

#[fathom_lab::test]
fn both_sides_open_and_close_at_once() {
    let peer = peer();
    for kernel in FAMILIES {
        let stream = peer
            .start_connecting(kernel.is_ipv6(), SCRIPT_PORT, None)
            .unwrap();
        let syn = peer
            .expect(PATIENCE, |segment| segment.has(TcpFlags::SYN))
            .unwrap();
        // As if its SYN was still on its way.
        let mut connection = peer.open(SCRIPT_PORT, syn.source, Opening::default());
        connection.send(&connection.syn()).unwrap();
        let answer = connection.next(AT_ONCE).unwrap();
        assert!(answer.has(TcpFlags::SYN | TcpFlags::ACK), "{answer}");
        assert_eq!(answer.sequence, syn.sequence);
        connection.send(&connection.ack()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), connection.local());

        stream.shutdown(Shutdown::Both).unwrap();
        let fin = connection.fin();
        connection
            .expect(AT_ONCE, |segment| segment.has(TcpFlags::FIN))
            .unwrap();
        connection.send(&fin).unwrap();
        let answer = connection.next(PATIENCE).unwrap();
        assert_eq!(connection.acknowledged_by(&answer), 1);
        connection.send(&connection.ack()).unwrap();
        assert_eq!((connection.sent(), connection.received()), (1, 1));
    }
}

#[fathom_lab::test]
fn resets_and_refusals_reach_both_sides() {
    let peer = peer();
    for kernel in FAMILIES {
        let nobody = SocketAddr::from((kernel, 9));
        let refused = peer.connect_to_kernel(SCRIPT_PORT, nobody, Opening::default(), PATIENCE);
        assert!(matches!(refused, Err(Error::Runtime { .. })), "{refused:?}");

        let (mut connection, mut stream) = connect(&peer, kernel, Opening::default());
        connection.send(&connection.rst()).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        let stream = peer
            .start_connecting(kernel.is_ipv6(), SCRIPT_PORT, None)
            .unwrap();
        let syn = peer
            .expect(PATIENCE, |segment| segment.has(TcpFlags::SYN))
            .unwrap();
        peer.send_unreachable(&syn).unwrap();
        let error = stream.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    }
}

#[fathom_lab::test]
fn connections_do_not_disturb_each_other() {
    let peer = peer();
    let address = SocketAddr::from((FAMILIES[0], KERNEL_PORT));
    let listener = listen(&peer, address);
    let [mut first, mut second] = [1, 2].map(|port| {
        peer.connect_to_kernel(port, address, Opening::default(), PATIENCE)
            .unwrap()
    });
    let (mut stream, _) = listener.accept().unwrap();
    for word in [b"one", b"two"] {
        stream.write_all(word).unwrap();
    }
    assert!(matches!(second.next(AT_ONCE), Err(Error::Deadline { .. })));
    first
        .expect_keeping(PATIENCE, |segment| segment.payload == b"two")
        .unwrap();
    assert_eq!(first.received(), 0);
    let missing = first.expect(AT_ONCE, |segment| segment.payload == b"three");
    let text = missing.unwrap_err().to_string();
    assert!(
        text.contains(&format!("{address} > {}", first.local())),
        "{text}"
    );
    assert_eq!(first.received(), 6);
}
