//! DNS queries and answers over UDP and TCP, with a server that thinks as long as told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::tcp::{self, connect, read_whole};
use super::{bind_udp, wait_readable};
use crate::random::Sequence;
use crate::worker::STOP_LATENCY;
use crate::{Error, Namespace, Result, Stop, Worker};

/// Answers waiting for their time; queries beyond are not answered.
const MAXIMUM_PENDING: usize = 10_000;
const HEADER_BYTES: usize = 12;
const RECORD_A: u16 = 1;

/// How long a server takes to answer: uniform between two bounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Think {
    /// Shortest time.
    pub minimum: Duration,
    /// Longest time.
    pub maximum: Duration,
}

impl Think {
    /// Always the same time.
    pub fn constant(time: Duration) -> Self {
        Self {
            minimum: time,
            maximum: time,
        }
    }

    fn choose(self, random: &mut Sequence) -> Duration {
        let spread = self.maximum.saturating_sub(self.minimum);
        self.minimum + spread.mul_f64(random.uniform())
    }
}

/// A DNS server that answers every question about any name, over UDP and TCP; it ends when dropped.
///
/// A questions get 192.0.2.1, all others no record.
#[derive(Debug)]
pub struct Server {
    /// Ends the thread on drop.
    _udp: Worker<()>,
    _tcp: tcp::Server,
}

impl Server {
    /// Listens at `address` in `namespace`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the address is taken or missing.
    pub fn start(namespace: &Namespace, address: SocketAddr, think: Think) -> Result<Self> {
        let socket = bind_udp(namespace, address)?;
        let serve = move |stream, stop: &Stop| serve_tcp(stream, think, stop);
        Ok(Self {
            _udp: Worker::start("dns over udp", move |stop| serve_udp(&socket, think, stop))?,
            _tcp: tcp::Server::with(namespace, address, serve)?,
        })
    }
}

fn serve_udp(socket: &UdpSocket, think: Think, stop: &Stop) {
    let mut random = Sequence::new(0);
    let mut pending: BinaryHeap<Reverse<(Instant, SocketAddr, Vec<u8>)>> = BinaryHeap::new();
    let mut buffer = [0; 1_500];
    while !stop.is_set() {
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let due = Instant::now() + think.choose(&mut random);
            if let Some(answer) = answer(&buffer[..length])
                && pending.len() < MAXIMUM_PENDING
            {
                pending.push(Reverse((due, client, answer)));
            }
        }
        let now = Instant::now();
        while let Some(Reverse((due, ..))) = pending.peek() {
            if *due > now {
                break;
            }
            if let Some(Reverse((_, client, answer))) = pending.pop() {
                // A client that is gone cannot be told.
                let _ = socket.send_to(&answer, client);
            }
        }
        let next = pending.peek().map(|Reverse((due, ..))| *due);
        let rest = next.map_or(STOP_LATENCY, |due| due.saturating_duration_since(now));
        wait_readable(socket, rest.min(STOP_LATENCY));
    }
}

fn serve_tcp(mut stream: TcpStream, think: Think, stop: &Stop) -> io::Result<()> {
    let mut random = Sequence::new(0);
    let mut length = [0; 2];
    while read_whole(&mut stream, &mut length, stop)? {
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        if !read_whole(&mut stream, &mut query, stop)? {
            break;
        }
        stop.sleep_until(Instant::now() + think.choose(&mut random));
        let Some(answer) = answer(&query) else { break };
        stream.write_all(&with_length(&answer))?;
    }
    Ok(())
}

/// The response to a query of one question, or `None` when it is not one.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = query.split_first_chunk::<HEADER_BYTES>()?;
    let is_response = header[2] & 0x80 != 0;
    if is_response || header[4..6] != [0, 1] {
        return None;
    }
    let question = &rest[..question_bytes(rest)?];
    let is_address = question.ends_with(&[0, RECORD_A as u8, 0, 1]);
    let mut answer = header.to_vec();
    // Response, recursion desired as asked, recursion available, no error.
    answer[2] = 0x80 | (header[2] & 0x01);
    answer[3] = 0x80;
    answer[7] = u8::from(is_address);
    answer[6] = 0;
    answer[8..].fill(0);
    answer.extend_from_slice(question);
    if is_address {
        // The name by pointer to the question, type A, class IN, 60 s, 4 bytes.
        answer.extend_from_slice(&[0xc0, 12, 0, RECORD_A as u8, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend_from_slice(&Ipv4Addr::new(192, 0, 2, 1).octets());
    }
    Some(answer)
}

/// Length of an uncompressed name, its type and class.
fn question_bytes(bytes: &[u8]) -> Option<usize> {
    let mut position = 0;
    loop {
        let label = usize::from(*bytes.get(position)?);
        position += 1 + label;
        match label {
            0 => break,
            1..=63 => {}
            _ => return None,
        }
    }
    (bytes.len() >= position + 4).then_some(position + 4)
}

/// A query for the A records of `name`.
fn query(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    // Recursion desired, one question.
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        message.push(label.len() as u8);
        message.extend_from_slice(label);
    }
    message.extend_from_slice(&[0, 0, RECORD_A as u8, 0, 1]);
    message
}

