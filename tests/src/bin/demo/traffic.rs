//! The traffic of the demonstration: programs and generators that run until told to end.

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{Namespace, Process, Topology, Worker};
use fathom_tests::quic;

use crate::rows::{BULK_PORTS, DNS_PORT, QUIC_PORT, REQUEST_PORT};

const SERVERS: [IpAddr; 2] = [Topology::SERVER_V4, Topology::SERVER_V6];
/// How long one QUIC connection lasts: several in the run, so that handshakes are seen.
const CONNECTION: Duration = Duration::from_secs(3);

/// Everything that runs; gone when dropped.
pub(crate) struct Traffic {
    /// Programs that must run to the end, with what they are.
    programs: Vec<(&'static str, Process)>,
    /// Generators, with what they are.
    generators: Vec<(&'static str, Worker<Result<()>>)>,
    _servers: Vec<(tcp::Server, dns::Server)>,
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
            traffic.generate("TCP requests", client, move |client| {
                request(client, at(REQUEST_PORT))
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

    /// Ends everything and says whether all went well.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.check()?;
        drop(self.programs);
        for (name, worker) in self.generators {
            worker.finish().with_context(|| format!("drive {name}"))?;
        }
        Ok(())
    }
}

/// A connection with some requests and pauses.
fn request(client: &Namespace, server: SocketAddr) -> Result<()> {
    let requests = tcp::Client {
        requests: 10,
        request_bytes: 500,
        response_bytes: 4_000,
        pause: Duration::from_millis(30),
        ..tcp::Client::new(server)
    };
    requests.run(client)?;
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
