//! The collector's end of TLS.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::Error;

/// Makes sessions of TLS out of connections that exporters opened. Exporters show no certificates.
#[derive(Debug, Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
}

impl TlsAcceptor {
    /// Reads PEM files: the certificate of this collector with those that it is signed by, and its
    /// key.
    ///
    /// # Errors
    /// [`Error::Certificates`] when one of them cannot be read, or they do not belong together.
    pub fn new(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let failed = |path: &Path, reason: String| Error::Certificates {
            path: path.to_owned(),
            reason,
        };
        let certificates = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| failed(certificate, error.to_string()))?;
        if certificates.is_empty() {
            return Err(failed(
                certificate,
                "there is no certificate in it".to_owned(),
            ));
        }
        let own_key =
            PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(certificate, error.to_string()))?;
        let config = builder
            .with_no_client_auth()
            .with_single_cert(certificates, own_key)
            .map_err(|error| failed(certificate, error.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// A session over a connection, which may be one that does not block. The handshake is made
    /// while it is read from.
    ///
    /// # Errors
    /// When the library refuses the configuration.
    pub fn accept(&self, stream: TcpStream) -> io::Result<TlsStream> {
        let session = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        Ok(TlsStream(Box::new(StreamOwned::new(session, stream))))
    }
}

/// What an exporter sends over TLS. A read fails as that of its connection does: with
/// [`io::ErrorKind::WouldBlock`] too, where that does not block.
#[derive(Debug)]
pub struct TlsStream(Box<StreamOwned<ServerConnection, TcpStream>>);

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}
