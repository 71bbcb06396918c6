//! Connections to a collector: blocking, with a bound on how long each step may take.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{Destination, Error, Transport};

/// How long a connection may take to be made, and a message to be taken by the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a collector's host has to say that nobody listens.
const REFUSAL: Duration = Duration::from_millis(200);

/// The way to a collector, checked as far as it can be without reaching it.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    destination: Destination,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A connection that messages go over.
#[derive(Debug)]
pub(crate) enum Connection {
    Udp {
        socket: UdpSocket,
        /// Has a first datagram found somebody, as far as can be told?
        is_confirmed: bool,
    },
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connector {
    /// Reads the certificates that TLS needs.
    pub(crate) fn new(destination: &Destination) -> Result<Self, Error> {
        let tls = match &destination.transport {
            Transport::Tls { authority } => {
                let host = destination.host.clone();
                let name = ServerName::try_from(host).map_err(|error| Error::Destination {
                    text: destination.to_string(),
                    reason: error.to_string(),
                })?;
                Some((Arc::new(client_config(authority)?), name))
            }
            Transport::Udp | Transport::Tcp => None,
        };
        Ok(Self {
            destination: destination.clone(),
            tls,
        })
    }

    /// Makes a connection, to the first address of the host that answers.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        let Destination {
            transport,
            host,
            port,
            ..
        } = &self.destination;
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let addresses = addresses.map_err(|source| Error::Resolve {
            host: format!("{host}:{port}"),
            source,
        })?;
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            let attempt = match transport {
                Transport::Udp => udp(address),
                Transport::Tcp => tcp(address).map(Connection::Tcp),
                Transport::Tls { .. } => self.tls(address),
            };
            match attempt {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(Error::Connect {
            destination: self.destination.to_string(),
            source: last,
        })
    }

    fn tls(&self, address: SocketAddr) -> io::Result<Connection> {
        let (config, name) = self.tls.as_ref().ok_or(ErrorKind::Unsupported)?;
        let session =
            ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, tcp(address)?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection::Tls(Box::new(stream)))
    }
}

fn udp(address: SocketAddr) -> io::Result<Connection> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(REFUSAL))?;
    Ok(Connection::Udp {
        socket,
        is_confirmed: false,
    })
}

fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn client_config(authority: &Path) -> Result<ClientConfig, Error> {
    let failed = |reason: String| Error::Certificates {
        path: authority.to_owned(),
        reason,
    };
    let certificates = CertificateDer::pem_file_iter(authority);
    let mut roots = RootCertStore::empty();
    for certificate in certificates.map_err(|error| failed(error.to_string()))? {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| failed(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl Connection {
    /// The longest IP packet that reaches the collector whole, as this host knows by now; `None`
    /// for streams, which need not care.
    pub(crate) fn path_mtu(&self) -> Option<u16> {
        let Self::Udp { socket, .. } = self else {
            return None;
        };
        let (level, option) = match socket.peer_addr().ok()? {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        let mut bytes: libc::c_int = 0;
        let mut length = size_of_val(&bytes) as libc::socklen_t;
        #[expect(unsafe_code, reason = "std does not ask for it")]
        // SAFETY: the kernel writes at most `length` bytes to an integer.
        let status = unsafe {
            let value = (&raw mut bytes).cast();
            libc::getsockopt(socket.as_raw_fd(), level, option, value, &raw mut length)
        };
        (status == 0).then(|| u16::try_from(bytes).unwrap_or(u16::MAX))
    }

    /// Hands a message to the kernel.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            // Fails when an earlier datagram found no listener: the next one knows no templates,
            // so the session begins anew.
            Self::Udp {
                socket,
                is_confirmed,
            } => {
                socket.send(message)?;
                if !*is_confirmed {
                    check_refused(socket)?;
                    *is_confirmed = true;
                }
                Ok(())
            }
            Self::Tcp(stream) => {
                check_open(stream, |stream| stream.read(&mut [0; 512]))?;
                stream.write_all(message)
            }
            Self::Tls(stream) => {
                let StreamOwned { conn, sock } = stream.as_mut();
                check_open(sock, |sock| {
                    let length = conn.read_tls(sock)?;
                    let state = conn.process_new_packets().map_err(io::Error::other)?;
                    Ok(if state.peer_has_closed() { 0 } else { length })
                })?;
                stream.write_all(message)?;
                stream.flush()
            }
        }
    }

    /// Says goodbye where the transport has a word for it.
    pub(crate) fn close(self) {
        if let Self::Tls(mut stream) = self {
            stream.conn.send_close_notify();
            // The collector sees the end of the connection in any case.
            let _ = stream.flush();
        }
    }
}

/// Fails if the host of the collector says within a moment that nobody listens. Silence is no
/// refusal.
fn check_refused(socket: &UdpSocket) -> io::Result<()> {
    match socket.recv(&mut [0]) {
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Fails if the collector has closed the connection: a message written then would be lost without a
/// word. What it sends is read away.
fn check_open(
    stream: &mut TcpStream,
    mut read: impl FnMut(&mut TcpStream) -> io::Result<usize>,
) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let end = loop {
        match read(stream) {
            Ok(0) => break Err(io::Error::from(ErrorKind::ConnectionAborted)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    end
}
