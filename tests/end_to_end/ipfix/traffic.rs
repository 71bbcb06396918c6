//! Real connections between two hosts, and what `fathom profile` prints of them while it exports
//! the same.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fathom_lab::{Link, LinkConfig, LinkEnd, Namespace, PacketKind, Rule, wait_until};
use fathom_tests::{Fathom, Profile, Record};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};
use serde_json::Value;

use crate::collectors::PATIENCE;

/// Tests run at the same time, and each measurement sees the whole host: every one has networks of
/// its own.
static NETWORKS: AtomicU32 = AtomicU32::new(0);
const LOSSY_PORT: u16 = 6000;
const MPTCP_PORT: u16 = 6001;
const DNS_PORT: u16 = 53;
const SEGMENT: usize = 1000;

/// A record as printed: its kind and its fields.
pub(crate) type Printed = (&'static str, Profile);

/// Two hosts on a link, whose third segment of data is lost.
pub(crate) struct Hosts {
    /// Of client and server, by family.
    addresses: [[IpAddr; 2]; 2],
    client: Namespace,
    server: Namespace,
    _link: Link,
}

impl Hosts {
    pub(crate) fn build() -> Self {
        let number = std::process::id().wrapping_add(NETWORKS.fetch_add(1, Ordering::Relaxed));
        let own = (number % 256) as u8;
        let addresses = [
            [1, 2].map(|host| IpAddr::from([10, 79, own, host])),
            [1, 2].map(|host| IpAddr::from([0xfd79, own.into(), 0, 0, 0, 0, 0, host])),
        ];
        let (client, server) = (
            Namespace::new("client").unwrap(),
            Namespace::new("server").unwrap(),
        );
        let mut config = LinkConfig::symmetric(Duration::from_millis(5));
        let lost = Rule::nth(3, PacketKind::Data).on_port(LOSSY_PORT);
        config.forward.rules.push(lost);
        let [near, far] = [&client, &server].map(|host| LinkEnd::new(host, "eth0"));
        let link = Link::start(near, far, config).unwrap();
        for (number, host) in [&client, &server].into_iter().enumerate() {
            for (addresses, bits) in addresses.iter().zip([24, 64]) {
                let address = format!("{}/{bits}", addresses[number]);
                host.add_address("eth0", &address).unwrap();
            }
        }
        Self {
            addresses,
            client,
            server,
            _link: link,
        }
    }

    /// Over both families: a connection, one of MPTCP where the kernel has it, and two questions,
    /// of which the second is refused.
    fn talk(&self) {
        for [_, server] in self.addresses {
            for (port, protocol) in [(LOSSY_PORT, 0), (MPTCP_PORT, libc::IPPROTO_MPTCP)] {
                match self.upload(SocketAddr::new(server, port), protocol) {
                    Err(Errno::EPROTONOSUPPORT | Errno::ENOPROTOOPT) => {}
                    done => done.unwrap(),
                }
            }
            self.ask(SocketAddr::new(server, DNS_PORT));
        }
    }

    /// The networks of both families.
    fn networks(&self) -> String {
        let [ipv4, ipv6] = self.addresses.map(|[client, _]| client);
        format!("{ipv4}/24,{ipv6}/64")
    }

    fn upload(&self, address: SocketAddr, protocol: i32) -> Result<(), Errno> {
        let own = SockaddrStorage::from(address);
        let listener = self.server.enter(|| {
            let socket = socket(address, protocol)?;
            bind(socket.as_raw_fd(), &own)?;
            listen(&socket, Backlog::new(5)?)?;
            Ok::<_, Errno>(TcpListener::from(socket))
        });
        let listener = listener.unwrap()?;
        let client = self.client.enter(|| {
            let socket = socket(address, protocol)?;
            connect(socket.as_raw_fd(), &own)?;
            Ok::<_, Errno>(TcpStream::from(socket))
        });
        let mut client = client.unwrap()?;
        let (mut server, _) = listener.accept().unwrap();
        let mut bytes = [1; 10 * SEGMENT];
        client.write_all(&bytes).unwrap();
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes[..1]).unwrap();
        client.read_exact(&mut bytes[..1]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut bytes).unwrap(), 0);
        drop(server);
        assert_eq!(client.read(&mut bytes).unwrap(), 0);
        Ok(())
    }

    fn ask(&self, address: SocketAddr) {
        let any = SocketAddr::new(address.ip(), 0);
        let server = self.server.enter(|| UdpSocket::bind(address));
        let client = self.client.enter(|| {
            let socket = UdpSocket::bind(match any {
                SocketAddr::V4(_) => "0.0.0.0:0",
                SocketAddr::V6(_) => "[::]:0",
            })?;
            socket.connect(address)?;
            Ok::<_, io::Error>(socket)
        });
        let (server, client) = (server.unwrap().unwrap(), client.unwrap().unwrap());
        for (id, code) in [(1, 0), (2, 5)] {
            let name = b"\x07example\x00\x00\x01\x00\x01";
            let mut message = [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name].concat();
            client.send(&message).unwrap();
            let (length, from) = server.recv_from(&mut message).unwrap();
            assert_eq!(length, message.len());
            message[2] |= 0x80;
            message[3] = code;
            server.send_to(&message, from).unwrap();
            client.recv(&mut message).unwrap();
        }
    }
}

