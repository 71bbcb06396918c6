//! Bulk flows: all of them in turn, each written to until its buffers are full, and read empty.
//!
//! One thread does both. With a thread for each side the scheduler decides how often they meet, and
//! the processor time of a byte varies four times as much as it does so; it is larger too, so that
//! this is the stricter base for a share.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use fathom_lab::{Namespace, Stop, Worker};

use super::overhead::Load;

const RECEIVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5_201);
/// As iperf3 writes and reads.
const CHUNK_BYTES: usize = 128 * 1024;
/// The most that is written at a time.
const TURN_BYTES: usize = 4 * CHUNK_BYTES;

/// Some flows in one direction.
pub(super) struct Bulk {
    thread: Worker<io::Result<()>>,
    received_bytes: Arc<AtomicU64>,
}

impl Bulk {
    /// Opens so many flows over the loopback of `namespace`, and sends.
    pub(super) fn start(namespace: &Namespace, flows: usize) -> anyhow::Result<Self> {
        let (sending, receiving) = namespace
            .enter(|| pairs(&TcpListener::bind(RECEIVER)?, flows))?
            .context("open the bulk flows")?;
        let received_bytes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received_bytes);
        let thread = Worker::start("bulk", move |stop| {
            run(&sending, &receiving, &counter, stop)
        })?;
        Ok(Self {
            thread,
            received_bytes,
        })
    }

    /// Ends it.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.thread.finish().context("a bulk flow failed")
    }
}

impl Load for Bulk {
    fn done(&self) -> anyhow::Result<u64> {
        Ok(self.received_bytes.load(Ordering::Relaxed))
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.thread.is_finished(), "the traffic broke off");
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        vec![std::process::id()]
    }
}

/// Connections to `listener` from this thread's namespace: the ends that opened them, and those
/// that accepted them.
pub(super) fn pairs(
    listener: &TcpListener,
    count: usize,
) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let address = listener.local_addr()?;
    (0..count)
        .map(|_| {
            let opened = TcpStream::connect(address)?;
            let (accepted, _) = listener.accept()?;
            Ok((opened, accepted))
        })
        .collect()
}

fn run(
    sending: &[TcpStream],
    receiving: &[TcpStream],
    received_bytes: &AtomicU64,
    stop: &Stop,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for stream in sending.iter().chain(receiving) {
        stream.set_nonblocking(true)?;
    }
    while !stop.is_set() {
        for (mut sender, mut receiver) in sending.iter().zip(receiving) {
            let mut left = TURN_BYTES;
            while left > 0
                && let Some(written) = unless_blocked(sender.write(&buffer))?
            {
                left = left.saturating_sub(written);
            }
            while let Some(length) = unless_blocked(receiver.read(&mut buffer))? {
                received_bytes.fetch_add(length as u64, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// `None` when the kernel takes or has no more.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}