fn with_length(message: &[u8]) -> Vec<u8> {
    let length = message.len() as u16;
    [&length.to_be_bytes(), message].concat()
}

/// Queries for numbered names, one after the other, each from a port (or over a connection) of its
/// own.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Over TCP instead of UDP.
    pub is_tcp: bool,
    /// How many queries.
    pub queries: u16,
    /// Pause between an answer and the next query.
    pub pause: Duration,
    /// How long to wait for an answer before asking again with the same identifier.
    pub patience: Duration,
    /// How often to ask in all.
    pub attempts: u32,
}

/// A query and what became of it, timed by the client.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Identifier of the message, the same in all attempts.
    pub id: u16,
    /// The name asked for, `query-N.lab.test`.
    pub name: String,
    /// How often it was sent.
    pub attempts: u32,
    /// From the latest attempt (with TCP: from the query, not from connecting) to the answer;
    /// `None` when none came.
    pub latency: Option<Duration>,
}

impl Client {
    /// Twenty queries over UDP in a row, each tried up to three times for a second.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            is_tcp: false,
            queries: 20,
            pause: Duration::ZERO,
            patience: Duration::from_secs(1),
            attempts: 3,
        }
    }

    /// Makes all queries from `namespace`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when a socket cannot be opened, or a connection breaks.
    pub fn run(&self, namespace: &Namespace) -> Result<Vec<Exchange>> {
        let mut exchanges = Vec::new();
        for number in 0..self.queries {
            let name = format!("query-{number}.lab.test");
            // Unlike a counter, so that a wrong byte order shows.
            let id = crate::random::mix(number.into()) as u16;
            let message = query(id, &name);
            let (attempts, latency) = if self.is_tcp {
                (1, self.ask_over_tcp(namespace, &message)?)
            } else {
                self.ask_over_udp(namespace, &message)?
            };
            exchanges.push(Exchange {
                id,
                name,
                attempts,
                latency,
            });
            std::thread::sleep(self.pause);
        }
        Ok(exchanges)
    }

    fn ask_over_udp(
        &self,
        namespace: &Namespace,
        message: &[u8],
    ) -> Result<(u32, Option<Duration>)> {
        let any: IpAddr = match self.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = bind_udp(namespace, (any, 0).into())?;
        let mut buffer = [0; 1_500];
        for attempt in 1..=self.attempts {
            let start = Instant::now();
            socket
                .send_to(message, self.server)
                .map_err(|source| self.failed(source))?;
            while start.elapsed() < self.patience {
                wait_readable(&socket, self.patience.saturating_sub(start.elapsed()));
                if let Ok(length) = socket.recv(&mut buffer)
                    && is_answer(message, &buffer[..length])
                {
                    return Ok((attempt, Some(start.elapsed())));
                }
            }
        }
        Ok((self.attempts, None))
    }

    fn ask_over_tcp(&self, namespace: &Namespace, message: &[u8]) -> Result<Option<Duration>> {
        let mut stream = connect(namespace, self.server, self.patience)?;
        let start = Instant::now();
        let mut exchange = || {
            stream.write_all(&with_length(message))?;
            let mut length = [0; 2];
            io::Read::read_exact(&mut stream, &mut length)?;
            let mut answer = vec![0; u16::from_be_bytes(length).into()];
            io::Read::read_exact(&mut stream, &mut answer)?;
            Ok(is_answer(message, &answer).then(|| start.elapsed()))
        };
        exchange().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::runtime(format!("ask the DNS server {}", self.server), source)
    }
}

fn is_answer(query: &[u8], message: &[u8]) -> bool {
    message.len() >= HEADER_BYTES && message[..2] == query[..2] && message[2] & 0x80 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answer_repeats_question_and_adds_address() {
        let query = query(0xabcd, "query-1.lab.test");
        let answer = answer(&query).unwrap();
        assert!(is_answer(&query, &answer));
        assert_eq!(answer[HEADER_BYTES..query.len()], query[HEADER_BYTES..]);
        assert_eq!(answer[answer.len() - 4..], [192, 0, 2, 1]);
        assert_eq!(answer[6..8], [0, 1]);
    }

    proptest! {
        #[test]
        fn garbage_is_not_answered_with_a_panic(message in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = answer(&message);
        }
    }
}
