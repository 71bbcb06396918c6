//! Chains, and applications that talk through them.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_lab::{Chain, ChainBuilder, Family, LinkConfig, Namespace, wait_until};
use fathom_record::Time;
use fathom_tests::{Fathom, Probe, ProbeOutcome};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between the messages of an application, unless it is told otherwise.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a read of an application waits before it looks whether to end.
const WAIT: Duration = Duration::from_millis(200);

static TURNS: RwLock<()> = RwLock::new(());

/// The turn of a test that judges times, rates or throughput: its chain has the machine for itself.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a test that judges what is sent, answered and told, however late: others of its kind
/// run beside it.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.read().unwrap_or_else(PoisonError::into_inner)
}

/// A chain of `routers` whose link k delays by `delay(k)` in each direction.
pub(crate) fn chain(routers: usize, delay: impl Fn(u32) -> Duration) -> ChainBuilder {
    (1..=routers + 1).fold(Chain::builder(routers), |builder, link| {
        builder.link(link, LinkConfig::symmetric(delay(link as u32)))
    })
}

/// Waits until `fathom` has told of `count` answered probes that are as wanted.
pub(crate) fn wait_for_answers(fathom: &Fathom, count: usize, is_wanted: impl Fn(&Probe) -> bool) {
    let waited = wait_until(PATIENCE, "answered probes", || {
        let probes = fathom.probes();
        let answered = probes
            .iter()
            .filter(|probe| probe.outcome == ProbeOutcome::Answered);
        answered.filter(|probe| is_wanted(probe)).count() >= count
    });
    assert!(waited.is_ok(), "{:#?}{}", fathom.probes(), fathom.errors());
}

/// Waits until probes have been sent for so long.
pub(crate) fn wait_for_probes(fathom: &Fathom, time: Duration) {
    let end = Time::now().0 + time.as_nanos() as u64;
    let newest = |probes: &[Probe]| probes.iter().map(|probe| probe.time_ns).max();
    wait_until(PATIENCE + time, "probes", || {
        newest(&fathom.probes()) > Some(end)
    })
    .unwrap();
}

fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// An application: threads that end when it is dropped.
pub(crate) struct Application {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Bytes or datagrams that the server received.
    pub(crate) received: Arc<AtomicU64>,
    /// Messages that the client sent.
    pub(crate) sent: Arc<AtomicU64>,
    /// Whether the client sends.
    is_talking: Arc<AtomicBool>,
    /// The port of the client.
    pub(crate) port: u16,
}

impl Application {
    fn new(port: u16) -> Self {
        Self {
            stop: Arc::default(),
            threads: Vec::new(),
            received: Arc::default(),
            sent: Arc::default(),
            is_talking: Arc::new(AtomicBool::new(true)),
            port,
        }
    }

    fn run(&mut self, mut step: impl FnMut() + Send + 'static) {
        let should_end = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            while !should_end.load(Ordering::Relaxed) {
                step();
            }
        }));
    }

    /// Has the client be silent, or speak again.
    pub(crate) fn talk(&self, is_talking: bool) {
        self.is_talking.store(is_talking, Ordering::Relaxed);
    }

    /// Sends every `pause`.
    fn talker(&mut self, pause: Duration, mut send: impl FnMut() -> bool + Send + 'static) {
        let (sent_so_far, is_talking) = (Arc::clone(&self.sent), Arc::clone(&self.is_talking));
        self.run(move || {
            if is_talking.load(Ordering::Relaxed) && send() {
                sent_so_far.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(pause);
        });
    }

    /// A TCP connection whose client sends `message_bytes` every 5 ms, and whose server sends each
    /// message back.
    pub(crate) fn tcp(chain: &Chain, family: Family, message_bytes: usize) -> Self {
        Self::tcp_every(PAUSE, chain, family, message_bytes)
    }

    /// The same, every `pause`: where many talk at once, the machine is to have time for all.
    pub(crate) fn tcp_every(
        pause: Duration,
        chain: &Chain,
        family: Family,
        message_bytes: usize,
    ) -> Self {
        let listener = chain
            .server
            .enter(|| TcpListener::bind((any(family), 0)).unwrap())
            .unwrap();
        let address = (
            chain.server_address(family),
            listener.local_addr().unwrap().port(),
        );
        let stream = connect(&chain.client, address.into());
        let (accepted, _) = listener.accept().unwrap();
        let mut application = Self::new(stream.local_addr().unwrap().port());
        application.echo(accepted);
        application.client(stream, message_bytes, pause);
        application
    }

    fn echo(&mut self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let received = Arc::clone(&self.received);
        self.run(move || {
            if let Ok(length @ 1..) = stream.read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
                // The other end may be gone.
                let _ = stream.write_all(&buffer[..length]);
            }
        });
    }

    fn client(&mut self, stream: TcpStream, message_bytes: usize, pause: Duration) {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let mut writer = stream;
        let message = vec![7; message_bytes];
        let mut buffer = vec![0; 1 << 16];
        self.run(move || drop(reader.read(&mut buffer)));
        self.talker(pause, move || writer.write_all(&message).is_ok());
    }

    /// A UDP flow of a datagram each 5 ms; the server counts them, and sends them back if it
    /// `answers`.
    pub(crate) fn udp(chain: &Chain, family: Family, answers: bool) -> Self {
        let bind = |namespace: &Namespace| {
            let socket = namespace
                .enter(|| UdpSocket::bind((any(family), 0)).unwrap())
                .unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            socket
        };
        let (server, client) = (bind(&chain.server), bind(&chain.client));
        let port = server.local_addr().unwrap().port();
        client
            .connect((chain.server_address(family), port))
            .unwrap();
        let mut application = Self::new(client.local_addr().unwrap().port());
        let received = Arc::clone(&application.received);
        application.run(move || {
            let mut buffer = [0; 2000];
            if let Ok((length, from)) = server.recv_from(&mut buffer) {
                received.fetch_add(1, Ordering::Relaxed);
                if answers {
                    // An ICMP error of an earlier one is no concern here.
                    let _ = server.send_to(&buffer[..length], from);
                }
            }
        });
        application.talker(PAUSE, move || client.send(&[9; 100]).is_ok());
        application
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

pub(crate) fn connect(namespace: &Namespace, address: SocketAddr) -> TcpStream {
    namespace
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap())
        .unwrap()
}
