//! Two hosts with two links between them, and an MPTCP connection (RFC 8684) over both: the second
//! is announced by the server.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use fathom_lab::traffic::tools;
use fathom_lab::{Link, LinkConfig, LinkEnd, Namespace, wait_until};
use fathom_tests::{Fathom, Profile};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};

use crate::stage::{Family, PATIENCE, profiles_of};

pub(crate) const PORT: u16 = 5400;
/// Round trip of either link.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Client and server with two links between them.
pub(crate) struct Paths {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    _first: Link,
    pub(crate) second: Link,
    pub(crate) fathom: Fathom,
    pub(crate) family: Family,
}

impl Paths {
    /// With a measurement of `options` and a connection with both subflows; `None` where it cannot
    /// be.
    pub(crate) fn open(family: Family, options: &[&str]) -> Option<(Self, TcpStream, TcpStream)> {
        for _ in 0..5 {
            let paths = Self::build(family, options)?;
            let (client, server) = paths.connect();
            if paths.keeps_both() {
                return Some((paths, client, server));
            }
            println!("the kernel has given the second subflow up, once more");
        }
        panic!("the kernel does not keep the second subflow");
    }

    fn build(family: Family, options: &[&str]) -> Option<Self> {
        let (client, server) = (
            Namespace::new("client").unwrap(),
            Namespace::new("server").unwrap(),
        );
        if client.set("net/mptcp/enabled", "1").is_err() {
            println!("skipped: this kernel has no MPTCP");
            return None;
        }
        let config = LinkConfig::symmetric(ROUND_TRIP / 2);
        let mut links = Vec::new();
        for (number, interface) in [(1, "eth0"), (2, "eth1")] {
            let [client_end, server_end] =
                [&client, &server].map(|host| LinkEnd::new(host, interface));
            links.push(Link::start(client_end, server_end, config.clone()).unwrap());
            for (host, own) in [(&client, 1), (&server, 2)] {
                let (address, prefix) = (address(family, number, own), family.prefix());
                host.add_address(interface, &format!("{address}/{prefix}"))
                    .unwrap();
            }
        }
        for host in [&client, &server] {
            host.set("net/mptcp/enabled", "1").unwrap();
            host.set_congestion_control("reno").unwrap();
            host.set("net/ipv4/tcp_early_retrans", "0").unwrap();
            host.set("net/ipv4/tcp_retries2", "1").unwrap();
            host.run("ip mptcp limits set subflows 1 add_addr_accepted 1")
                .unwrap();
        }
        let announced = address(family, 2, 2);
        server
            .run(&format!(
                "ip mptcp endpoint add {announced} dev eth1 signal"
            ))
            .unwrap();
        let fathom = Fathom::profile(&client, options).unwrap();
        let second = links.pop().unwrap();
        Some(Self {
            _first: links.pop().unwrap(),
            second,
            client,
            server,
            fathom,
            family,
        })
    }

