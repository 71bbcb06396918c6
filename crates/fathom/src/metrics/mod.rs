//! Metrics: records as families that Prometheus reads, and receivers of OTLP get. What there is
//! follows from the records' declarations: a field that says `metric` is a family, or names its
//! series.

mod exponential;
mod family;
mod labels;
mod native;
mod otlp;
mod push;
#[cfg(feature = "live")]
mod reference;
mod registry;
mod server;
mod text;

#[cfg(feature = "live")]
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use fathom_record::{NetworkNames, Record};

use crate::arguments::{MetricsArguments, MetricsPlace};
use crate::failure::say;
pub(crate) use family::Family;
#[cfg(feature = "live")]
pub(crate) use family::{About, FamilyKind, Figure, Series};
use push::Push;
#[cfg(feature = "live")]
#[cfg(feature = "live")]
pub(crate) use reference::table;
pub(crate) use registry::Registry;
#[cfg(feature = "live")]
pub(crate) use registry::own_family;
use server::Page;

/// Series, which some add to and others read.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Registry>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes metrics of records, for those who ask and those who are told.
pub(crate) struct Metrics {
    registry: Shared,
    _page: Option<Page>,
    push: Option<Push>,
}

impl Metrics {
    /// Serves and sends what was asked for; `None`: nothing was. The host is told to receivers of
    /// OTLP.
    ///
    /// # Errors
    /// When the address that was asked for is not free, a URL is none, or the host has no name.
    pub(crate) fn open(
        arguments: &MetricsArguments,
        host: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<Option<Self>> {
        let registry = Shared::default();
        let page = match arguments.metrics {
            None | Some(MetricsPlace::Nowhere) => None,
            Some(MetricsPlace::At(address)) => Some(Page::serve(address, &registry)?),
            #[cfg(feature = "live")]
            Some(MetricsPlace::IfFree(address)) => serve_if_free(address, &registry),
        };
        if let Some(address) = page.as_ref().and_then(Page::address) {
            say!("fathom: metrics are at http://{address}/metrics");
        }
        let push = match &arguments.otlp {
            None => None,
            Some(url) => Some(Push::start(
                url,
                arguments.otlp_interval,
                &host()?,
                registry.clone(),
            )?),
        };
        let is_asked_for = page.is_some() || push.is_some();
        Ok(is_asked_for.then_some(Self {
            registry,
            _page: page,
            push,
        }))
    }

    /// Calls networks as this file does.
    ///
    /// # Errors
    /// When it cannot be read, or is no table of networks.
    pub(crate) fn call_networks(&self, file: &Path) -> anyhow::Result<()> {
        let describe = || format!("cannot read names of networks from {}", file.display());
        let table = std::fs::read_to_string(file).with_context(describe)?;
        let names = NetworkNames::parse(&table).with_context(describe)?;
        self.registry.lock().call(names);
        Ok(())
    }

    /// Takes a record.
    pub(crate) fn put(&self, record: &dyn Record) {
        self.registry.lock().put(record);
    }

    /// The series.
    #[cfg(feature = "live")]
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// Sends the last figures.
    ///
    /// # Errors
    /// When the receiver does not take them.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.push.as_mut().map_or(Ok(()), Push::finish)
    }
}

#[cfg(feature = "live")]
fn serve_if_free(address: SocketAddr, registry: &Shared) -> Option<Page> {
    let served = Page::serve(address, registry);
    served
        .inspect_err(|error| {
            say!("fathom: {error:#}; measuring goes on without: --metrics names another address");
        })
        .ok()
}

#[cfg(test)]
mod tests;
