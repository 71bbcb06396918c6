//! Where connections are made, with a measurement that sees both of their ends.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::time::Duration;

use fathom_lab::{Direction, LinkConfig, Namespace, Rule, Topology, wait_until};
use fathom_tests::{Fathom, Profile};
use nix::libc;

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// One way over either link, and over both.
const LAN: Duration = Duration::from_millis(5);
const WAN: Duration = Duration::from_millis(15);
pub(crate) const ONE_WAY: Duration = Duration::from_millis(20);
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Payload of every full packet.
pub(crate) const SEGMENT: usize = 1000;

/// What selects the connections of a lab.
pub(crate) const NETWORKS: [&str; 2] = ["--net", "10.77.0.0/16,fd77::/16"];

/// A span is not shorter than predicted, but for the clocks, and longer only by what a busy machine
/// takes.
pub(crate) fn about(span: Duration) -> RangeInclusive<Duration> {
    span.saturating_sub(MILLISECOND)..=span + slack()
}

/// How late things may be: emulated machines are told by the environment that they are slow.
pub(crate) fn slack() -> Duration {
    let told = std::env::var("FATHOM_TEST_SLACK_MS").ok();
    let milliseconds = told.and_then(|text| text.parse().ok()).unwrap_or(30);
    Duration::from_millis(milliseconds)
}

/// As [`about`], of a span that timers make: the kernel's timer wheel puts an expiry off by up to
/// an eighth of the delay.
pub(crate) fn timed(span: Duration) -> RangeInclusive<Duration> {
    span.saturating_sub(MILLISECOND)..=span * 9 / 8 + slack()
}

/// The same connections are made over both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The port of a case whose IPv4 connection has `port`, an even one.
    pub(crate) fn port(self, port: u16) -> u16 {
        port + u16::from(self == Self::V6)
    }

    pub(crate) fn server(self) -> IpAddr {
        match self {
            Self::V4 => Topology::SERVER_V4,
            Self::V6 => Topology::SERVER_V6,
        }
    }
}

/// A lab with a measurement of all connections in it.
pub(crate) struct Stage {
    pub(crate) lab: Topology,
    pub(crate) fathom: Fathom,
}

impl Stage {
    /// A lab in which `forward` happens to what clients send and `backward` to what servers send.
    pub(crate) fn build(forward: Vec<Rule>, backward: Vec<Rule>) -> Self {
        Self::over(lab(forward, backward))
    }

    /// The same, of a lab that is there.
    pub(crate) fn over(lab: Topology) -> Self {
        let fathom = Fathom::profile(&lab.router, &NETWORKS).unwrap();
        Self { lab, fathom }
    }

    /// The profiles at `host` of the connection with `port`, once the last is there.
    pub(crate) fn profiles(&self, host: &Namespace, port: u16) -> Vec<Profile> {
        whole_profiles(&self.fathom, host, port)
    }
}

/// The profiles at `host` of the connection with `port`, once `fathom` has printed the last.
pub(crate) fn whole_profiles(fathom: &Fathom, host: &Namespace, port: u16) -> Vec<Profile> {
    let mut profiles = Vec::new();
    let what = format!("the last profile of port {port} at the {}", host.name());
    let waited = wait_until(PATIENCE, &what, || {
        profiles = profiles_of(&fathom.profiles(), host, port);
        profiles.last().is_some_and(Profile::is_last)
    });
    assert!(waited.is_ok(), "{what} is missing: {profiles:#?}");
    profiles
}

/// The profiles at `host` of the connection with `port`.
pub(crate) fn profiles_of(all: &[Profile], host: &Namespace, port: u16) -> Vec<Profile> {
    let own = all
        .iter()
        .filter(|profile| profile.is_of(host) && profile.has_port(port));
    own.cloned().collect()
}

/// A lab whose hosts are as predictable as they can be: no loss probe, which would come before most
/// timeouts, an acknowledgement at once for each segment, and the same segments whatever the
/// family.
pub(crate) fn lab(forward: Vec<Rule>, backward: Vec<Rule>) -> Topology {
    let direction = |rules| Direction {
        rules,
        ..Direction::delayed(WAN)
    };
    let lab = Topology::builder()
        .lan(LinkConfig::symmetric(LAN))
        .wan(LinkConfig {
            forward: direction(forward),
            backward: direction(backward),
            seed: 0,
        })
        .build()
        .unwrap();
    for (host, gateways) in [
        (&lab.client, [Topology::LAN_V4, Topology::LAN_V6]),
        (&lab.server, [Topology::WAN_V4, Topology::WAN_V6]),
    ] {
        host.set_congestion_control("reno").unwrap();
        for (key, value) in [
            ("tcp_early_retrans", "0"),
            ("tcp_autocorking", "0"),
            ("tcp_no_metrics_save", "1"),
        ] {
            host.set(&format!("net/ipv4/{key}"), value).unwrap();
        }
        // With the 12 bytes of the timestamp option.
        let advertised = SEGMENT + 12;
        for gateway in gateways {
            let family = if gateway.is_ipv4() { "-4" } else { "-6" };
            host.run(&format!(
                "ip {family} route change default via {gateway} advmss {advertised} quickack 1"
            ))
            .unwrap();
        }
    }
    lab
}

/// The sockets of both ends.
pub(crate) struct Pair {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

impl Pair {
    pub(crate) fn open(lab: &Topology, server: SocketAddr) -> Self {
        let listener = listen(&lab.server, server);
        let client = lab
            .client
            .enter(|| TcpStream::connect(server))
            .unwrap()
            .unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        Self { client, server }
    }

    /// The client sends so many segments at once, and the server a byte when it has them all.
    pub(crate) fn upload(&mut self, segments: usize) {
        let mut bytes = vec![1; segments * SEGMENT];
        // Segments that come while the application is inside its socket are put together, so it
        // must not wake up before the last.
        wake_at(&self.server, bytes.len());
        self.client.write_all(&bytes).unwrap();
        self.server.read_exact(&mut bytes).unwrap();
        wake_at(&self.server, 1);
        self.server.write_all(&[2]).unwrap();
        self.client.read_exact(&mut bytes[..1]).unwrap();
    }

    /// Both close, the server when it has seen the client's end.
    pub(crate) fn close(mut self) {
        self.client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(self.server.read(&mut [0]).unwrap(), 0);
        drop(self.server);
        assert_eq!(self.client.read(&mut [0]).unwrap(), 0);
    }
}

pub(crate) fn listen(host: &Namespace, address: SocketAddr) -> TcpListener {
    host.enter(|| TcpListener::bind(address)).unwrap().unwrap()
}

/// Has the application wait until it can read so many bytes at once.
fn wake_at(stream: &TcpStream, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap();
    #[expect(unsafe_code, reason = "neither std nor nix has this option")]
    // SAFETY: the kernel reads one integer, which outlives the call.
    let status = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(status, 0);
}
