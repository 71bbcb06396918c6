//! Measuring over capture files.

mod copies;

use std::collections::HashSet;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, Mutex};
use std::thread;

use fathom_capture::{LinkType, Packet, Reader};
use fathom_record::Time;

use crate::Error;
use crate::native::{self, Frame, fathom_reading};
use copies::Copies;

/// Packets that go from reading to measuring together: few enough to stay in a core's cache.
const BATCH: usize = 512;
/// Where measuring does not stop.
const NEVER: Time = Time(u64::MAX);
/// Batches that the reading thread may be ahead.
const AHEAD: usize = 8;

/// Knows interfaces by number, as the capture point does.
pub trait Interfaces {
    /// The name of the interface, or what stands for it.
    fn name(&self, interface: u32) -> &'static str;
}

/// Names of interfaces, by numbers that take less room.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShortNames(Vec<&'static str>);

impl ShortNames {
    /// The number of a name, to which it is added if it is new.
    pub(crate) fn index_of(&mut self, name: &'static str) -> u16 {
        let known = self.0.iter().position(|&known| known == name);
        let index = known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        });
        index as u16
    }

    /// The name that has this number.
    pub(crate) fn name(&self, index: u16) -> &'static str {
        self.0.get(usize::from(index)).copied().unwrap_or_default()
    }
}

impl<I: Interfaces> Interfaces for &I {
    fn name(&self, interface: u32) -> &'static str {
        (**self).name(interface)
    }
}

/// A frame that has been read, and when it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Dissected {
    /// In nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) reading: fathom_reading,
}

