//! MPTCP connections and their subflows (RFC 8684): two links between two hosts, the second announced by the server.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use fathom_lab::{
    Direction, Link, LinkConfig, LinkEnd, Namespace, PacketKind, Rule, Way, obstacle, wait_until,
};
use fathom_tests::{Fathom, Profile};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};

use crate::stage::{Family, PATIENCE, SEGMENT, about, profiles_of, timed};

const PORT: u16 = 5400;
/// Round trip of either link.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// 20 ms smoothed, and a deviation that counts as 200 ms at least.
const TIMEOUT: Duration = Duration::from_millis(220);

/// Client and server with two links between them.
struct Paths {
    client: Namespace,
    server: Namespace,
    _first: Link,
    second: Link,
    fathom: Fathom,
    family: Family,
}

impl Paths {
    /// `None` where it cannot be.
    fn build(family: Family) -> Option<Self> {
        if let Some(why) = obstacle() {
            println!("skipped: {why}");
            return None;
        }
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
        // Not by the network of the lab: the socket of the application has no address yet when it starts to connect.
        let others = ["--not-net", "127.0.0.0/8,::1/128"];
        let fathom = Fathom::profile(&client, &others).unwrap();
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
    fn open(&self) -> (TcpStream, TcpStream) {
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
            let is_there = || self.subflow(host, 2).is_some_and(|found| !found.is_empty());
            wait_until(PATIENCE, "the second subflow", is_there).unwrap();
        }
        (client, server)
    }

    /// The profiles at `host` of the subflow over the link of this number.
    fn subflow(&self, host: &Namespace, number: u16) -> Option<Vec<Profile>> {
        let own = if host.name() == "client" { 1 } else { 2 };
        let own = address(self.family, number, own);
        let mut profiles = profiles_of(&self.fathom.profiles(), host, PORT);
        profiles.retain(|profile| profile.local().is_some_and(|end| end.ip() == own));
        Some(profiles).filter(|profiles| !profiles.is_empty())
    }

    /// The profiles at `host` of the subflow once the last is there.
    fn whole_subflow(&self, host: &Namespace, number: u16) -> Vec<Profile> {
        let mut profiles = Vec::new();
        let waited = wait_until(PATIENCE, "the last profile of a subflow", || {
            profiles = self.subflow(host, number).unwrap_or_default();
            profiles.last().is_some_and(Profile::is_last)
        });
        assert!(waited.is_ok(), "{} {number}: {profiles:#?}", host.name());
        profiles
    }

    /// The profiles at `host` of the whole connection once the last is there.
    fn whole(&self, host: &Namespace) -> Vec<Profile> {
        let mut profiles = Vec::new();
        let waited = wait_until(PATIENCE, "the last profile of the connection", || {
            profiles = profiles_of(&self.fathom.mptcp_profiles(), host, PORT);
            profiles.last().is_some_and(Profile::is_last)
        });
        assert!(waited.is_ok(), "{}: {profiles:#?}", host.name());
        profiles
    }
}

impl Family {
    fn prefix(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }
}

