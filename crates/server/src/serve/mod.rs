//! `fathom serve`: a page about the records of a store, and the interface that it uses.

mod activity;
mod api;
mod assets;
mod guard;
mod heat;
mod listen;
mod problem;
mod questions;
mod sql;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use fathom_ipfix::TlsFiles;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::query::{Engine, EngineArguments};
use guard::Guard;

/// Questions that are answered at the same time; others wait for their turn.
const MOST_QUESTIONS: usize = 2;

/// Show the records of a store in a browser.
///
/// The page and its JSON interface (`/api/v1/openapi.json`) are at the address of `--listen`. On an
/// address of this machine alone, whoever may use the machine may look. Any other address needs TLS
/// and a token. The exit status is 0 after SIGINT and SIGTERM.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    engine: EngineArguments,
    /// Where to listen.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "FATHOM_LISTEN",
        default_value = "127.0.0.1:8080"
    )]
    listen: SocketAddr,
    /// For TLS, a PEM file with the certificate and its signers.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// A PEM file with its private key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// What browsers and programs must know to be answered. Where one is needed and none is named,
    /// it is made, and printed with the address.
    #[arg(
        long,
        value_name = "TEXT",
        env = "FATHOM_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

/// What all requests share.
struct Shared {
    engine: Engine,
    /// The arguments of a process that answers one statement.
    asking: Vec<std::ffi::OsString>,
    turns: Semaphore,
    statements: Semaphore,
    kept: questions::Kept,
}

impl ServeArguments {
    fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.certificate.clone()?,
            key: self.key.clone()?,
            clients: None,
        })
    }

    /// What a request must show.
    ///
    /// # Errors
    /// When others could reach the address, and what they send is not encrypted.
    fn guard(&self) -> anyhow::Result<Guard> {
        let is_here_alone = self.listen.ip().is_loopback();
        ensure!(
            is_here_alone || self.certificate.is_some(),
            "{} can be reached from elsewhere, so it needs TLS: name --certificate and --key, or listen at 127.0.0.1:{}",
            self.listen,
            self.listen.port()
        );
        let token = match &self.token {
            Some(token) => {
                ensure!(
                    token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                    "a token has at least 16 characters, letters and digits alone"
                );
                Some(token.clone())
            }
            None if is_here_alone => None,
            None => Some(guard::new_token()?),
        };
        Ok(Guard::new(token, self.certificate.is_some()))
    }
}

/// Serves until told to stop.
///
/// # Errors
/// When the address cannot be listened at, or would be open to others.
pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<()> {
    let guard = arguments.guard()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let served = runtime.block_on(serve(arguments, guard));
    // Questions that nobody waits for any more end where they are.
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

async fn serve(arguments: &ServeArguments, guard: Guard) -> anyhow::Result<()> {
    let shared = Arc::new(Shared {
        engine: Engine::open(&arguments.engine)?,
        asking: arguments.engine.to_arguments(),
        turns: Semaphore::new(MOST_QUESTIONS),
        statements: Semaphore::new(1),
        kept: questions::Kept::default(),
    });
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?;
    let mut ended = signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?;
    let tls = arguments.tls();
    let listener = listen::Listening::open(arguments.listen, tls.as_ref()).await?;
    eprintln!("{}", guard.address(listener.address()));
    let routes = guard.around(api::routes(shared));
    tokio::select! {
        served = axum::serve(listener, routes) => Ok(served?),
        _ = interrupted.recv() => Ok(()),
        _ = ended.recv() => Ok(()),
    }
}
