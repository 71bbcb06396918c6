//! One closed loop.

use std::collections::HashMap;
use std::io::{self, IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;

use super::message::{REQUEST_BYTES, RESPONSE_BYTES, Request};
use super::service::Draw;
use super::{Loop, Shape, Turn, Workload};
use crate::tap::received_ns;
use crate::traffic::tcp::connect;
use crate::{Error, Namespace, Result};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client needs to be scheduled, at most. One that reads what came later than that had no
/// processor.
const SCHEDULED_NS: u64 = 1_000_000;

pub(super) fn run(
    namespace: &Namespace,
    server: SocketAddr,
    workload: &Workload,
    number: u32,
) -> Result<Loop> {
    super::sharpen_timers();
    let stream = connect(namespace, server, PATIENCE)?;
    let failed = |source| Error::runtime(format!("loop with {server}"), source);
    setsockopt(&stream, ReceiveTimestampns, &true).map_err(|error| failed(error.into()))?;
    let client = stream.local_addr().map_err(failed)?;
    let mut running = Running {
        stream,
        workload,
        draw: Draw::new(workload.service, workload.seed + u64::from(number)),
        think: workload
            .think
            .map(|think| Draw::new(think, !workload.seed - u64::from(number))),
        start: Instant::now(),
        sent: HashMap::new(),
        next_number: 0,
        bytes: Vec::new(),
        buffer: vec![0; 1 << 17],
        ended_ns: 0,
        turns: Vec::new(),
    };
    running.run().map_err(failed)?;
    Ok(Loop {
        client,
        turns: running.turns,
    })
}

struct Running<'a> {
    stream: TcpStream,
    workload: &'a Workload,
    draw: Draw,
    think: Option<Draw>,
    start: Instant,
    /// When each request that is outstanding was sent.
    sent: HashMap<u32, u64>,
    next_number: u32,
    bytes: Vec<u8>,
    buffer: Vec<u8>,
    /// When the wait for the last of the bytes was over.
    ended_ns: u64,
    turns: Vec<Turn>,
}

impl Running<'_> {
    fn run(&mut self) -> io::Result<()> {
        match self.workload.shape {
            Shape::Window(size) => self.slide(size),
            Shape::Batch(size) => self.turn_by_turn(&[size]),
            Shape::Tree(size) => self.turn_by_turn(&[1, size]),
        }
    }

    fn is_over(&self) -> bool {
        self.start.elapsed() >= self.workload.duration
    }

    fn slide(&mut self, size: u32) -> io::Result<()> {
        for _ in 0..size {
            self.send()?;
        }
        while !self.sent.is_empty() {
            let began_ns = self.receive()?;
            self.end_turn(began_ns);
            if !self.is_over() {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Turns of so many requests each, again and again.
    fn turn_by_turn(&mut self, sizes: &[u32]) -> io::Result<()> {
        while !self.is_over() {
            for &size in sizes {
                let began_ns = now_ns();
                for _ in 0..size {
                    self.send()?;
                }
                for _ in 0..size {
                    self.receive()?;
                }
                self.end_turn(began_ns);
            }
        }
        Ok(())
    }

    fn end_turn(&mut self, began_ns: u64) {
        self.turns.push(Turn {
            began_ns,
            ended_ns: self.ended_ns,
        });
        if let Some(think) = &mut self.think {
            std::thread::sleep(think.next(self.start.elapsed()));
        }
        if let Some((every, pause)) = self.workload.pause
            && self.turns.len().is_multiple_of(every as usize)
        {
            std::thread::sleep(pause);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let request = Request {
            length: self.workload.request_bytes.max(REQUEST_BYTES as u32),
            response: self.workload.response_bytes,
            number: self.next_number,
            is_serial: self.workload.is_serial,
            service: self.draw.next(self.start.elapsed()),
        };
        self.next_number += 1;
        let bytes = request.to_bytes();
        self.sent.insert(request.number, now_ns());
        self.stream.write_all(&bytes)
    }

    /// Waits for the next whole answer; when its request was sent.
    fn receive(&mut self) -> io::Result<u64> {
        loop {
            if let Some(head) = self.bytes.first_chunk::<RESPONSE_BYTES>() {
                let (words, _) = head.as_chunks::<4>();
                let length = u32::from_be_bytes(words[0]) as usize;
                let number = u32::from_be_bytes(words[1]);
                if self.bytes.len() >= length {
                    self.bytes.drain(..length);
                    let sent = self.sent.remove(&number);
                    return sent.ok_or_else(|| io::Error::other("an answer to nothing"));
                }
            }
            let length = self.read()?;
            self.bytes.extend_from_slice(&self.buffer[..length]);
        }
    }

    /// Waits for bytes; how many came.
    fn read(&mut self) -> io::Result<usize> {
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let message = recvmsg::<()>(
            self.stream.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::empty(),
        )?;
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read_ns = now_ns();
        let received_ns = received_ns(&message)?.unwrap_or(read_ns);
        let is_late = received_ns + SCHEDULED_NS <= read_ns;
        let ended_ns = if is_late { received_ns } else { read_ns };
        // What comes while the clock is read comes after what was read.
        self.ended_ns = self.ended_ns.max(ended_ns);
        Ok(message.bytes)
    }
}

fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since_1970.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
