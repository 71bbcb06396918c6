//! TCP requests and responses of chosen sizes and think times.
//!
//! A request says what it wants: its first twelve bytes are its whole length, the length of the
//! response in bytes and the time the server thinks in us, each 32 bits big endian. Both sides send
//! one message at a time, so every exchange is one round trip and the think time, when the messages
//! fit in the congestion window.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{listen_tcp, wait_readable};
use crate::worker::STOP_LATENCY;
use crate::{Error, Namespace, Result, Stop, Worker};

const HEADER_BYTES: usize = 12;
const CHUNK: [u8; 16_384] = [0x5a; 16_384];
/// Connections one server serves at a time; more wait to be accepted.
const MAXIMUM_CONNECTIONS: usize = 1_024;

/// A server that answers requests as they ask for; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    /// Ends the thread on drop.
    _worker: Worker<()>,
}

impl Server {
    /// Listens at `address` in `namespace`.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the address is taken or missing.
    pub fn start(namespace: &Namespace, address: SocketAddr) -> Result<Self> {
        Self::with(namespace, address, serve)
    }

    /// The same with a protocol of its own: each connection gets a thread of `serve`.
    pub(super) fn with(
        namespace: &Namespace,
        address: SocketAddr,
        serve: impl Fn(TcpStream, &Stop) -> io::Result<()> + Send + Clone + 'static,
    ) -> Result<Self> {
        let listener = listen_tcp(namespace, address)?;
        Ok(Self {
            _worker: Worker::start("tcp server", move |stop| {
                serve_connections(&listener, stop, serve);
            })?,
        })
    }
}

/// Gives each connection a thread of `serve` until told to stop.
fn serve_connections(
    listener: &TcpListener,
    stop: &Stop,
    serve: impl Fn(TcpStream, &Stop) -> io::Result<()> + Send + Clone + 'static,
) {
    let mut connections: Vec<Worker<()>> = Vec::new();
    while !stop.is_set() {
        wait_readable(listener, STOP_LATENCY);
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MAXIMUM_CONNECTIONS {
            stop.sleep_until(Instant::now() + STOP_LATENCY);
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        // A connection that fails ends for its client too, which reports it.
        let serve = serve.clone();
        let worker = Worker::start("tcp connection", move |stop| {
            let _ = prepare(&stream).and_then(|()| serve(stream, stop));
        });
        connections.extend(worker);
    }
}

/// Timeouts, so that a waiting thread sees its stop, and no delay of small messages.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STOP_LATENCY))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))
}

fn serve(mut stream: TcpStream, stop: &Stop) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    while read_whole(&mut stream, &mut header, stop)? {
        let [length, response, think_us] = words(header);
        let mut rest = (length as usize).saturating_sub(HEADER_BYTES);
        let mut buffer = CHUNK;
        while rest > 0 {
            let part = rest.min(buffer.len());
            if !read_whole(&mut stream, &mut buffer[..part], stop)? {
                return Ok(());
            }
            rest -= part;
        }
        stop.sleep_until(Instant::now() + Duration::from_micros(think_us.into()));
        write_bytes(&mut stream, response as usize)?;
    }
    Ok(())
}

/// Fills `buffer`; false when the peer closed before its first byte, or when told to stop.
pub(super) fn read_whole(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    stop: &Stop,
) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => filled += length,
            Err(error) if is_timeout(&error) && !stop.is_set() => {}
            Err(error) if is_timeout(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn words(header: [u8; HEADER_BYTES]) -> [u32; 3] {
    let (words, _) = header.as_chunks();
    [0, 1, 2].map(|number| u32::from_be_bytes(words[number]))
}

fn write_bytes(stream: &mut TcpStream, mut length: usize) -> io::Result<()> {
    while length > 0 {
        let part = length.min(CHUNK.len());
        stream.write_all(&CHUNK[..part])?;
        length -= part;
    }
    Ok(())
}

/// Requests over one connection, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Where the [`Server`] listens.
    pub server: SocketAddr,
    /// How many requests.
    pub requests: u32,
    /// Bytes of a request, at least twelve.
    pub request_bytes: u32,
    /// Bytes of a response; one at least, or nothing would tell of its arrival.
    pub response_bytes: u32,
    /// How long the server waits before it responds, at most 4000 s.
    pub think: Duration,
    /// Pause between a response and the next request.
    pub pause: Duration,
    /// How long connecting or a response may take.
    pub patience: Duration,
}

/// One request and its response, timed by the client.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// From before the request was written to the first bytes of the response.
    pub first_byte: Duration,
    /// From before the request was written to the last byte of the response.
    pub complete: Duration,
}

impl Client {
    /// A hundred small requests in a row, without thinking and pauses.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            requests: 100,
            request_bytes: 100,
            response_bytes: 1_000,
            think: Duration::ZERO,
            pause: Duration::ZERO,
            patience: Duration::from_secs(10),
        }
    }

    /// Connects from `namespace`, makes all requests and closes.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the connection cannot be made, breaks or is silent for longer than
    /// the patience.
    pub fn run(&self, namespace: &Namespace) -> Result<Vec<Exchange>> {
        let mut stream = connect(namespace, self.server, self.patience)?;
        let failed = |source| Error::runtime(format!("exchange with TCP {}", self.server), source);
        let mut exchanges = Vec::new();
        for _ in 0..self.requests {
            exchanges.push(self.exchange(&mut stream).map_err(failed)?);
            std::thread::sleep(self.pause);
        }
        Ok(exchanges)
    }

    fn exchange(&self, stream: &mut TcpStream) -> io::Result<Exchange> {
        let start = Instant::now();
        let think_us = u32::try_from(self.think.as_micros()).unwrap_or(u32::MAX);
        let request_bytes = (self.request_bytes as usize).max(HEADER_BYTES);
        let first = CHUNK.len().min(request_bytes);
        let mut message = CHUNK;
        let header = [request_bytes as u32, self.response_bytes.max(1), think_us];
        for (place, word) in message.chunks_mut(4).zip(header) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        stream.write_all(&message[..first])?;
        write_bytes(stream, request_bytes - first)?;
        let mut rest = self.response_bytes.max(1) as usize;
        let mut first_byte = None;
        while rest > 0 {
            let part = rest.min(message.len());
            match stream.read(&mut message[..part])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => rest -= length,
            }
            first_byte.get_or_insert_with(|| start.elapsed());
        }
        let complete = start.elapsed();
        Ok(Exchange {
            first_byte: first_byte.unwrap_or(complete),
            complete,
        })
    }
}

/// A connection from `namespace` whose reads and writes fail after `patience`.
pub(super) fn connect(
    namespace: &Namespace,
    server: SocketAddr,
    patience: Duration,
) -> Result<TcpStream> {
    let open = || {
        let stream = TcpStream::connect_timeout(&server, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(stream)
    };
    namespace.enter(open)?.map_err(|source: io::Error| {
        Error::runtime(
            format!("connect TCP {server} from namespace `{}`", namespace.name()),
            source,
        )
    })
}