/// Reads frames for a measurement. It has no state, and so may run ahead of it.
pub struct Dissector(Box<dyn Fn(&Frame<'_>) -> fathom_reading + Send>);

impl Dissector {
    /// By this function.
    pub(crate) fn new(read: impl Fn(&Frame<'_>) -> fathom_reading + Send + 'static) -> Self {
        Self(Box::new(read))
    }

    /// Reads a frame that was captured at `time`.
    fn dissect(&self, time: u64, frame: &Frame<'_>) -> Dissected {
        let reading = (self.0)(frame);
        Dissected { time, reading }
    }
}

/// A measurement that captures are run through.
pub trait Offline {
    /// What comes of it.
    type Report;

    /// What reads frames for it.
    fn dissector(&self) -> Dissector;

    /// Takes a packet in; `report` gets what comes of it.
    fn on_packet(
        &mut self,
        packet: &Dissected,
        interfaces: &impl Interfaces,
        report: &mut impl FnMut(Self::Report),
    );
}

/// Runs one capture through a measurement.
pub struct Replay {
    source: Source,
    file: &'static str,
    names: Names,
    position: u64,
    copies: u64,
    /// When its first packet was captured.
    begin: Option<Time>,
    /// What is measured at present, from `next` on.
    batch: Batch,
    next: usize,
    /// Measuring stops before packets of this time.
    stop: Time,
}

/// How the run over one file ended.
#[derive(Debug)]
pub enum Ended {
    /// All of it was read.
    Whole,
    /// It is cut off or damaged at some point; all before was measured.
    Broken(Error),
}

/// Who reads.
enum Source {
    Here(Box<FrameReader>),
    /// A thread that reads and dissects; it gets its batches back.
    Ahead {
        filled: Receiver<Batch>,
        emptied: SyncSender<Batch>,
    },
}

impl Replay {
    /// Opens a capture; `-` is standard input.
    ///
    /// # Errors
    /// [`Error::Capture`] when it cannot be opened or is no capture at all.
    pub fn open(path: &str) -> Result<Self, Error> {
        let file = if path == "-" { "stdin" } else { path };
        let reader = Reader::open(path).map_err(|source| unreadable(file, source))?;
        let name = std::path::Path::new(file).file_name();
        Ok(Self::new(
            name.and_then(|name| name.to_str()).unwrap_or(file),
            reader,
        ))
    }

    /// Reads a capture from a stream, under the name that records shall have as interface.
    ///
    /// # Errors
    /// [`Error::Capture`] when it is no capture at all.
    pub fn from_reader(name: &str, stream: impl Read + Send + 'static) -> Result<Self, Error> {
        let reader = Reader::new(stream).map_err(|source| unreadable(name, source))?;
        Ok(Self::new(name, reader))
    }

    fn new(name: &str, reader: Reader) -> Self {
        let file = interned(name);
        Self {
            source: Source::Here(Box::new(FrameReader {
                reader,
                names: Vec::new(),
                file,
                copies: Some(Copies::new()),
            })),
            file,
            names: Names {
                file,
                interfaces: Vec::new(),
            },
            position: 0,
            copies: 0,
            begin: None,
            batch: Batch::default(),
            next: 0,
            stop: NEVER,
        }
    }

    /// Measures packets that the capture has more than once each time, as the kernel's programs do.
    /// To be called first.
    #[must_use]
    pub fn keep_copies(mut self) -> Self {
        if let Source::Here(reader) = &mut self.source {
            reader.copies = None;
        }
        self
    }

    /// Lets a thread of its own read ahead for `measurement`; what is reported and its order stay
    /// what they are.
    #[must_use]
    pub fn read_ahead(self, measurement: &impl Offline) -> Self {
        let Source::Here(mut reader) = self.source else {
            return self;
        };
        let dissector = measurement.dissector();
        let (fill, filled) = sync_channel::<Batch>(AHEAD);
        let (emptied, empty) = sync_channel::<Batch>(AHEAD + 2);
        // It ends with the file, or when nobody takes its batches any more.
        thread::spawn(move || {
            loop {
                let mut batch = empty.try_recv().unwrap_or_default();
                reader.fill(&dissector, &mut batch);
                let is_last = batch.ended.is_some();
                if fill.send(batch).is_err() || is_last {
                    return;
                }
            }
        });
        Self {
            source: Source::Ahead { filled, emptied },
            ..self
        }
    }

    /// Bytes of the file that have been read, compressed as they are.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Packets so far that were left out, since the capture had them before.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// When the first packet was captured that has been read.
    pub fn begin(&self) -> Option<Time> {
        self.begin
    }

    /// Lets [`Replay::run`] stop before the next packet of this time or a later one.
    pub fn stop_at(&mut self, time: Time) {
        self.stop = time;
    }

    /// When the packet was captured before which it has stopped.
    pub fn stopped_before(&self) -> Option<Time> {
        let next = self.batch.packets.get(self.next)?;
        Some(Time(next.time))
    }

    /// Measures the next frames, a few hundred. Returns `None` while there is more, then how it
    /// ended.
    pub fn run<M: Offline>(
        &mut self,
        measurement: &mut M,
        report: &mut impl FnMut(M::Report),
    ) -> Option<Ended> {
        if self.next == self.batch.packets.len() {
            self.read(measurement);
        }
        let rest = self.batch.packets[self.next..].iter();
        let is_before = |packet: &&Dissected| packet.time < self.stop.0 || self.stop == NEVER;
        for packet in rest.take_while(is_before) {
            measurement.on_packet(packet, &self.names, report);
            self.next += 1;
        }
        if self.next < self.batch.packets.len() {
            return None;
        }
        match self.batch.ended.take()? {
            Ok(()) => Some(Ended::Whole),
            Err(source) => Some(Ended::Broken(unreadable(self.file, source))),
        }
    }

    /// Reads the next frames.
    fn read(&mut self, measurement: &impl Offline) {
        let batch = &mut self.batch;
        match &mut self.source {
            Source::Here(reader) => reader.fill(&measurement.dissector(), batch),
            Source::Ahead { filled, emptied } => {
                let next = filled.recv().unwrap_or_else(|_| Batch::end());
                // If there is no room, or no reader any more, the batch is simply dropped.
                drop(emptied.try_send(std::mem::replace(batch, next)));
            }
        }
        self.next = 0;
        self.names.interfaces.extend_from_slice(&batch.names);
        self.position = batch.position;
        self.copies += batch.copies;
        let first = batch.packets.first().map(|packet| Time(packet.time));
        self.begin = self.begin.or(first);
    }

    /// The interfaces of the file.
    pub fn interfaces(&self) -> &impl Interfaces {
        &self.names
    }
}

fn unreadable(file: &str, source: fathom_capture::Error) -> Error {
    Error::Capture {
        file: file.to_owned(),
        source,
    }
}

/// Frames that have been dissected.
#[derive(Default)]
struct Batch {
    packets: Vec<Dissected>,
    /// Interfaces that appear for the first time.
    names: Vec<&'static str>,
    position: u64,
    /// How many of the packets are copies.
    copies: u64,
    ended: Option<Result<(), fathom_capture::Error>>,
}

impl Batch {
    fn end() -> Self {
        Self {
            ended: Some(Ok(())),
            ..Self::default()
        }
    }
}

struct FrameReader {
    reader: Reader,
    /// Interfaces that have appeared.
    names: Vec<&'static str>,
    file: &'static str,
    /// `None`: they are kept.
    copies: Option<Copies>,
}

impl FrameReader {
    fn fill(&mut self, dissector: &Dissector, batch: &mut Batch) {
        batch.packets.clear();
        batch.names.clear();
        while batch.packets.len() < BATCH {
            let interface = match self.reader.next_packet() {
                Ok(Some(packet)) => {
                    batch
                        .packets
                        .push(dissector.dissect(packet.time_ns, &frame_of(&packet)));
                    packet.interface as usize
                }
                Ok(None) => {
                    batch.ended = Some(Ok(()));
                    break;
                }
                Err(error) => {
                    batch.ended = Some(Err(error));
                    break;
                }
            };
            while self.names.len() <= interface {
                let name = self.reader.interface_name(self.names.len() as u32);
                let name = name.map_or(self.file, interned);
                self.names.push(name);
                batch.names.push(name);
            }
        }
        batch.position = self.reader.stored_position();
        let copies = self.copies.as_mut();
        batch.copies = copies.map_or(0, |copies| copies.mark(&mut batch.packets));
    }
}

/// The interfaces of a file: those of a pcapng by their names, else the file.
struct Names {
    file: &'static str,
    interfaces: Vec<&'static str>,
}

impl Interfaces for Names {
    fn name(&self, interface: u32) -> &'static str {
        self.interfaces
            .get(interface as usize)
            .copied()
            .unwrap_or(self.file)
    }
}

/// Names that are kept: of interfaces that come and go with containers there may be more in the
/// end.
const MOST_NAMES: usize = 1 << 16;

/// Names of interfaces and files live as long as the process: every record carries one.
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    if names.len() >= MOST_NAMES {
        return "(one of too many names)";
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

fn frame_of<'a>(packet: &Packet<'a>) -> Frame<'a> {
    let link = match packet.link_type {
        LinkType::ETHERNET => native::PACKET_LINK_ETHERNET,
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => native::PACKET_LINK_IP,
        LinkType::LINUX_SLL => native::PACKET_LINK_COOKED,
        LinkType::LINUX_SLL2 => native::PACKET_LINK_COOKED_V2,
        LinkType::NULL | LinkType::LOOP => native::PACKET_LINK_NULL,
        LinkType::PPP | LinkType::PPP_HDLC | LinkType::C_HDLC => native::PACKET_LINK_PPP,
        LinkType::PPP_WITH_DIRECTION => native::PACKET_LINK_PPP_DIRECTED,
        LinkType::PPP_ETHERNET => native::PACKET_LINK_PPPOE,
        _ => native::PACKET_LINK_UNKNOWN,
    };
    Frame {
        link,
        interface: packet.interface,
        length: packet.length,
        data: packet.data,
    }
}
