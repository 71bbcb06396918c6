//! The collector's end of TLS.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::{Error, TlsFiles};

/// Makes sessions of TLS out of connections that exporters opened.
#[derive(Debug, Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
}

impl TlsAcceptor {
    /// Reads PEM files.
    ///
    /// # Errors
    /// As [`server_config`].
    pub fn new(files: &TlsFiles) -> Result<Self, Error> {
        Ok(Self {
            config: server_config(files)?,
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

/// What one needs who listens with TLS.
///
/// # Errors
/// [`Error::Certificates`] when a file cannot be read, or they do not belong together.
pub fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, Error> {
    let failed = |path: &Path, reason: String| Error::Certificates {
        path: path.to_owned(),
        reason,
    };
    let TlsFiles {
        certificate, key, ..
    } = files;
    let certificates = certificates_in(certificate)?;
    let own_key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificate, error.to_string()))?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            for one in certificates_in(clients)? {
                roots
                    .add(one)
                    .map_err(|error| failed(clients, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier
                .build()
                .map_err(|error| failed(clients, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates, own_key);
    Ok(Arc::new(
        config.map_err(|error| failed(certificate, error.to_string()))?,
    ))
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |reason: String| Error::Certificates {
        path: path.to_owned(),
        reason,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
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
