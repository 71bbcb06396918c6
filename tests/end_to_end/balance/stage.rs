//! A segment with a client, a balancer and four servers, which have the service's address on their
//! loopback and answer the client themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fathom_lab::{Namespace, Switch, Worker};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What clients talk to.
pub(crate) const SERVICE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 9, 1)),
    8080,
);
/// The same by IPv6.
pub(crate) const SERVICE_V6: &str = "[fd77:9::1]:8080";
/// Servers, from 1 on.
pub(crate) const SERVERS: u8 = 4;

/// Connections that are opened before they are asked: fewer than may wait to be accepted.
const AT_ONCE: usize = 64;

/// The hosts of the switch: the client, the balancer, and the servers.
const HOSTS: [&str; 2 + SERVERS as usize] = [
    "client", "balancer", "server1", "server2", "server3", "server4",
];
const BALANCER: usize = 1;

/// The segment.
pub(crate) struct Stage {
    pub(crate) client: Namespace,
    pub(crate) balancer: Namespace,
    pub(crate) servers: Vec<Namespace>,
    switch: Switch,
}

/// The address of a server.
pub(crate) fn address(server: u8) -> String {
    Switch::address(host(server)).to_string()
}

/// The same by IPv6.
pub(crate) fn address_v6(server: u8) -> String {
    Switch::address_v6(host(server)).to_string()
}

fn host(server: u8) -> usize {
    BALANCER + usize::from(server)
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let switch = Switch::new(&HOSTS)?;
        let services = [SERVICE, SERVICE_V6.parse()?].map(|service| service.ip());
        for server in 1..=SERVERS {
            for service in services {
                switch.adopt(host(server), service)?;
            }
        }
        let client = &switch.hosts[0];
        let [service, service_v6] = services.map(|service| service.to_string());
        client.add_route(&service, &Switch::address(BALANCER).to_string())?;
        client.add_route(&service_v6, &Switch::address_v6(BALANCER).to_string())?;
        Ok(Self {
            client: client.clone(),
            balancer: switch.hosts[BALANCER].clone(),
            servers: switch.hosts[host(1)..].to_vec(),
            switch,
        })
    }

    /// Takes the balancer's interface away, and gives it another one of the same name.
    pub(crate) fn replace_interface(&self) -> Result<()> {
        let interface = Switch::INTERFACE;
        self.balancer.run(&format!("ip link del {interface}"))?;
        Ok(self.switch.plug(BALANCER)?)
    }

    /// Opens so many connections to the service, some at a time.
    pub(crate) fn connect(&self, count: usize) -> Result<Vec<Connection>> {
        self.connect_to(SERVICE, count)
    }

    /// The same to another address of it.
    pub(crate) fn connect_to(&self, service: SocketAddr, count: usize) -> Result<Vec<Connection>> {
        let connect = || {
            let mut connections = Vec::new();
            while connections.len() < count {
                let some = AT_ONCE.min(count - connections.len());
                let some = (0..some).map(|_| Connection::silent(service));
                let mut some = some.collect::<Result<Vec<_>>>()?;
                some.iter_mut().try_for_each(Connection::request)?;
                for connection in &mut some {
                    connection.server = connection.answer()?;
                }
                connections.append(&mut some);
            }
            Ok(connections)
        };
        self.client.enter(connect)?
    }
}

/// A server that answers each byte with its number, after a while that can be changed.
pub(crate) struct Server {
    delay_us: Arc<AtomicU64>,
    worker: Worker<Result<()>>,
}

impl Server {
    /// Listens at all addresses of its namespace.
    pub(crate) fn start(namespace: &Namespace, number: u8) -> Result<Self> {
        namespace.enter(|| Self::here(number))?
    }

    /// The same in the namespace of this thread.
    pub(crate) fn here(number: u8) -> Result<Self> {
        let any = SocketAddr::from(([0; 16], SERVICE.port()));
        let listener = TcpListener::bind(any)?;
        listener.set_nonblocking(true)?;
        let delay_us = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&delay_us);
        let worker = Worker::start("server", move |stop| {
            let mut serving = Serving {
                listener,
                number,
                connections: Vec::new(),
                due: Vec::new(),
            };
            while !stop.is_set() {
                serving.once(Duration::from_micros(delay.load(Ordering::Relaxed)))?;
            }
            Ok(())
        })?;
        Ok(Self { delay_us, worker })
    }

    /// From now on answers wait so long.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.delay_us
            .store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Ends it, and with it its connections.
    pub(crate) fn stop(self) -> Result<()> {
        self.worker.finish()
    }
}

