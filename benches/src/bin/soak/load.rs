//! Connections that come and go: each asks once a second, for ten seconds.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathom_lab::Namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, sleep};

const REQUESTS: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);
const BYTES: usize = 300;
/// Connections a second: ten times as many are open at a time.
pub(crate) const RATE: u64 = 200;

/// What became of connections.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) finished: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Why the first failed.
    pub(crate) error: OnceLock<std::io::Error>,
}

/// Serves until the process ends.
pub(crate) fn serve(namespace: &Namespace, address: SocketAddr) -> fathom_lab::Result<()> {
    namespace.enter(|| {
        let listener = std::net::TcpListener::bind(address).expect("the address is free");
        listener.set_nonblocking(true).expect("it is a socket");
        std::thread::spawn(move || {
            run(async move {
                let listener = TcpListener::from_std(listener).expect("it is not blocking");
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => drop(tokio::spawn(answer(stream))),
                        // One that cannot be taken does not end the service.
                        Err(error) => {
                            eprintln!("the service: {error}");
                            sleep(PAUSE / 100).await;
                        }
                    }
                }
            });
        });
    })
}

async fn answer(mut stream: TcpStream) {
    let mut message = [0; BYTES];
    while stream.read_exact(&mut message).await.is_ok() {
        if stream.write_all(&message).await.is_err() {
            break;
        }
    }
}

/// Opens connections until told to stop, and waits for the last.
pub(crate) fn ask(
    namespace: &Namespace,
    address: SocketAddr,
    stop: &AtomicBool,
    outcome: &Arc<Outcome>,
) {
    let asked = namespace.enter(|| {
        run(async {
            let mut ticks = interval(Duration::from_nanos(1_000_000_000 / RATE));
            while !stop.load(Ordering::Relaxed) {
                ticks.tick().await;
                tokio::spawn(connection(address, outcome.clone()));
            }
            sleep(PAUSE * (REQUESTS as u32 + 1)).await;
        });
    });
    asked.expect("the namespace is there");
}

async fn connection(address: SocketAddr, outcome: Arc<Outcome>) {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut message = [7; BYTES];
        for _ in 0..REQUESTS {
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
            sleep(PAUSE).await;
        }
        Ok::<_, std::io::Error>(())
    };
    let counter = match talk.await {
        Ok(()) => &outcome.finished,
        Err(error) => {
            let _ = outcome.error.set(error);
            &outcome.failed
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("the system has room").block_on(work);
}
