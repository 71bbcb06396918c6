//! Clients of the servers: connections that last, ones that do not, and lookups of names.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use fathom_lab::{Namespace, Stop, Worker, traffic::dns};

use super::server::HEADER_BYTES;

/// Between an answer and the next request of a connection that lasts.
const THINK: Duration = Duration::from_millis(25);
/// Between connections that do not.
const PAUSE: Duration = Duration::from_millis(120);
/// Between uploads.
const UPLOAD_PAUSE: Duration = Duration::from_millis(600);
/// Between lookups.
const LOOKUP_PAUSE: Duration = Duration::from_millis(150);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of small messages.
const MESSAGE_BYTES: usize = 600;
/// Of uploads.
const UPLOAD_BYTES: usize = 250_000;

/// Requests of `bytes` over one connection, until told to stop.
fn ask(namespace: &Namespace, server: SocketAddr, bytes: usize, pause: Duration, stop: &Stop) {
    while !stop.is_set() {
        // A connection that breaks is made again.
        let Ok(Ok(mut stream)) = namespace.enter(|| open(server)) else {
            stop.sleep_until(std::time::Instant::now() + pause);
            continue;
        };
        while !stop.is_set() && exchange(&mut stream, bytes).is_ok() {
            thread::sleep(pause);
        }
    }
}

fn open(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream, bytes: usize) -> io::Result<()> {
    let mut message = vec![0x5a; bytes];
    let lengths = [bytes - HEADER_BYTES, MESSAGE_BYTES];
    for (place, length) in message.chunks_mut(4).zip(lengths) {
        place.copy_from_slice(&(length as u32).to_be_bytes());
    }
    stream.write_all(&message)?;
    stream.read_exact(&mut message[..MESSAGE_BYTES])
}

/// Connections that last: some to each server.
pub(super) fn lasting(
    namespace: &Namespace,
    servers: &[SocketAddr],
    each: usize,
) -> fathom_lab::Result<Vec<Worker<()>>> {
    let servers = servers.iter().copied().cycle().take(each * servers.len());
    let workers = servers.map(|server| {
        let namespace = namespace.clone();
        Worker::start("client", move |stop| {
            ask(&namespace, server, MESSAGE_BYTES, THINK, stop);
        })
    });
    workers.collect()
}

/// Uploads over one connection.
pub(super) fn uploading(
    namespace: &Namespace,
    server: SocketAddr,
) -> fathom_lab::Result<Worker<()>> {
    let namespace = namespace.clone();
    Worker::start("upload", move |stop| {
        ask(&namespace, server, UPLOAD_BYTES, UPLOAD_PAUSE, stop);
    })
}

/// Connections of a request each; those that have to wait do not keep others from coming.
pub(super) fn coming(
    namespace: &Namespace,
    servers: &[SocketAddr],
) -> fathom_lab::Result<Worker<()>> {
    let (namespace, servers) = (namespace.clone(), servers.to_vec());
    Worker::start("connections", move |stop| {
        for server in servers.into_iter().cycle() {
            if stop.is_set() {
                return;
            }
            let namespace = namespace.clone();
            // It ends with its answer, or with its patience.
            thread::spawn(move || {
                let stream = namespace.enter(|| open(server));
                stream.map(|stream| exchange(&mut stream?, MESSAGE_BYTES))
            });
            thread::sleep(PAUSE);
        }
    })
}

/// Lookups of names, each asked up to three times.
pub(super) fn looking_up(
    namespace: &Namespace,
    server: SocketAddr,
) -> fathom_lab::Result<Worker<()>> {
    let namespace = namespace.clone();
    Worker::start("lookups", move |stop| {
        let client = dns::Client {
            queries: 1,
            ..dns::Client::new(server)
        };
        while !stop.is_set() {
            // What it finds is the agent's to say.
            let _ = client.run(&namespace);
            thread::sleep(LOOKUP_PAUSE);
        }
    })
}
