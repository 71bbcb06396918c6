//! Measuring over capture files.

use std::collections::HashSet;
use std::io::Read;
use std::sync::{LazyLock, Mutex};

use fathom_capture::{LinkType, Packet, Reader};

use crate::native::{self, Frame};
use crate::rtt::{Engine, Interfaces, Report};
use crate::{Aggregator, Error};

/// Runs captures through the engine, one after the other.
pub struct Replay {
    reader: Reader,
    names: Names,
    file: &'static str,
}

/// How the run over one file ended.
#[derive(Debug)]
pub enum Ended {
    /// All of it was read.
    Whole,
    /// It is cut off or damaged at some point; all before was measured.
    Broken(Error),
}

impl Replay {
    /// Opens a capture; `-` is standard input.
    ///
    /// # Errors
    /// [`Error::Capture`] when it cannot be opened or is no capture at all.
    pub fn open(path: &str) -> Result<Self, Error> {
        let file = if path == "-" { "stdin" } else { path };
        let reader = Reader::open(path).map_err(|source| Error::Capture {
            file: file.to_owned(),
            source,
        })?;
        let name = std::path::Path::new(file)
            .file_name()
            .and_then(|name| name.to_str());
        Ok(Self::over(reader, name.unwrap_or(file)))
    }

    /// Reads a capture from any source; `name` stands for it in messages and records.
    ///
    /// # Errors
    /// [`Error::Capture`] when it is no capture at all.
    pub fn from_reader(name: &str, source: impl Read + Send + 'static) -> Result<Self, Error> {
        let reader = Reader::new(source).map_err(|source| Error::Capture {
            file: name.to_owned(),
            source,
        })?;
        Ok(Self::over(reader, name))
    }

    fn over(reader: Reader, name: &str) -> Self {
        let file = interned(name);
        Self {
            reader,
            names: Names {
                file,
                interfaces: Vec::new(),
            },
            file,
        }
    }

    /// Bytes of the file that have been read, compressed as they are.
    pub fn position(&self) -> u64 {
        self.reader.stored_position()
    }

    /// Measures up to `frames` frames. Returns `None` while there is more, then how it ended.
    pub fn run(
        &mut self,
        engine: &mut Engine,
        frames: usize,
        report: &mut impl FnMut(Report),
    ) -> Option<Ended> {
        for _ in 0..frames {
            match self.reader.next_packet() {
                Ok(Some(captured)) => {
                    let (time_ns, interface) = (captured.time_ns, captured.interface);
                    if (interface as usize) < self.names.interfaces.len() {
                        engine.on_frame(time_ns, &frame_of(&captured), &self.names, report);
                        continue;
                    }
                    // The name is the reader's to tell, which it can when it no longer lends the packet.
                    let data = captured.data.to_vec();
                    let frame = Frame {
                        data: &data,
                        ..frame_of(&Packet {
                            data: &[],
                            ..captured
                        })
                    };
                    self.names.learn(&self.reader, interface);
                    engine.on_frame(time_ns, &frame, &self.names, report);
                }
                Ok(None) => {
                    engine.finish(&self.names, report);
                    return Some(Ended::Whole);
                }
                Err(source) => {
                    engine.finish(&self.names, report);
                    let file = self.file.to_owned();
                    return Some(Ended::Broken(Error::Capture { file, source }));
                }
            }
        }
        None
    }

    /// Hands the traffic of all flows to an aggregator.
    pub fn count_traffic(&self, engine: &Engine, aggregator: &mut Aggregator) {
        engine.count_traffic(aggregator, &self.names);
    }
}

/// The interfaces of a file: those of a pcapng by their names, else the file.
struct Names {
    file: &'static str,
    interfaces: Vec<&'static str>,
}

impl Names {
    #[cold]
    fn learn(&mut self, reader: &Reader, interface: u32) {
        while self.interfaces.len() <= interface as usize {
            let name = reader.interface_name(self.interfaces.len() as u32);
            self.interfaces.push(name.map_or(self.file, interned));
        }
    }
}

impl Interfaces for Names {
    fn name(&self, interface: u32) -> &'static str {
        self.interfaces
            .get(interface as usize)
            .copied()
            .unwrap_or(self.file)
    }
}

/// Names of interfaces and files live as long as the process: there are few, and every record carries one.
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
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
        LinkType::PPP | LinkType::PPP_HDLC => native::PACKET_LINK_PPP,
        _ => native::PACKET_LINK_UNKNOWN,
    };
    Frame {
        link,
        interface: packet.interface,
        length: packet.length,
        data: packet.data,
    }
}
