//! Agents: what their spools have, by HTTP.
//!
//! `POST /records` has batches as `fathom_store::encode` makes them, and is answered when all of
//! them are kept for sure: 200, and in words what became of them. 400 and 413 say that these bytes
//! will never be taken, and 503 that they may be later.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use fathom_ipfix::{TlsFiles, server_config};
use fathom_store::received;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::addresses::Listen;
use super::exporters::{Exporters, Source};
use super::keeper::{Keeper, Work, try_hand_over};

/// The longest body; agents send about a MiB at a time.
const MOST_BODY_BYTES: usize = 16 << 20;
/// All bodies that are being read or written take so much at most; those that come then wait.
const MOST_BODIES_KIB: usize = 256 << 10;
/// Connections at the same time, each with one request at a time.
const MOST_CONNECTIONS: usize = 4_096;
/// Of them from one address.
const MOST_OF_PEER: usize = 64;
/// How long TLS may take, and a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all connections share.
struct Shared {
    keeper: SyncSender<Work>,
    exporters: Arc<Exporters>,
    bodies: Arc<Semaphore>,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

/// Listens where agents may send.
///
/// # Errors
/// When an address cannot be listened at, or a certificate not be read.
pub(super) async fn listen(
    addresses: &[Listen],
    keeper: &Keeper,
    exporters: &Arc<Exporters>,
) -> anyhow::Result<()> {
    let shared = Arc::new(Shared {
        keeper: keeper.sender(),
        exporters: exporters.clone(),
        bodies: Arc::new(Semaphore::new(MOST_BODIES_KIB)),
        connections: Mutex::default(),
    });
    for listen in addresses {
        let Listen::Http { address, tls } = listen else {
            continue;
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let context = || format!("cannot listen at {scheme}://{address}");
        let acceptor = tls
            .as_ref()
            .map(acceptor)
            .transpose()
            .with_context(context)?;
        let listener = TcpListener::bind(address).await.with_context(context)?;
        eprintln!("listening at {scheme}://{}", listener.local_addr()?);
        tokio::spawn(accept(listener, acceptor, shared.clone()));
    }
    Ok(())
}

fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    Ok(TlsAcceptor::from(server_config(files)?))
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Such as no file descriptor left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(counted) = Counted::new(&shared, peer.ip()) else {
            let reason = "too many connections: one more was closed";
            shared.exporters.malformed(source(peer), &reason);
            continue;
        };
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            let _counted = counted;
            serve(stream, peer, acceptor, shared).await;
        });
    }
}

/// A connection, as long as there is one.
struct Counted(Arc<Shared>, IpAddr);

impl Counted {
    /// `None`: there are too many already.
    fn new(shared: &Arc<Shared>, peer: IpAddr) -> Option<Self> {
        let mut all = shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let total: usize = all.values().sum();
        let of_peer = all.entry(peer).or_default();
        if total >= MOST_CONNECTIONS || *of_peer >= MOST_OF_PEER {
            return None;
        }
        *of_peer += 1;
        Some(Self(shared.clone(), peer))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let all = self.0.connections.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        if let Some(of_peer) = all.get_mut(&self.1) {
            *of_peer = of_peer.saturating_sub(1);
            if *of_peer == 0 {
                all.remove(&self.1);
            }
        }
    }
}

fn source(peer: SocketAddr) -> Source {
    Source {
        exporter: peer.ip().to_canonical(),
        domain: None,
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) {
    // Answers are short, and waited for.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return converse(stream, peer, shared).await;
    };
    match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, peer, shared).await,
        Ok(Err(error)) => {
            let reason = format!("no TLS: {error}");
            shared.exporters.malformed(source(peer), &reason);
        }
        Err(_) => shared
            .exporters
            .malformed(source(peer), &"TLS takes too long"),
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    shared: Arc<Shared>,
) {
    let answering = shared.clone();
    let service = service_fn(move |request| {
        let shared = answering.clone();
        async move { Ok::<_, Infallible>(answer(request, peer, &shared).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served
        && (error.is_parse() || error.is_parse_too_large())
    {
        shared.exporters.malformed(source(peer), &error);
    }
}

/// The status, and a sentence.
type Answer = (StatusCode, String);

async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Shared,
) -> Response<Full<Bytes>> {
    let (status, mut words) = match take(request, peer, shared).await {
        Ok(words) => (StatusCode::OK, words),
        Err((status, words)) => {
            if status.is_client_error() {
                shared.exporters.malformed(source(peer), &words);
            }
            (status, words)
        }
    };
    words.push('\n');
    let mut response = Response::new(Full::from(words));
    *response.status_mut() = status;
    response
}

async fn take(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<String, Answer> {
    if request.uri().path() != "/records" {
        let path = request.uri().path().escape_default();
        return Err((
            StatusCode::NOT_FOUND,
            format!("there is no {path} here: records are posted to /records"),
        ));
    }
    if request.method() != Method::POST {
        let words = "records are posted to /records".to_owned();
        return Err((StatusCode::METHOD_NOT_ALLOWED, words));
    }
    let (bytes, permit) = body(request, shared).await?;
    let decoded = tokio::task::spawn_blocking(move || received(&bytes)).await;
    // What makes the decoder fail is no batch of records.
    let batches = match decoded {
        Ok(Ok(batches)) => batches,
        Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
        Err(_) => {
            let words = "the batches cannot be decoded".to_owned();
            return Err((StatusCode::BAD_REQUEST, words));
        }
    };
    let (done, outcome) = oneshot::channel();
    let from = source(peer);
    let work = Work::Sent {
        from,
        batches,
        done,
    };
    let later = |words: String| (StatusCode::SERVICE_UNAVAILABLE, words);
    try_hand_over(&shared.keeper, work).map_err(|reason| later(reason.to_owned()))?;
    let outcome = outcome
        .await
        .map_err(|_| later("the collector ends".to_owned()))?;
    drop(permit);
    let taken = outcome.map_err(later)?;
    let mut words = format!(
        "{} records kept, {} were kept before",
        taken.records, taken.repeated
    );
    if let Some(reason) = taken.reason {
        words = format!("{words}, {} refused: {reason}", taken.refused);
    }
    Ok(words)
}

/// The body, once there is memory for it.
async fn body(
    request: Request<Incoming>,
    shared: &Shared,
) -> Result<(Bytes, OwnedSemaphorePermit), Answer> {
    use hyper::body::Body as _;
    let too_long = || {
        let most = MOST_BODY_BYTES >> 20;
        let words = format!("a body has {most} MiB at most");
        (StatusCode::PAYLOAD_TOO_LARGE, words)
    };
    let length = request.body().size_hint().upper();
    let length = length.unwrap_or(MOST_BODY_BYTES as u64);
    if length > MOST_BODY_BYTES as u64 {
        return Err(too_long());
    }
    // Decoded it takes several times as much, but few are decoded at a time.
    let kib = (length >> 10) as u32 + 1;
    let permit = shared.bodies.clone().acquire_many_owned(kib).await;
    let permit = permit.map_err(|error| {
        let words = error.to_string();
        (StatusCode::SERVICE_UNAVAILABLE, words)
    })?;
    let reading = Limited::new(request.into_body(), MOST_BODY_BYTES).collect();
    match timeout(PATIENCE, reading).await {
        Ok(Ok(body)) => Ok((body.to_bytes(), permit)),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_long()),
        Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, format!("no whole body: {error}"))),
        Err(_) => {
            let words = "the body takes too long".to_owned();
            Err((StatusCode::REQUEST_TIMEOUT, words))
        }
    }
}
