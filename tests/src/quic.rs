//! What both ends of QUIC need of TLS, for a name that is nobody's, and a conversation whose spin
//! bit tells of its round trips.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fathom_lab::{Namespace, Stop, Worker, wait_until};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};
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
    pub fn new() -> Result<Self> {
        let signed = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        Ok(Self {
            certificate: signed.cert.der().clone(),
            key: signed.signing_key.serialize_der().into(),
        })
    }

    /// Of a server that has it.
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

/// What endpoints draw from: one connection in eight does not spin (RFC 9000, section 17.4), but
/// with this the first one of an endpoint does.
const SEED: [u8; 32] = [2; 32];
const PROTOCOL: &str = "echo";
/// Between two datagrams of a client.
const INTERVAL: Duration = Duration::from_micros(3_333);
/// How long a client waits for those before it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to see that it should end.
const STOP_LATENCY: Duration = Duration::from_millis(20);

/// Whom clients of this process trust.
static IDENTITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::new().expect("there is randomness"));

/// Sends each datagram (RFC 9221) of its clients back, one client after the other; it ends when
/// dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Whether it has an endpoint that no client has spoken to.
    is_ready: Arc<AtomicBool>,
    _worker: Worker<Result<()>>,
}

impl Server {
    /// Listens at `address` in `namespace`.
    pub fn start(namespace: &Namespace, address: SocketAddr) -> Result<Self> {
        let socket = namespace.enter(|| UdpSocket::bind(address))??;
        let mut config = IDENTITY.server(PROTOCOL)?;
        config.transport_config(transport());
        let is_ready = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_ready);
        let worker = Worker::start("quic server", move |stop| {
            runtime()?.block_on(serve(socket, config, told, stop))
        })?;
        Ok(Self {
            address,
            is_ready,
            _worker: worker,
        })
    }

    /// Connects to it from `namespace`, when all before have closed, sends 300 datagrams a second
    /// for `duration`, and closes; how many came back.
    pub fn talk(&self, namespace: &Namespace, duration: Duration) -> Result<u32> {
        let is_free = || self.is_ready.swap(false, Ordering::AcqRel);
        wait_until(PATIENCE, "the QUIC server to be free", is_free)?;
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = namespace.enter(|| UdpSocket::bind((any, 0)))??;
        let mut config = IDENTITY.client(PROTOCOL)?;
        config.transport_config(transport());
        runtime()?.block_on(async {
            let endpoint = endpoint(socket, None)?;
            let connection = endpoint.connect_with(config, self.address, NAME)?.await?;
            let listener = connection.clone();
            let listening = tokio::spawn(async move {
                let mut count = 0;
                while listener.read_datagram().await.is_ok() {
                    count += 1;
                }
                count
            });
            let begin = Instant::now();
            let mut turns = tokio::time::interval(INTERVAL);
            while begin.elapsed() < duration {
                turns.tick().await;
                connection.send_datagram(vec![0; 200].into())?;
            }
            connection.close(0_u32.into(), b"");
            endpoint.wait_idle().await;
            Ok(listening.await?)
        })
    }
}

async fn serve(
    socket: UdpSocket,
    config: ServerConfig,
    is_ready: Arc<AtomicBool>,
    stop: &Stop,
) -> Result<()> {
    let serving = tokio::spawn(async move {
        loop {
            // A new one for each client: its first connection spins.
            let endpoint = endpoint(socket.try_clone()?, Some(config.clone()))?;
            is_ready.store(true, Ordering::Release);
            let incoming = endpoint.accept().await.context("the endpoint is closed")?;
            if let Ok(connection) = incoming.await {
                while let Ok(datagram) = connection.read_datagram().await {
                    // A client that has closed needs no answer.
                    let _ = connection.send_datagram(datagram);
                }
            }
            endpoint.wait_idle().await;
        }
    });
    while !stop.is_set() && !serving.is_finished() {
        tokio::time::sleep(STOP_LATENCY).await;
    }
    if serving.is_finished() {
        serving.await?
    } else {
        Ok(())
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

/// One datagram is one packet, and all are small.
fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.enable_segmentation_offload(false);
    transport.mtu_discovery_config(None);
    Arc::new(transport)
}

fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(SEED));
    // Observers know QUIC by the bit that this would make random (RFC 9287).
    config.grease_quic_bit(false);
    Ok(Endpoint::new(
        config,
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}
