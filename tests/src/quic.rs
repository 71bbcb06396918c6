//! What both ends of QUIC need of TLS, for a name that is nobody's.

use std::sync::Arc;

use anyhow::Result;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

/// Whom the certificate is for.
pub const NAME: &str = "fathom.example";

/// A key and its certificate.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// A new one, signed by itself.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> Result<Self> {
        let signed = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        Ok(Self {
            certificate: signed.cert.der().clone(),
            key: signed.signing_key.serialize_der().into(),
        })
    }

    /// Of a server that has it.
    ///
    /// # Errors
    /// When TLS takes it not.
    pub fn server(&self, protocol: &str) -> Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from(self.key.clone_key());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        tls.alpn_protocols = vec![protocol.into()];
        let crypto = QuicServerConfig::try_from(tls)?;
        Ok(ServerConfig::with_crypto(Arc::new(crypto)))
    }

    /// Of a client that trusts it.
    ///
    /// # Errors
    /// When TLS takes it not.
    pub fn client(&self, protocol: &str) -> Result<ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![protocol.into()];
        let crypto = QuicClientConfig::try_from(tls)?;
        Ok(ClientConfig::new(Arc::new(crypto)))
    }
}