struct Serving {
    listener: TcpListener,
    number: u8,
    connections: Vec<Option<TcpStream>>,
    /// Answers on their way, by connection.
    due: Vec<(Instant, usize)>,
}

impl Serving {
    fn once(&mut self, delay: Duration) -> Result<()> {
        let now = Instant::now();
        let (over, due) = self
            .due
            .drain(..)
            .partition::<Vec<_>, _>(|(at, _)| *at <= now);
        self.due = due;
        for (_, connection) in over {
            self.answer(connection);
        }
        let next = self
            .due
            .iter()
            .map(|(at, _)| at.saturating_duration_since(now))
            .min();
        let wait = next
            .unwrap_or(Duration::from_millis(20))
            .min(Duration::from_millis(20));
        for ready in self.wait(wait)? {
            let Some(index) = ready.checked_sub(1) else {
                self.accept()?;
                continue;
            };
            match self.read(index) {
                Some(0) | None => self.connections[index] = None,
                Some(_) if delay.is_zero() => self.answer(index),
                Some(_) => self.due.push((Instant::now() + delay, index)),
            }
        }
        Ok(())
    }

    /// The numbers of those that something has come for: 0 is the listener.
    fn wait(&self, wait: Duration) -> Result<Vec<usize>> {
        let open = self.connections.iter().enumerate();
        let open: Vec<_> = open
            .filter_map(|(index, it)| Some((index + 1, it.as_ref()?)))
            .collect();
        let mut numbers = vec![0];
        let mut places = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        for (number, stream) in open {
            numbers.push(number);
            places.push(PollFd::new(stream.as_fd(), PollFlags::POLLIN));
        }
        let wait = PollTimeout::try_from(wait.as_millis() as u32 + 1).context("wait")?;
        poll(&mut places, wait)?;
        let ready = numbers
            .iter()
            .zip(&places)
            .filter(|(_, place)| place.any().unwrap_or(false));
        Ok(ready.map(|(number, _)| *number).collect())
    }

    fn accept(&mut self) -> Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            self.connections.push(Some(stream));
        }
        Ok(())
    }

    fn read(&mut self, index: usize) -> Option<usize> {
        match self.connections[index].as_mut()?.read(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(1),
            result => result.ok(),
        }
    }

    fn answer(&mut self, index: usize) {
        if let Some(stream) = &mut self.connections[index] {
            // Whoever has gone away is found at the next read.
            let _ = stream.write_all(&[self.number]);
        }
    }
}

/// A connection of the client, and the server that has it.
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) server: u8,
}

impl Connection {
    /// One that has asked nothing yet; to be opened by a thread of the client's namespace.
    pub(crate) fn silent(service: SocketAddr) -> Result<Self> {
        let patience = Duration::from_secs(20);
        let stream =
            TcpStream::connect_timeout(&service, patience).context("connect to the service")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { stream, server: 0 })
    }

    /// Asks once. Returns who answered.
    pub(crate) fn ask(&mut self) -> Result<u8> {
        self.request()?;
        self.answer()
    }

    /// Asks, and does not wait.
    pub(crate) fn request(&mut self) -> Result<()> {
        Ok(self.stream.write_all(b"?")?)
    }

    /// Waits for an answer. Returns who gave it.
    pub(crate) fn answer(&mut self) -> Result<u8> {
        let mut answer = [0];
        self.stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    /// Sends so many bytes, more than a packet takes, and waits until the server has all of them:
    /// it answers each read of 64 bytes at most.
    pub(crate) fn send(&mut self, bytes: usize) -> Result<()> {
        self.stream.write_all(&vec![b'?'; bytes])?;
        let mut answers = vec![0; bytes.div_ceil(64)];
        self.stream
            .read_exact(&mut answers)
            .context("answers to a long request")?;
        Ok(())
    }

    /// Is it unbroken, with the server that it had from the beginning?
    pub(crate) fn is_whole(&mut self) -> bool {
        self.ask().is_ok_and(|server| server == self.server)
    }
}
