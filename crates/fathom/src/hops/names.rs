//! Names of routers, from the DNS: asked for by a thread of its own, so that nothing waits for
//! them.

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use lru::LruCache;

/// Addresses whose names are kept; the one that was longest unused goes.
const NAMES_MAX: NonZero<usize> = NonZero::new(4096).expect("not zero");
/// Addresses that may wait for the thread; others are asked for later.
const WAITING_MAX: usize = 256;
/// Between looks whether all is known.
const LOOK: Duration = Duration::from_millis(10);

/// What is known of an address.
#[derive(Debug, Clone)]
enum Known {
    /// It was asked for.
    Asked,
    /// What came of it; nothing where there is no name, or no answer in the time that the system's
    /// resolver waits.
    Answered(Option<Arc<str>>),
}

type Cache = Arc<Mutex<LruCache<IpAddr, Known>>>;

/// Names of addresses.
pub(super) struct Names {
    cache: Cache,
    asked: SyncSender<IpAddr>,
}

impl Names {
    /// Starts the thread, which ends when this is dropped and its last question is answered; the
    /// process need not wait for it.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start() -> anyhow::Result<Self> {
        Self::with(|address| dns_lookup::lookup_addr(&address).ok())
    }

    fn with(resolve: impl Fn(IpAddr) -> Option<String> + Send + 'static) -> anyhow::Result<Self> {
        let cache: Cache = Arc::new(Mutex::new(LruCache::new(NAMES_MAX)));
        let (asked, questions) = sync_channel(WAITING_MAX);
        let answers = Arc::clone(&cache);
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || answer(&questions, &answers, resolve))
            .context("cannot start a thread that asks for names")?;
        Ok(Self { cache, asked })
    }

    /// The name of an address, if it is known by now; if it was never asked for, it is.
    pub(super) fn of(&self, address: IpAddr) -> Option<Arc<str>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match cache.get(&address) {
            Some(Known::Answered(name)) => return name.clone(),
            Some(Known::Asked) => return None,
            None => {}
        }
        match self.asked.try_send(address) {
            Ok(()) => {
                cache.put(address, Known::Asked);
            }
            // It will be asked for again.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
        None
    }

    /// Waits until all that was asked for is answered, but no longer than `patience`.
    pub(super) fn settle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let is_open = || {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.iter().any(|(_, known)| matches!(known, Known::Asked))
        };
        while is_open() && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
    }
}

fn answer(
    questions: &Receiver<IpAddr>,
    answers: &Cache,
    resolve: impl Fn(IpAddr) -> Option<String>,
) {
    for address in questions {
        let name = resolve(address).map(Arc::from);
        let mut cache = answers.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(address, Known::Answered(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_later_and_none_is_asked_for_twice() {
        let (told, asked) = std::sync::mpsc::channel();
        let names = Names::with(move |address| {
            told.send(address).unwrap();
            address.is_ipv4().then(|| format!("host-{address}"))
        })
        .unwrap();
        let known: IpAddr = [10, 0, 0, 1].into();
        let unknown: IpAddr = [0_u16; 8].into();
        for _ in 0..3 {
            names.of(known);
            names.of(unknown);
        }
        names.settle(Duration::from_secs(10));
        assert_eq!(names.of(known).as_deref(), Some("host-10.0.0.1"));
        assert_eq!(names.of(unknown), None);
        drop(names);
        assert_eq!(asked.iter().collect::<Vec<_>>(), [known, unknown]);
    }
}
