//! One check: a connection, and over it perhaps a request.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    StreamOwned,
};

use socket2::{Domain, Socket, Type};

use crate::config::{Check, Request};

/// More than this a server need not send until its status is known.
const LONGEST_ANSWER: usize = 16 << 10;

/// What to check, and how.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where.
    pub address: SocketAddr,
    /// The mark of its packets, if they take the route of clients' packets.
    pub mark: Option<u32>,
    /// What is asked.
    pub check: Check,
    /// For all of it.
    pub timeout: Duration,
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no connection, or it broke.
    #[error("{0}")]
    Connection(#[from] std::io::Error),
    /// It took too long.
    #[error("no answer in {0:?}")]
    Timeout(Duration),
    /// It answered something else.
    #[error("status {found}, not {wanted}")]
    Status {
        /// The status of the answer.
        found: u16,
        /// The one of a healthy server.
        wanted: u16,
    },
    /// What it answered is not HTTP.
    #[error("its answer is not HTTP: {0}")]
    Answer(#[from] httparse::Error),
    /// It closed the connection, or sent much, before its status was known.
    #[error("no status in its answer")]
    NoStatus,
    /// There is no TLS.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
}

/// Makes the check, and waits for it.
///
/// # Errors
/// [`Failure`] when the server is not as it should be.
pub fn check(target: &Target) -> Result<(), Failure> {
    let deadline = Instant::now() + target.timeout;
    let checked = check_until(target, deadline);
    checked.map_err(|failure| match failure {
        Failure::Connection(error)
            if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) =>
        {
            Failure::Timeout(target.timeout)
        }
        other => other,
    })
}

fn check_until(target: &Target, deadline: Instant) -> Result<(), Failure> {
    if target.check == Check::None {
        return Ok(());
    }
    let stream = connect(target)?;
    stream.set_nodelay(true)?;
    let mut stream = Bounded { stream, deadline };
    match &target.check {
        Check::None | Check::Tcp => Ok(()),
        Check::Http(request) => ask(&mut stream, request, target.address.ip()),
        Check::Https(request) => {
            let name = match &request.host {
                Some(host) => ServerName::try_from(host.clone()).map_err(|_| {
                    Failure::Tls(TlsError::General(format!(
                        "\"{host}\" is no name of a host"
                    )))
                })?,
                None => ServerName::IpAddress(target.address.ip().into()),
            };
            let connection = ClientConnection::new(Arc::clone(&TLS), name)?;
            let mut stream = StreamOwned::new(connection, stream);
            ask(&mut stream, request, target.address.ip())
        }
    }
}

/// Segments of checks are not longer: with the headers of a tunnel in front, they still fit the way
/// to the server.
const LONGEST_SEGMENT: u32 = 1200;

fn connect(target: &Target) -> Result<TcpStream, std::io::Error> {
    let address = target.address.into();
    let socket = Socket::new(Domain::for_address(target.address), Type::STREAM, None)?;
    if let Some(mark) = target.mark {
        socket.set_mark(mark)?;
        socket.set_tcp_mss(LONGEST_SEGMENT)?;
    }
    socket.connect_timeout(&address, target.timeout)?;
    Ok(socket.into())
}

/// A stream that is at an end, for reading and writing, at a deadline: a server that sends a byte
/// now and then keeps nobody waiting.
struct Bounded {
    stream: TcpStream,
    deadline: Instant,
}

impl Bounded {
    fn left(&self) -> std::io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(ErrorKind::TimedOut.into())
        } else {
            Ok(left)
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn ask(
    stream: &mut (impl Read + Write),
    request: &Request,
    address: IpAddr,
) -> Result<(), Failure> {
    let host = match (&request.host, address) {
        (Some(host), _) => host.clone(),
        (None, IpAddr::V4(address)) => address.to_string(),
        (None, IpAddr::V6(address)) => format!("[{address}]"),
    };
    let text = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: fathom-balance\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        request.path
    );
    stream.write_all(text.as_bytes())?;
    stream.flush()?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 2048]);
    while answer.len() < LONGEST_ANSWER {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
        if let Some(found) = status(&answer)? {
            let wanted = request.status;
            return if found == wanted {
                Ok(())
            } else {
                Err(Failure::Status { found, wanted })
            };
        }
    }
    Err(Failure::NoStatus)
}

/// The status, if the answer has come that far; how many headers follow does not matter.
fn status(answer: &[u8]) -> Result<Option<u16>, httparse::Error> {
    let mut response = httparse::Response::new(&mut []);
    match response.parse(answer) {
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Ok(response.code),
        Err(error) => Err(error),
    }
}

static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    #[expect(clippy::expect_used, reason = "the provider has all versions of TLS")]
    let config = versions
        .expect("the provider knows the versions of TLS")
        .dangerous();
    Arc::new(
        config
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth(),
    )
});

/// Takes any certificate: a check asks whether a server answers, not who it is; its certificate is
/// that of the service, not of its address.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;

    use super::*;

    fn request(path: &str) -> Request {
        Request {
            path: path.to_owned(),
            host: None,
            status: 204,
        }
    }

    fn target(address: SocketAddr, check: Check) -> Target {
        Target {
            address,
            mark: None,
            check,
            timeout: Duration::from_secs(2),
        }
    }

    /// Serves one connection with what `answer` makes of the request.
    fn serve(
        answer: impl FnOnce(String) -> String + Send + 'static,
    ) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            answer_one(&mut stream, answer);
        });
        (address, server)
    }

    fn answer_one(stream: &mut (impl Read + Write), answer: impl FnOnce(String) -> String) {
        let (mut asked, mut buffer) = (Vec::new(), [0; 1024]);
        while !asked.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            asked.extend_from_slice(&buffer[..count]);
        }
        let answer = answer(String::from_utf8(asked).unwrap());
        let _ = stream.write_all(answer.as_bytes());
        let _ = stream.flush();
    }

    #[test]
    fn a_status_decides() {
        let (address, server) = serve(|asked| {
            assert!(
                asked.starts_with("GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
                "{asked}"
            );
            "HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n".to_owned()
        });
        check(&target(address, Check::Http(request("/alive")))).unwrap();
        server.join().unwrap();
        for (answer, told) in [
            (
                "HTTP/1.1 503 Service Unavailable\r\n\r\n",
                "status 503, not 204",
            ),
            ("SSH-2.0-server\r\n", "its answer is not HTTP"),
            ("HTTP/1.1 ", "no status in its answer"),
        ] {
            let (address, server) = serve(move |_| answer.to_owned());
            let failure = check(&target(address, Check::Http(request("/")))).unwrap_err();
            assert!(failure.to_string().contains(told), "{failure}");
            server.join().unwrap();
        }
    }

    #[test]
    fn who_does_not_answer_has_failed_at_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut silent = target(listener.local_addr().unwrap(), Check::Http(request("/")));
        silent.timeout = Duration::from_millis(50);
        assert!(matches!(check(&silent), Err(Failure::Timeout(_))));
        // A connection is all that was asked for.
        silent.check = Check::Tcp;
        check(&silent).unwrap();
        let address = silent.address;
        drop(listener);
        assert!(matches!(
            check(&target(address, Check::Tcp)),
            Err(Failure::Connection(_))
        ));
        check(&target(address, Check::None)).unwrap();
    }

    #[test]
    fn any_certificate_is_taken() {
        let certified = rcgen::generate_simple_self_signed(["service.example".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            answer_one(&mut stream, |_| {
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
            });
        });
        check(&target(address, Check::Https(request("/")))).unwrap();
        server.join().unwrap();
    }
}
