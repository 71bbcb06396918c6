//! A server whose application can be told to be slow in several ways. It is a process of its own,
//! so that its processor can be taken away.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::socket::{Backlog, listen, setsockopt, sockopt};

/// Bytes of the head of a request: the length of the rest, and that of the response, 32 bits each.
pub(super) const HEADER_BYTES: usize = 8;
/// What is read at once.
const CHUNK_BYTES: usize = 8_192;
/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 4;
/// Of each connection: less than an upload, and more than is on its way at a time.
const RECEIVE_BUFFER_BYTES: usize = 130_000;

/// How long the application takes for its things, in microseconds; changed by lines of standard
/// input, as in `think 20000`.
#[derive(Debug, Default)]
struct Pace {
    /// For a response.
    think: AtomicU64,
    /// After each connection that it accepts.
    accept: AtomicU64,
    /// After each chunk of an upload that it reads; small requests are read at once.
    read: AtomicU64,
}

impl Pace {
    fn obey(&self, line: &str) -> Option<()> {
        let (name, time) = line.split_once(' ')?;
        let pace = match name {
            "think" => &self.think,
            "accept" => &self.accept,
            "read" => &self.read,
            _ => return None,
        };
        pace.store(time.trim().parse().ok()?, Ordering::Relaxed);
        Some(())
    }
}

fn rest(pace: &AtomicU64) {
    let time = Duration::from_micros(pace.load(Ordering::Relaxed));
    if !time.is_zero() {
        thread::sleep(time);
    }
}

/// Serves at `address` until standard input ends.
pub fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen at {address}"))?;
    setsockopt(&listener, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    let pace = Arc::new(Pace::default());
    let accepting = Arc::clone(&pace);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let pace = Arc::clone(&accepting);
            // A connection that breaks ends for its client, which tells it.
            thread::spawn(move || answer(stream, &pace));
            rest(&accepting.accept);
        }
    });
    for line in io::stdin().lock().lines() {
        let line = line?;
        pace.obey(&line)
            .with_context(|| format!("`{line}` is no command"))?;
    }
    Ok(())
}

fn answer(mut stream: TcpStream, pace: &Pace) -> io::Result<()> {
    // Who accepts asks for the peer's name, as servers do.
    stream.peer_addr()?;
    stream.set_nodelay(true)?;
    let mut header = [0; HEADER_BYTES];
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        stream.read_exact(&mut header)?;
        let (words, _) = header.as_chunks();
        let [mut length, response] = [0, 1].map(|it| u32::from_be_bytes(words[it]) as usize);
        let is_upload = length > CHUNK_BYTES;
        while length > 0 {
            let most = length.min(CHUNK_BYTES);
            match stream.read(&mut chunk[..most])? {
                0 => return Ok(()),
                count => length -= count,
            }
            if is_upload {
                rest(&pace.read);
            }
        }
        rest(&pace.think);
        stream.write_all(&vec![0x5a; response])?;
    }
}