    /// A connection with both subflows.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let address = SocketAddr::new(address(self.family, 1, 2), PORT);
        let listener = || {
            let socket = socket(address)?;
            // Subflows are opened to other addresses than the connection.
            let any = match self.family {
                Family::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
                Family::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)),
            };
            bind(socket.as_raw_fd(), &SockaddrStorage::from(any))?;
            listen(&socket, Backlog::new(5)?)?;
            Ok::<_, io::Error>(TcpListener::from(socket))
        };
        let listener = self.server.enter(listener).unwrap().unwrap();
        let connect = || {
            let socket = socket(address)?;
            connect(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
            Ok::<_, io::Error>(TcpStream::from(socket))
        };
        let client = self.client.enter(connect).unwrap().unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        for host in [&self.client, &self.server] {
            let is_there = || established(host, self.family) == 2;
            wait_until(PATIENCE, "the second subflow", is_there).unwrap();
        }
        (client, server)
    }

    /// Whether the client has two subflows also after the server has answered the end of the second
    /// handshake: kernels that were kept from their work in the middle of it, 6.18 for one, reset
    /// the subflow then (RFC 8684, section 3.2: the fourth packet).
    fn keeps_both(&self) -> bool {
        let target = address(self.family, 2, 2);
        tools::ping(&self.client, target, 3, ROUND_TRIP).unwrap();
        established(&self.client, self.family) == 2
    }

    /// The profiles at `host` of the whole connection so far.
    pub(crate) fn told(&self, host: &Namespace) -> Vec<Profile> {
        profiles_of(&self.fathom.mptcp_profiles(), host, PORT)
    }

    /// The profiles at `host` of the subflow over the link of this number.
    pub(crate) fn subflow(&self, host: &Namespace, number: u16) -> Option<Vec<Profile>> {
        let own = if host.name() == "client" { 1 } else { 2 };
        let own = address(self.family, number, own);
        let mut profiles = profiles_of(&self.fathom.profiles(), host, PORT);
        profiles.retain(|profile| profile.local().is_some_and(|end| end.ip() == own));
        Some(profiles).filter(|profiles| !profiles.is_empty())
    }

    /// The profiles at `host` of the subflow once the last is there.
    pub(crate) fn whole_subflow(&self, host: &Namespace, number: u16) -> Vec<Profile> {
        let mut profiles = Vec::new();
        let waited = wait_until(PATIENCE, "the last profile of a subflow", || {
            profiles = self.subflow(host, number).unwrap_or_default();
            profiles.last().is_some_and(Profile::is_last)
        });
        assert!(waited.is_ok(), "{} {number}: {profiles:#?}", host.name());
        profiles
    }

    /// The profiles at `host` of the whole connection once the last is there.
    pub(crate) fn whole(&self, host: &Namespace) -> Vec<Profile> {
        let mut profiles = Vec::new();
        let waited = wait_until(PATIENCE, "the last profile of the connection", || {
            profiles = self.told(host);
            profiles.last().is_some_and(Profile::is_last)
        });
        assert!(waited.is_ok(), "{}: {profiles:#?}", host.name());
        profiles
    }
}

impl Family {
    pub(crate) fn prefix(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }
}

/// How many subflows are established at a host.
fn established(host: &Namespace, family: Family) -> usize {
    let file = match family {
        Family::V4 => "/proc/thread-self/net/tcp",
        Family::V6 => "/proc/thread-self/net/tcp6",
    };
    let sockets = host.enter(|| std::fs::read_to_string(file)).unwrap();
    let port = format!(":{PORT:04X}");
    let is_established = |line: &&str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[3] == "01" && words[1..3].iter().any(|end| end.ends_with(&port))
    };
    sockets.unwrap().lines().filter(is_established).count()
}

/// The address of a host, 1 or 2, on a link, 1 or 2.
pub(crate) fn address(family: Family, link: u16, host: u16) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 77, 30 + link as u8, host as u8]),
        Family::V6 => IpAddr::from([0xfd77, 0x30 + link, 0, 0, 0, 0, 0, host]),
    }
}

/// A socket of MPTCP for the family of `address`.
fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    #[expect(unsafe_code, reason = "neither std nor nix opens such sockets")]
    // SAFETY: integers only, and nobody else has the new descriptor.
    unsafe {
        let descriptor = Errno::result(libc::socket(family, kind, libc::IPPROTO_MPTCP))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// So many bytes there, and one back.
pub(crate) fn upload(client: &mut TcpStream, server: &mut TcpStream, length: usize) {
    let mut bytes = vec![0; length];
    std::thread::scope(|scope| {
        // More than the buffers hold.
        scope.spawn(|| server.read_exact(&mut bytes).unwrap());
        client.write_all(&vec![1; length]).unwrap();
    });
    server.write_all(&[2]).unwrap();
    client.read_exact(&mut [0]).unwrap();
}

pub(crate) fn close(mut client: TcpStream, mut server: TcpStream) {
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}
