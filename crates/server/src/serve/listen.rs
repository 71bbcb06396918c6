//! Where requests come in.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use anyhow::Context;
use axum::serve::Listener;
use fathom_ipfix::{TlsFiles, server_config};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take to agree on keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that have agreed and wait to be served.
const WAITING: usize = 16;

/// An address that is listened at.
pub(super) struct Listening {
    address: SocketAddr,
    opened: Receiver<(Connection, SocketAddr)>,
}

/// A connection, with TLS or without.
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address is taken, or a certificate cannot be read.
    pub(super) async fn open(address: SocketAddr, tls: Option<&TlsFiles>) -> anyhow::Result<Self> {
        let tls = tls.map(server_config).transpose()?.map(TlsAcceptor::from);
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen at {address}: name another address with --listen")
        })?;
        let address = listener.local_addr()?;
        let (sender, opened) = channel(WAITING);
        tokio::spawn(async move {
            loop {
                let Ok((stream, peer)) = listener.accept().await else {
                    // Such as no file descriptor left.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (sender, tls) = (sender.clone(), tls.clone());
                // A client that is slow to agree keeps no other waiting.
                tokio::spawn(async move {
                    let connection = match tls {
                        None => Connection::Plain(stream),
                        Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
                            Ok(Ok(stream)) => Connection::Tls(Box::new(stream)),
                            _ => return,
                        },
                    };
                    let _ = sender.send((connection, peer)).await;
                });
            }
        });
        Ok(Self { address, opened })
    }

    /// Where that is, with the port that the system chose if none was named.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener for Listening {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.opened.recv().await {
            Some(opened) => opened,
            // The process ends.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, bytes),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
