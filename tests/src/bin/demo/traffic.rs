//! The traffic of the demonstration: programs and generators that run until told to end.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{Namespace, Process, Topology, Worker};
use fathom_tests::quic;

use crate::rows::{BULK_PORTS, DNS_PORT, QUIC_PORT, REQUEST_PORT};

const SERVERS: [IpAddr; 2] = [Topology::SERVER_V4, Topology::SERVER_V6];
/// How long one QUIC connection lasts: several in the run, so that handshakes are seen.
const CONNECTION: Duration = Duration::from_secs(3);
/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What applications clocked themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Clocked>>);

#[derive(Debug, Default)]
struct Clocked {
    waits: Vec<Duration>,
    connects: Vec<(SocketAddr, Duration)>,
}

impl Seen {
    /// From each request to the last byte of its response.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.lock().waits.clone()
    }

    /// How long connecting took, by the client's address and port.
    pub(crate) fn connects(&self) -> Vec<(SocketAddr, Duration)> {
        self.lock().connects.clone()
    }

    /// No step leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, Clocked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that runs; gone when dropped.
pub(crate) struct Traffic {
    /// Programs that must run to the end, with what they are.
    programs: Vec<(&'static str, Process)>,
    /// Generators, with what they are.
    generators: Vec<(&'static str, Worker<Result<()>>)>,
    _servers: Vec<(tcp::Server, dns::Server)>,
    pub(crate) seen: Seen,
}

impl Traffic {
    /// Starts servers, then clients. To be called from the main thread, since programs end with the
    /// thread that started them.
    pub(crate) fn start(lab: &Topology, seconds: u32) -> Result<Self> {
        let think = dns::Think {
            minimum: Duration::from_millis(1),
            maximum: Duration::from_millis(5),
        };
        let servers = SERVERS.map(|address| -> Result<_> {
            let at = |port| SocketAddr::from((address, port));
            Ok((
                tcp::Server::start(&lab.server, at(REQUEST_PORT))?,
                dns::Server::start(&lab.server, at(DNS_PORT), think)?,
            ))
        });
        let mut traffic = Self {
            programs: Vec::new(),
            generators: Vec::new(),
            _servers: servers.into_iter().collect::<Result<_>>()?,
            seen: Seen::default(),
        };
        for (address, port) in SERVERS.into_iter().zip(BULK_PORTS) {
            let at = move |port| SocketAddr::from((address, port));
            let server = tools::iperf3_server(&lab.server, port)?;
            // Longer than the run, so that its end is never waited for.
            let client = tools::iperf3_client(&lab.client, at(port), seconds + 60, &[])?;
            let mut ping = lab.client.command("ping");
            ping.args(["-n", "-q", "-i", "0.1", &address.to_string()]);
            let ping = Process::start(ping.stdout(Stdio::null()))?;
            traffic.programs.extend([
                ("the iperf3 server", server),
                ("the iperf3 client", client),
                ("ping", ping),
            ]);
            let client = &lab.client;
            let seen = traffic.seen.clone();
            traffic.generate("TCP requests", client, move |client| {
                request(client, at(REQUEST_PORT), &seen)
            })?;
            let seen = traffic.seen.clone();
            traffic.generate("TCP connections", client, move |client| {
                connect(client, at(REQUEST_PORT), &seen)
            })?;
            let quic = quic::Server::start(&lab.server, at(QUIC_PORT))?;
            traffic.generate("QUIC", client, move |client| {
                quic.talk(client, CONNECTION).map(drop)
            })?;
            traffic.generate("DNS queries", client, move |client| {
                ask(client, at(DNS_PORT))
            })?;
        }
        Ok(traffic)
    }

    /// Repeats `work` in `namespace` until told to end.
    fn generate(
        &mut self,
        name: &'static str,
        namespace: &Namespace,
        work: impl Fn(&Namespace) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let namespace = namespace.clone();
        let worker = Worker::start(name, move |stop| {
            while !stop.is_set() {
                work(&namespace)?;
            }
            Ok(())
        })?;
        self.generators.push((name, worker));
        Ok(())
    }

    /// Fails when something has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for (name, process) in &mut self.programs {
            if let Some(status) = process.status()? {
                bail!("{name} has ended with {status}");
            }
        }
        let ended = self
            .generators
            .iter()
            .position(|(_, worker)| worker.is_finished());
        if let Some(ended) = ended {
            let (name, worker) = self.generators.swap_remove(ended);
            worker.join().with_context(|| format!("drive {name}"))?;
        }
        Ok(())
    }

    /// Ends everything and says whether all went well, and what applications clocked.
    pub(crate) fn finish(mut self) -> Result<Seen> {
        self.check()?;
        drop(self.programs);
        for (name, worker) in self.generators {
            worker.finish().with_context(|| format!("drive {name}"))?;
        }
        Ok(self.seen)
    }
}

/// A connection with some requests and pauses.
fn request(client: &Namespace, server: SocketAddr, seen: &Seen) -> Result<()> {
    let requests = tcp::Client {
        requests: 10,
        request_bytes: 500,
        response_bytes: 4_000,
        pause: Duration::from_millis(30),
        ..tcp::Client::new(server)
    };
    let exchanges = requests.run(client)?;
    let waits = exchanges.iter().map(|exchange| exchange.complete);
    seen.lock().waits.extend(waits);
    Ok(())
}

/// A connection that is closed at once, and a pause.
fn connect(client: &Namespace, server: SocketAddr, seen: &Seen) -> Result<()> {
    let connected = client.enter(|| {
        let begin = Instant::now();
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        Ok::<_, std::io::Error>((stream.local_addr()?, begin.elapsed()))
    })?;
    let connected = connected.with_context(|| format!("connect to {server}"))?;
    seen.lock().connects.push(connected);
    std::thread::sleep(CONNECTION / 10);
    Ok(())
}

/// Some queries over UDP, and some over TCP.
fn ask(client: &Namespace, server: SocketAddr) -> Result<()> {
    for is_tcp in [false, true] {
        let queries = dns::Client {
            is_tcp,
            queries: 5,
            pause: Duration::from_millis(50),
            patience: Duration::from_secs(5),
            ..dns::Client::new(server)
        };
        queries.run(client)?;
    }
    Ok(())
}
