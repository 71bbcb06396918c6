//! An emulated link between two namespaces: two devices, a thread for each direction, and a record
//! of what happened.

mod capture_file;
mod clock;
mod device;
mod dice;
mod direction;
mod engine;
mod forwarder;
mod header;
mod held;
mod quote;
mod rule;
mod schedule;

mod truth;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use self::capture_file::CaptureFile;
use self::clock::{monotonic_ns, realtime_offset_ns};
use self::dice::Dice;
use self::engine::Engine;
use self::forwarder::{Control, Forwarder};
use self::held::Held;
use self::truth::Ledger;
use crate::{Error, Namespace, Result};

pub use self::device::{Device, Layer};
pub use self::direction::{Direction, LinkConfig};
pub(crate) use self::forwarder::{PRIORITY, precede_ordinary_threads};
pub(crate) use self::header::{ICMP_ERRORS, ICMPV6_ERRORS_END};
pub use self::header::{PacketHeader, TcpFlags, Transport};
pub use self::quote::Quote;
pub use self::rule::{Action, PacketKind, Rule};
pub use self::schedule::Schedule;
pub use self::truth::{Fate, PacketFate, Totals, Way};

/// Packets recorded in each direction, those beyond being counted; about 150 MB when full.
const TRUTH_CAPACITY: usize = 1 << 20;

/// One end of a link: a device to be made in a namespace.
#[derive(Debug, Clone)]
pub struct LinkEnd {
    /// Where the device appears.
    pub namespace: Namespace,
    /// Its name, at most 15 bytes.
    pub interface: String,
    /// A pcap file of the packets that pass this end, as the devices see them: before the link's
    /// effects going in, after them coming out.
    pub capture: Option<PathBuf>,
}

impl LinkEnd {
    /// An end without a capture file.
    pub fn new(namespace: &Namespace, interface: &str) -> Self {
        Self {
            namespace: namespace.clone(),
            interface: interface.to_owned(),
            capture: None,
        }
    }
}

/// Makes links with other than the usual properties.
#[derive(Debug, Clone)]
pub struct LinkBuilder {
    first: LinkEnd,
    second: LinkEnd,
    config: LinkConfig,
    layer: Layer,
    mtu_bytes: u32,
}

impl LinkBuilder {
    /// Carries `layer` instead of IP packets.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Largest network-layer packet in bytes instead of 1500.
    #[must_use]
    pub fn mtu(mut self, mtu_bytes: u32) -> Self {
        self.mtu_bytes = mtu_bytes;
        self
    }

    /// Creates the devices and starts forwarding.
    ///
    /// # Errors
    /// [`Error::Device`] when a device cannot be created, [`Error::Capture`] when a capture file
    /// cannot, [`Error::Runtime`] without threads.
    pub fn start(self) -> Result<Link> {
        let device = |end: &LinkEnd| {
            Device::create(&end.namespace, &end.interface, self.layer, self.mtu_bytes).map(Arc::new)
        };
        let capture = |end: &LinkEnd| match &end.capture {
            Some(path) => CaptureFile::create(path, self.layer)
                .map(Arc::new)
                .map(Some),
            None => Ok(None),
        };
        let ends = [
            (device(&self.first)?, capture(&self.first)?),
            (device(&self.second)?, capture(&self.second)?),
        ];
        let [first, second] = &ends;
        let offset_ns = realtime_offset_ns();
        Ok(Link {
            forward: self.start_direction(Way::Forward, first, second, offset_ns)?,
            backward: self.start_direction(Way::Backward, second, first, offset_ns)?,
            captures: ends
                .into_iter()
                .filter_map(|(_, capture)| capture)
                .collect(),
        })
    }

    fn start_direction(
        &self,
        way: Way,
        from: &(Arc<Device>, Option<Arc<CaptureFile>>),
        to: &(Arc<Device>, Option<Arc<CaptureFile>>),
        realtime_offset_ns: u64,
    ) -> Result<Half> {
        let (direction, name) = match way {
            Way::Forward => (&self.config.forward, "link forward"),
            Way::Backward => (&self.config.backward, "link backward"),
        };
        let failed = |source| Error::runtime(format!("start the thread `{name}`"), source);
        let control = Arc::new(Control::new().map_err(failed)?);
        let ledger = Arc::new(Ledger::new(way, TRUTH_CAPACITY));
        let dice = Dice::new(self.config.seed, way as u64);
        let forwarder = Forwarder {
            layer: self.layer,
            input: Arc::clone(&from.0),
            output: Arc::clone(&to.0),
            input_capture: from.1.clone(),
            output_capture: to.1.clone(),
            engine: Engine::new(direction.clone(), dice, monotonic_ns()),
            held: Held::new(self.mtu_bytes as usize + self.layer.overhead_bytes()),
            ledger: Arc::clone(&ledger),
            control: Arc::clone(&control),
            realtime_offset_ns,
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || forwarder.run())
            .map_err(failed)?;
        Ok(Half {
            control,
            ledger,
            input: Arc::clone(&from.0),
            thread: Some(thread),
        })
    }
}