fn socket(address: SocketAddr, protocol: i32) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    #[expect(unsafe_code, reason = "neither std nor nix opens sockets of MPTCP")]
    // SAFETY: integers only, and nobody else has the new descriptor.
    unsafe {
        let descriptor = Errno::result(libc::socket(family, kind, protocol))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// `fathom profile`, which exports from the namespace of the collectors while the hosts talk.
pub(crate) struct Measured {
    hosts: Hosts,
    fathom: Fathom,
    talks: usize,
}

impl Measured {
    pub(crate) fn start(collectors: &Namespace, options: &[&str]) -> Self {
        let hosts = Hosts::build();
        let networks = hosts.networks();
        let own = ["--net", &networks, "--dns", "--flush", "100ms"];
        let fathom = Fathom::profile(collectors, &[&own[..], options].concat()).unwrap();
        Self {
            hosts,
            fathom,
            talks: 0,
        }
    }

    /// Has the hosts talk, and waits until all of it is printed.
    pub(crate) fn talk(&mut self) {
        self.hosts.talk();
        self.talks += 1;
        wait_until(PATIENCE, "what the hosts did", || {
            let printed = self.printed();
            let is_whole = |port, ends| {
                let last = printed.iter().filter(|(kind, profile)| {
                    *kind == "profile" && profile.has_port(port) && profile.is_last()
                });
                last.count() >= ends * self.talks
            };
            let has_mptcp = printed
                .iter()
                .any(|(_, profile)| profile.has_port(MPTCP_PORT));
            let questions = printed.iter().filter(|(kind, _)| *kind == "profile_dns");
            is_whole(LOSSY_PORT, 4)
                && (!has_mptcp || is_whole(MPTCP_PORT, 4))
                && questions.count() >= 4 * self.talks
        })
        .unwrap();
    }

    /// What is printed so far.
    pub(crate) fn printed(&self) -> Vec<Printed> {
        printed(self.fathom.records_after(0))
    }

    /// Ends the measurement; all that it printed, and so exported.
    pub(crate) fn finish(self) -> Vec<Printed> {
        let finished = self.fathom.finish().unwrap();
        assert!(!finished.errors.contains("left out"), "{}", finished.errors);
        let printed = printed(finished.records);
        for kind in ["profile", "profile_dns"] {
            assert!(printed.iter().any(|(found, _)| *found == kind), "no {kind}");
        }
        printed
    }
}

fn printed(records: Vec<Record>) -> Vec<Printed> {
    let known = records.into_iter().filter_map(|record| match record {
        Record::Profile(profile) => Some(("profile", profile)),
        Record::MptcpProfile(profile) => Some(("profile_mptcp", profile)),
        Record::DnsProfile(profile) => Some(("profile_dns", profile)),
        _ => None,
    });
    known.collect()
}

/// The fields of a record under the names that collectors have for them, times in ms.
pub(crate) fn expected((_, profile): &Printed) -> BTreeMap<String, Value> {
    let is_ipv4 = profile.local().unwrap().is_ipv4();
    let version = if is_ipv4 { 4 } else { 6 };
    let rename = |name: &str| match name {
        "time" => "flowEndMilliseconds".to_owned(),
        "start_time" => "flowStartMilliseconds".to_owned(),
        "source" => format!("sourceIPv{version}Address"),
        "destination" => format!("destinationIPv{version}Address"),
        "next_hop" => format!("ipNextHopIPv{version}Address"),
        "source_port" => "sourceTransportPort".to_owned(),
        "destination_port" => "destinationTransportPort".to_owned(),
        "protocol" => "protocolIdentifier".to_owned(),
        "connection" => "flowId".to_owned(),
        "process" => "applicationName".to_owned(),
        "interface" => "interfaceName".to_owned(),
        "flow_end_reason" => "flowEndReason".to_owned(),
        "role" => "biflowDirection".to_owned(),
        "packets" => "packetDeltaCount".to_owned(),
        "bytes" => "octetDeltaCount".to_owned(),
        "total_packets" => "packetTotalCount".to_owned(),
        "total_bytes" => "octetTotalCount".to_owned(),
        "total_reverse_packets" => "reversePacketTotalCount".to_owned(),
        "total_reverse_bytes" => "reverseOctetTotalCount".to_owned(),
        "reverse_packets" => "reversePacketDeltaCount".to_owned(),
        "reverse_bytes" => "reverseOctetDeltaCount".to_owned(),
        "bytes_sent" => "transportOctetDeltaCount".to_owned(),
        "packets_sent" => "transportPacketDeltaCount".to_owned(),
        "packets_received" => "reverseTransportPacketDeltaCount".to_owned(),
        own => own.to_owned(),
    };
    // Who observed stands in the message, as its observation domain and its sender.
    let own = profile.fields().filter(|(name, _)| *name != "host");
    let fields = own.map(|(name, value)| {
        let value = match name {
            "time" | "start_time" => milliseconds(value).unwrap().into(),
            "protocol" => u64::from(if value == "tcp" { 6_u8 } else { 17 }).into(),
            "role" => u64::from(if value == "client" { 1_u8 } else { 2 }).into(),
            "flow_end_reason" => code_of_end(value.as_str().unwrap()).into(),
            _ => value.clone(),
        };
        (rename(name), value)
    });
    fields.collect()
}

/// flowEndReason in IANA's registry.
fn code_of_end(reason: &str) -> u64 {
    match reason {
        "active timeout" => 2,
        "end of flow" => 3,
        "forced end" => 4,
        "lack of resources" => 5,
        _ => panic!("{reason} is no reason"),
    }
}

/// A time as text, in ms since 1970.
pub(crate) fn milliseconds(value: &Value) -> Option<u64> {
    let time = humantime::parse_rfc3339(value.as_str()?).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
