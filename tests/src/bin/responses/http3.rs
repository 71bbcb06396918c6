//! A client and a server of HTTP/3 (RFC 9114), on libraries of others: one request after another,
//! each timed by the client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use fathom_lab::{Namespace, Topology};
use fathom_tests::quic::{Identity, NAME};
use http::{Request, Response};
use quinn::{ClientConfig, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};

const PORT: u16 = 4433;
const DURATION: Duration = Duration::from_secs(5);

/// What the client waited, on average, in ms; the server waits for `service` before it answers.
pub(crate) fn run(client: &Namespace, server: &Namespace, service: Duration) -> Result<f64> {
    let bind = |namespace: &Namespace, address: IpAddr, port| {
        let socket = namespace.enter(|| UdpSocket::bind(SocketAddr::new(address, port)))??;
        anyhow::Ok(socket)
    };
    let client = bind(client, Ipv4Addr::UNSPECIFIED.into(), 0)?;
    let server = bind(server, Topology::SERVER_V4, PORT)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let identity = Identity::new()?;
        let server = endpoint(server, Some(identity.server("h3")?))?;
        let answering = tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(answer(incoming, service));
            }
        });
        let mean = ask(endpoint(client, None)?, identity.client("h3")?).await;
        answering.abort();
        mean
    })
}

fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        runtime,
    )?)
}

async fn answer(incoming: Incoming, service: Duration) -> Result<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::new(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        let (_, mut stream) = resolver.resolve_request().await?;
        tokio::time::sleep(service).await;
        stream.send_response(Response::new(())).await?;
        stream.send_data(Bytes::from_static(b"hello")).await?;
        stream.finish().await?;
    }
    Ok(())
}

async fn ask(endpoint: Endpoint, config: ClientConfig) -> Result<f64> {
    let server = SocketAddr::new(Topology::SERVER_V4, PORT);
    let connection = endpoint.connect_with(config, server, NAME)?.await?;
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driving = tokio::spawn(async move { driver.wait_idle().await });
    let (begin, mut waited, mut count) = (Instant::now(), Duration::ZERO, 0_u32);
    while begin.elapsed() < DURATION {
        let asked = Instant::now();
        let request = Request::get(format!("https://{NAME}/")).body(())?;
        let mut stream = requests.send_request(request).await?;
        stream.finish().await?;
        stream.recv_response().await?;
        while stream.recv_data().await?.is_some() {}
        waited += asked.elapsed();
        count += 1;
    }
    driving.abort();
    let mean = waited
        .checked_div(count)
        .context("no request was answered")?;
    Ok(mean.as_secs_f64() * 1e3)
}