/// One direction as its owner sees it.
#[derive(Debug)]
struct Half {
    control: Arc<Control>,
    ledger: Arc<Ledger>,
    input: Arc<Device>,
    thread: Option<JoinHandle<()>>,
}

impl Half {
    /// Processor time of the thread so far, from its scheduler statistics.
    fn cpu_time(&self) -> Duration {
        let thread_id = self.control.thread_id.load(Ordering::Acquire);
        let statistics = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat"));
        let on_cpu_ns = statistics
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        Duration::from_nanos(on_cpu_ns.unwrap_or_default())
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the truth record shows what is
            // missing.
            let _ = thread.join();
        }
    }
}

/// A running link; its devices vanish when it is dropped.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use fathom_lab::{Link, LinkConfig, LinkEnd, Namespace};
/// let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
/// let config = LinkConfig::symmetric(Duration::from_millis(10));
/// let link = Link::start(LinkEnd::new(&client, "eth0"), LinkEnd::new(&server, "eth0"), config)?;
/// client.add_address("eth0", "10.77.1.1/24")?;
/// server.add_address("eth0", "10.77.1.2/24")?;
/// println!("{}", client.run("ping -c 3 10.77.1.2")?);
/// assert_eq!(link.truth().len(), 6);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Link {
    forward: Half,
    backward: Half,
    captures: Vec<Arc<CaptureFile>>,
}

impl Link {
    /// A link of IP packets up to 1500 bytes; the devices are up, but have no address.
    ///
    /// # Errors
    /// As [`LinkBuilder::start`].
    pub fn start(first: LinkEnd, second: LinkEnd, config: LinkConfig) -> Result<Self> {
        Self::builder(first, second, config).start()
    }

    /// Starts to describe a link.
    pub fn builder(first: LinkEnd, second: LinkEnd, config: LinkConfig) -> LinkBuilder {
        LinkBuilder {
            first,
            second,
            config,
            layer: Layer::default(),
            mtu_bytes: 1500,
        }
    }

    /// Puts another configuration of one direction in force, from the next packet on; packets in
    /// the link keep their release times.
    pub fn reconfigure(&self, way: Way, direction: Direction) {
        self.half(way).control.reconfigure(direction);
    }

    /// What happened to every packet so far, forward ones first, each direction in the order of
    /// reading.
    pub fn truth(&self) -> Vec<PacketFate> {
        let mut fates = self.forward.ledger.fates();
        fates.append(&mut self.backward.ledger.fates());
        fates
    }

    /// What one direction did in all.
    pub fn totals(&self, way: Way) -> Totals {
        self.half(way).ledger.totals()
    }

    /// Packets of one direction that the kernel dropped before the link could read them, unseen by
    /// its truth; zero unless a flood is faster than the link.
    ///
    /// # Errors
    /// [`Error::Namespace`] or [`Error::Runtime`] when the counters cannot be read.
    pub fn unread_drops(&self, way: Way) -> Result<u64> {
        self.half(way).input.unread_drops()
    }

    /// Processor time of the thread of one direction so far; it includes the receiving kernel path
    /// of the packets it delivers.
    pub fn cpu_time(&self, way: Way) -> Duration {
        self.half(way).cpu_time()
    }

    /// Why a direction stopped by itself, if one did: a device that was deleted, say.
    pub fn failure(&self) -> Option<&str> {
        [&self.forward, &self.backward]
            .into_iter()
            .find_map(|half| half.control.failure.get())
            .map(String::as_str)
    }

    /// Writes what the capture files still hold in memory; dropping the link does it too.
    ///
    /// # Errors
    /// [`Error::Capture`] when a file cannot be written, now or before.
    pub fn flush_captures(&self) -> Result<()> {
        self.captures.iter().try_for_each(|capture| capture.flush())
    }

    fn half(&self, way: Way) -> &Half {
        match way {
            Way::Forward => &self.forward,
            Way::Backward => &self.backward,
        }
    }
}
