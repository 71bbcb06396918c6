//! The server: it answers each request when its time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::message::{Request, response};
use crate::traffic::tcp::Server;
use crate::traffic::wait_readable;
use crate::worker::STOP_LATENCY;
use crate::{Namespace, Result, Stop};

/// A server that answers after the time that each request asks for.
///
/// # Errors
/// [`crate::Error::Runtime`] when the address is taken or missing.
pub fn start_server(namespace: &Namespace, address: SocketAddr) -> Result<Server> {
    Server::with(namespace, address, serve)
}

/// Requests that are worked on, by when they are done.
#[derive(Default)]
struct Work {
    waiting: BinaryHeap<Reverse<(Instant, u32)>>,
    requests: std::collections::HashMap<u32, Request>,
    /// When the last of those that are worked on one at a time is done.
    last: Option<Instant>,
}

impl Work {
    fn take(&mut self, request: Request, now: Instant) {
        let begin = match self.last {
            Some(last) if request.is_serial => last.max(now),
            _ => now,
        };
        let done = begin + request.service;
        self.last = Some(done);
        self.waiting.push(Reverse((done, request.number)));
        self.requests.insert(request.number, request);
    }

    fn next_done(&mut self, now: Instant) -> Option<Request> {
        let Reverse((done, number)) = *self.waiting.peek()?;
        if done > now {
            return None;
        }
        self.waiting.pop();
        self.requests.remove(&number)
    }
}

fn serve(mut stream: TcpStream, stop: &Stop) -> io::Result<()> {
    super::sharpen_timers();
    let mut work = Work::default();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while !stop.is_set() {
        let now = Instant::now();
        while let Some(request) = work.next_done(now) {
            stream.write_all(&response(&request))?;
        }
        let next = work.waiting.peek().map(|Reverse((done, _))| *done);
        let wait = next.map_or(STOP_LATENCY, |done| {
            done.saturating_duration_since(Instant::now())
                .min(STOP_LATENCY)
        });
        if !wait_readable(&stream, wait) {
            continue;
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => bytes.extend_from_slice(&buffer[..length]),
        }
        let now = Instant::now();
        while let Some(request) = Request::take(&mut bytes) {
            work.take(request, now);
        }
    }
    Ok(())
}
