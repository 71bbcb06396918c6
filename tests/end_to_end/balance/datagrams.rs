//! Services of datagrams: who asks stays with the server that it had, and with QUIC even when the
//! client's address changes.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fathom_lab::{Namespace, Worker};
use fathom_tests::Balancer;
use fathom_tests::quic::{Identity, NAME};
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, Incoming,
    TokioRuntime,
};

use crate::count;
use crate::stage::{SERVERS, Stage, address};

const SERVICE: SocketAddr = SocketAddr::new(crate::stage::SERVICE.ip(), 4433);
const PROTOCOL: &str = "number";
/// Each asks twice, with a change of the ring between.
const CLIENTS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(20);

fn configuration() -> String {
    let (address_of_service, port) = (SERVICE.ip(), SERVICE.port());
    let server = |number| {
        let address = address(number);
        format!(
            "[[server]]\nname = \"s{number}\"\naddress = \"{address}\"\nquic-config = 2\nquic-id = \"00a{number}\"\n"
        )
    };
    let servers: String = (1..=SERVERS).map(server).collect();
    format!(
        "[control]\npolicy = \"static\"\n[health]\ncheck = \"none\"\n{servers}[[service]]\nname = \"quic\"\naddress = \"{address_of_service}\"\nport = {port}\nprotocol = \"udp\"\nquic = true\n"
    )
}

fn bind(namespace: &Namespace, address: SocketAddr) -> Result<UdpSocket> {
    Ok(namespace.enter(|| UdpSocket::bind(address))??)
}

fn bind_any(namespace: &Namespace) -> Result<UdpSocket> {
    bind(namespace, SocketAddr::from(([0; 4], 0)))
}

/// Takes new flows away from a server. Of those that answer clients, its number is among `answers`.
fn drain(balancer: &Balancer, answers: &[u8]) -> Result<()> {
    for server in 1..=SERVERS {
        ensure!(answers.contains(&server), "no client has server {server}");
    }
    balancer.ask(&["drain", "s1"])?;
    Ok(())
}

/// A server that answers each datagram with its number.
fn echo(namespace: &Namespace, number: u8) -> Result<Worker<Result<()>>> {
    let socket = bind(namespace, SERVICE)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let worker = Worker::start("echo", move |stop| {
        while !stop.is_set() {
            if let Ok((_, client)) = socket.recv_from(&mut [0; 64]) {
                socket.send_to(&[number], client)?;
            }
        }
        Ok(())
    })?;
    Ok(worker)
}

#[fathom_lab::test]
fn a_client_of_datagrams_keeps_its_server() {
    let stage = Stage::new().unwrap();
    let servers = (1..=SERVERS).zip(&stage.servers);
    let servers = servers.map(|(number, namespace)| echo(namespace, number));
    let servers: Vec<_> = servers.collect::<Result<_>>().unwrap();
    let mut balancer = Balancer::start(&stage.balancer, &configuration()).unwrap();
    let client = || {
        let socket = bind_any(&stage.client)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(SERVICE)?;
        Ok(socket)
    };
    let clients = (0..CLIENTS).map(|_| client());
    let clients: Vec<UdpSocket> = clients.collect::<Result<_>>().unwrap();
    let ask = || -> Result<Vec<u8>> {
        let mut answers = vec![0; CLIENTS];
        for (socket, answer) in clients.iter().zip(answers.chunks_mut(1)) {
            socket.send(b"?")?;
            socket.recv(answer).context("no answer")?;
        }
        Ok(answers)
    };
    let before = ask().unwrap();
    drain(&balancer, &before).unwrap();
    assert_eq!(ask().unwrap(), before);
    assert!(balancer.stop().unwrap());
    for server in servers {
        server.finish().unwrap();
    }
}

/// Connection ids of a server, as the balancer is told to read them: three bits of configuration,
/// its id, and what nobody can guess.
struct Naming {
    server: u8,
    next: u64,
}

impl ConnectionIdGenerator for Naming {
    fn generate_cid(&mut self) -> ConnectionId {
        self.next += 1;
        let mut id = [0; 11];
        id[..3].copy_from_slice(&[2 << 5, 0, 0xa0 | self.server]);
        id[3..].copy_from_slice(&self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        11
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

async fn within<T>(what: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, what).await?
}

async fn answer(incoming: Incoming, number: u8) -> Result<()> {
    let connection = incoming.await?;
    loop {
        let (mut to, mut from) = connection.accept_bi().await?;
        from.read_to_end(64).await?;
        to.write_all(&[number]).await?;
        to.finish()?;
    }
}

async fn ask(connection: &Connection) -> Result<u8> {
    let (mut to, mut from) = connection.open_bi().await?;
    to.write_all(b"?").await?;
    to.finish()?;
    let answer = from.read_to_end(64).await?;
    answer.first().copied().context("an empty answer")
}

fn serve(namespace: &Namespace, server: u8, identity: &Identity) -> Result<()> {
    let mut config = EndpointConfig::default();
    config.cid_generator(move || Box::new(Naming { server, next: 0 }));
    let socket = bind(namespace, SERVICE)?;
    let tls = identity.server(PROTOCOL)?;
    let endpoint = Endpoint::new(config, Some(tls), socket, Arc::new(TokioRuntime))?;
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(answer(incoming, server));
        }
    });
    Ok(())
}

/// All clients get other ports, and servers other rings: only their connection ids tell where they
/// belong.
async fn roam(stage: &Stage, balancer: &Balancer) -> Result<()> {
    let identity = Identity::new()?;
    for (number, namespace) in (1..=SERVERS).zip(&stage.servers) {
        serve(namespace, number, &identity)?;
    }
    let (mut clients, mut before) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let socket = bind_any(&stage.client)?;
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;
        let connecting = endpoint.connect_with(identity.client(PROTOCOL)?, SERVICE, NAME)?;
        let connection = within(async { Ok(connecting.await?) }).await?;
        before.push(within(ask(&connection)).await?);
        clients.push((endpoint, connection));
    }
    drain(balancer, &before)?;
    for ((endpoint, connection), server) in clients.iter().zip(before) {
        endpoint.rebind(bind_any(&stage.client)?)?;
        let now = within(ask(connection)).await?;
        ensure!(now == server, "server {now}, not {server}");
    }
    Ok(())
}

#[fathom_lab::test]
fn a_connection_of_quic_outlives_a_change_of_its_clients_address() {
    let stage = Stage::new().unwrap();
    let mut balancer = Balancer::start(&stage.balancer, &configuration()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(roam(&stage, &balancer)).unwrap();
    let named = count(&balancer, "packets whose connection id names the server");
    assert!(named > CLIENTS as u64, "{named}");
    assert!(balancer.stop().unwrap());
}