/// The address of a host, 1 or 2, on a link, 1 or 2.
fn address(family: Family, link: u16, host: u16) -> IpAddr {
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
fn upload(client: &mut TcpStream, server: &mut TcpStream, length: usize) {
    let mut bytes = vec![0; length];
    std::thread::scope(|scope| {
        // More than the buffers hold.
        scope.spawn(|| server.read_exact(&mut bytes).unwrap());
        client.write_all(&vec![1; length]).unwrap();
    });
    server.write_all(&[2]).unwrap();
    client.read_exact(&mut [0]).unwrap();
}

fn close(mut client: TcpStream, mut server: TcpStream) {
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

fn total(profiles: &[&[Profile]], name: &str) -> u64 {
    let profiles = profiles.iter().copied().flatten();
    profiles.map(|profile| profile.number(name).unwrap()).sum()
}

/// Nothing is lost: what the subflows carry is what the application has sent.
#[test]
fn two_subflows() {
    for family in Family::BOTH {
        let Some(paths) = Paths::build(family) else {
            return;
        };
        let (mut client, mut server) = paths.open();
        upload(&mut client, &mut server, 10 * SEGMENT);
        close(client, server);
        for (host, role, [sent, received]) in [
            (&paths.client, "client", [10_000, 1]),
            (&paths.server, "server", [1, 10_000]),
        ] {
            let whole = paths.whole(host);
            let [first, second] = [1, 2].map(|number| paths.whole_subflow(host, number));
            let states = |profile: &Profile| {
                ["start_state", "end_state", "reason"].map(|name| profile.text(name).to_owned())
            };
            for profiles in [&whole, &first, &second] {
                let states: Vec<_> = profiles.iter().map(states).collect();
                assert_eq!(
                    states,
                    [
                        ["NEW", "ESTABLISHED", "established"],
                        ["ESTABLISHED", "FINISHED", "FIN"]
                    ]
                );
            }
            for (name, bytes) in [
                ("bytes_sent", sent),
                ("bytes_acknowledged", sent),
                ("bytes_received", received),
            ] {
                assert_eq!(total(&[&whole], name), bytes, "{name} {whole:#?}");
                assert_eq!(total(&[&first, &second], name), bytes, "{name}");
            }
            assert_eq!(total(&[&whole], "bytes_reinjected"), 0);
            let token = whole[0].number("mptcp_token").unwrap();
            for (number, profiles) in [(1, &first), (2, &second)] {
                for profile in profiles {
                    assert_eq!(profile.number("mptcp_token"), Some(token));
                    assert_eq!(profile.number("path_index"), Some(number), "{profile:?}");
                    assert_eq!(
                        profile.text("interface"),
                        ["eth0", "eth1"][number as usize - 1]
                    );
                }
            }
            assert_eq!(whole[1].number("mptcp_token"), Some(token));
            assert_eq!(whole[0].text("role"), role);
            if role == "client" {
                assert_eq!(whole[0].number("pid"), Some(std::process::id().into()));
                let established = whole[0].span("establishment_ns").unwrap();
                assert!(about(ROUND_TRIP).contains(&established), "{established:?}");
            }
        }
        paths.fathom.finish().unwrap();
    }
}

/// The second link swallows data while the connection is used: its subflow times out as any connection does, at 220 ms, 440 ms later and, 880 ms after that, for good
/// (see `black_hole_in_the_middle`). What it had not delivered goes over the first link too, so that the application loses nothing.
#[test]
fn a_subflow_dies() {
    for family in Family::BOTH {
        let Some(paths) = Paths::build(family) else {
            return;
        };
        let (mut client, mut server) = paths.open();
        upload(&mut client, &mut server, 10 * SEGMENT);
        let lose = Rule::nth(1, PacketKind::Any).times(u64::from(u32::MAX));
        let dead = Direction::delayed(ROUND_TRIP / 2).rule(lose);
        paths.second.reconfigure(Way::Forward, dead);
        let mut uploaded = 10 * SEGMENT;
        // Until the scheduler gives the dead subflow something.
        let is_stalled = || {
            let profiles = paths.subflow(&paths.client, 2).unwrap_or_default();
            profiles
                .iter()
                .any(|profile| profile.text("reason") == "lossy")
        };
        wait_until(PATIENCE, "the second subflow to stall", || {
            upload(&mut client, &mut server, 500 * SEGMENT);
            uploaded += 500 * SEGMENT;
            is_stalled()
        })
        .unwrap();
        let subflow = paths.whole_subflow(&paths.client, 2);
        close(client, server);
        let whole = paths.whole(&paths.client);
        let [.., last] = &subflow[..] else {
            unreachable!()
        };
        let states = ["start_state", "end_state", "reason"].map(|name| last.text(name));
        assert_eq!(states, ["UPDATE", "UNREACHABLE", "timeout"]);
        assert_eq!(last.number("stalls"), Some(2));
        let stalled = last.span("stalled_ns").unwrap();
        assert!(timed(TIMEOUT * 6).contains(&stalled), "{stalled:?}");
        let uploaded = uploaded as u64;
        assert_eq!(total(&[&whole], "bytes_acknowledged"), uploaded);
        let reinjected = total(&[&whole], "bytes_reinjected");
        assert!(reinjected > 0, "{whole:#?}");
        assert_eq!(whole.last().unwrap().text("end_state"), "FINISHED");
        let at_server = paths.whole(&paths.server);
        assert_eq!(total(&[&at_server], "bytes_received"), uploaded);
        paths.fathom.finish().unwrap();
    }
}
