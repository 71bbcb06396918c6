//! Short connections: one request, one answer, closed by the server, as HTTP benchmarks without
//! keep-alive make them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use fathom_lab::{Namespace, Stop, Worker};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, connect, socket,
};

use super::overhead::Load;

/// Where the server listens, below the ports that clients get.
pub(super) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8_080);
/// Long enough for some seconds of connections before a port is used again.
pub(super) const CLIENT_PORTS: &str = "10000 65535";
/// Connections that the client has open at a time; fewer than the server's queue takes, so that
/// none is refused.
const CONCURRENCY: usize = 64;
const REQUEST: [u8; 96] = [b'?'; 96];
const ANSWER: [u8; 1_024] = [b'!'; 1_024];
/// How often a thread without work looks whether it should end.
const PATIENCE_MS: u16 = 20;
/// In place of a slot: the socket that listens.
const LISTENER: u64 = u64::MAX;

/// How client and server share the processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    /// They take turns in one thread, so that the processor time of a connection does not depend on
    /// when the scheduler lets them meet.
    One,
    /// Each has its own, for as many connections a second as can be.
    Two,
}

/// A client and a server, as fast as they can.
pub(super) struct ShortConnections {
    /// That of the client first; it ends when its last connection is closed.
    threads: Vec<Worker<io::Result<()>>>,
    completed: Arc<AtomicU64>,
}

impl ShortConnections {
    /// Starts both over the loopback of `namespace`.
    pub(super) fn start(namespace: &Namespace, threads: Threads) -> anyhow::Result<Self> {
        namespace.set("net/ipv4/ip_local_port_range", CLIENT_PORTS)?;
        let completed = Arc::new(AtomicU64::new(0));
        let mut client = Client::new(Arc::clone(&completed))?;
        let listener = namespace
            .enter(|| TcpListener::bind(SERVER))?
            .with_context(|| format!("listen at {SERVER}"))?;
        let mut server = Server::new(listener)?;
        let inside = namespace.clone();
        // The thread that opens sockets must itself be in the namespace.
        let enter = move |run: &mut (dyn FnMut() -> io::Result<()> + Send)| {
            inside.enter(run).map_err(io::Error::other)?
        };
        let threads = match threads {
            Threads::One => vec![Worker::start("connections", move |stop| {
                enter(&mut || {
                    while client.step(stop, 0)? {
                        server.step(0)?;
                    }
                    Ok(())
                })
            })?],
            Threads::Two => vec![
                Worker::start("client", move |stop| {
                    enter(&mut || {
                        while client.step(stop, PATIENCE_MS)? {}
                        Ok(())
                    })
                })?,
                Worker::start("server", move |stop| {
                    while !stop.is_set() {
                        server.step(PATIENCE_MS)?;
                    }
                    Ok(())
                })?,
            ],
        };
        Ok(Self { threads, completed })
    }

    /// Opens no more, waits for the last to close, and says how many there were.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        for thread in self.threads {
            thread.finish().context("the traffic broke off")?;
        }
        Ok(self.completed.load(Ordering::Relaxed))
    }
}

impl Load for ShortConnections {
    fn done(&self) -> anyhow::Result<u64> {
        Ok(self.completed.load(Ordering::Relaxed))
    }

    fn check(&self) -> anyhow::Result<()> {
        let is_running = !self.threads.iter().any(Worker::is_finished);
        ensure!(is_running, "the traffic broke off");
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        vec![std::process::id()]
    }
}

fn epoll() -> io::Result<Epoll> {
    Ok(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?)
}

/// Accepts, reads, answers and closes.
struct Server {
    epoll: Epoll,
    listener: TcpListener,
    /// By their descriptors, which are small numbers.
    open: Vec<Option<TcpStream>>,
}

impl Server {
    fn new(listener: TcpListener) -> io::Result<Self> {
        let epoll = epoll()?;
        listener.set_nonblocking(true)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        Ok(Self {
            epoll,
            listener,
            open: Vec::new(),
        })
    }

    /// Does what there is to do, after at most `patience_ms` without.
    fn step(&mut self, patience_ms: u16) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 2 * CONCURRENCY];
        let count = self.epoll.wait(&mut events, patience_ms)?;
        for event in &events[..count] {
            if event.data() == LISTENER {
                self.accept_all()?;
            } else if let Some(mut stream) = self.open[event.data() as usize].take() {
                let mut request = [0; REQUEST.len()];
                stream.read_exact(&mut request)?;
                stream.write_all(&ANSWER)?;
            }
        }
        Ok(())
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            // As nearly all servers do, this asks for the peer's address.
            let (stream, _) = match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                accepted => accepted?,
            };
            let slot = stream.as_raw_fd().cast_unsigned() as usize;
            self.epoll
                .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, slot as u64))?;
            if self.open.len() <= slot {
                self.open.resize_with(slot + 1, || None);
            }
            self.open[slot] = Some(stream);
        }
    }
}

/// A connection of the client, and whether it has sent its request.
struct Asking {
    stream: TcpStream,
    has_asked: bool,
}

/// Keeps its slots full of connections.
struct Client {
    epoll: Epoll,
    completed: Arc<AtomicU64>,
    open: Vec<Option<Asking>>,
}

impl Client {
    fn new(completed: Arc<AtomicU64>) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll()?,
            completed,
            open: (0..CONCURRENCY).map(|_| None).collect(),
        })
    }

    /// Does what there is to do, after at most `patience_ms` without; whether there will be more.
    fn step(&mut self, stop: &Stop, patience_ms: u16) -> io::Result<bool> {
        if !stop.is_set() {
            for slot in 0..CONCURRENCY {
                if self.open[slot].is_none() {
                    self.connect(slot)?;
                }
            }
        }
        let mut events = [EpollEvent::empty(); CONCURRENCY];
        let count = self.epoll.wait(&mut events, patience_ms)?;
        for event in &events[..count] {
            let slot = event.data() as usize;
            if self.go_on(slot)? {
                self.open[slot] = None;
                self.completed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(!stop.is_set() || self.open.iter().any(Option::is_some))
    }

    fn connect(&mut self, slot: usize) -> io::Result<()> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::Tcp,
        )?;
        match connect(socket.as_raw_fd(), &SockaddrIn::from(SERVER)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        self.epoll
            .add(&socket, EpollEvent::new(flags, slot as u64))?;
        self.open[slot] = Some(Asking {
            stream: TcpStream::from(socket),
            has_asked: false,
        });
        Ok(())
    }

    /// Whether the connection is through.
    fn go_on(&mut self, slot: usize) -> io::Result<bool> {
        let Some(asking) = &mut self.open[slot] else {
            return Ok(false);
        };
        if !asking.has_asked {
            asking.stream.write_all(&REQUEST)?;
            asking.has_asked = true;
            return Ok(false);
        }
        let mut answer = [0; 2 * ANSWER.len()];
        loop {
            match asking.stream.read(&mut answer) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}
