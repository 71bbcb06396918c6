//! Where packets are seen that pass: the interfaces that were asked for, as they go and come, and
//! the programs that each needs.

use std::collections::{HashMap, HashSet};

use super::attach::Devices;
use super::interfaces::{Framing, Interface, InterfaceNames, interface_names};
use super::links::{Link, Watch, links};
use super::programs::Programs;
use super::wanted::{Wanted, name_of};
use crate::Error;

/// Where and how to measure.
#[derive(Debug, Clone)]
pub struct Options<S> {
    /// The interfaces: names, which must be there; patterns with `*` and `?`; `any`.
    pub interfaces: Vec<String>,
    /// Use XDP for packets that arrive: earlier, before receive offload, and cheaper where the
    /// driver has it.
    pub has_xdp: bool,
    /// What to measure.
    pub settings: S,
}

/// Interfaces at a time, at most.
const MOST: usize = 1024;

/// Which programs an interface needs.
pub(crate) type ProgramsOf = fn(&Interface) -> Vec<&'static str>;

/// Why an interface is left out, for as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoRoom,
    Error,
}

/// The interfaces that were asked for. Those that are there have the programs attached, until this
/// is dropped.
pub(crate) struct Places {
    wanted: Vec<Wanted>,
    programs_of: ProgramsOf,
    devices: Devices,
    pub(crate) names: InterfaceNames,
    watch: Watch,
    /// Programs that may be needed, and so are loaded.
    loaded: HashSet<&'static str>,
    /// By index.
    refused: HashMap<u32, Refusal>,
    /// How many interfaces have been refused.
    refused_count: u64,
    /// What users are to be told.
    told: Vec<String>,
}

impl Places {
    /// Looks for them; `has_loopback` says whether `any` means the loopback interface, too.
    ///
    /// # Errors
    /// [`Error::NoInterface`] when there is none of a name, [`Error::Unsupported`] when one that
    /// was named carries neither Ethernet nor IP, [`Error::Kernel`] when it cannot be asked for
    /// them.
    pub(crate) fn find(
        interfaces: &[String],
        has_loopback: bool,
        programs_of: ProgramsOf,
    ) -> Result<Self, Error> {
        let wanted = interfaces.iter();
        let mut places = Self {
            wanted: wanted
                .map(|text| Wanted::read(text, has_loopback))
                .collect(),
            programs_of,
            devices: Devices::default(),
            names: InterfaceNames::default(),
            // Before the list, so that nothing is missed in between.
            watch: Watch::open().map_err(cannot_ask)?,
            loaded: HashSet::new(),
            refused: HashMap::new(),
            refused_count: 0,
            told: Vec::new(),
        };
        let links = links().map_err(cannot_ask)?;
        for wanted in &places.wanted {
            if let Wanted::Name(name) = wanted {
                let link = links.iter().find(|link| link.is_called(name));
                let interface = Interface::of(link.ok_or_else(|| no_interface(name))?, name)?;
                places.loaded.extend(programs_of(&interface));
            } else {
                let all = Interface::of_each_framing();
                places.loaded.extend(all.iter().flat_map(programs_of));
            }
        }
        Ok(places)
    }

    /// What is meant twice, or not there yet.
    fn tell_of_wishes(&mut self, links: &[Link]) {
        for (place, wanted) in self.wanted.iter().enumerate() {
            let text = wanted.text();
            let (before, after) = (&self.wanted[..place], &self.wanted[place + 1..]);
            if before.contains(wanted) {
                if !after.contains(wanted) {
                    self.told
                        .push(format!("{text} was named more than once: it is taken once"));
                }
                continue;
            }
            let mut meant = links.iter().filter_map(|link| wanted.name_of(link, links));
            if meant.next().is_none() {
                let such = match wanted {
                    Wanted::Pattern(pattern) => format!(" like {pattern}"),
                    _ => String::new(),
                };
                self.told.push(format!(
                    "there is no interface{such} yet: those that come are taken"
                ));
            }
        }
    }

    /// Is this program attached to any, or may it be?
    pub(crate) fn need(&self, program: &str) -> bool {
        self.loaded.contains(program)
    }

    /// Attaches to all that are there.
    ///
    /// # Errors
    /// As [`Devices::attach`], of those that were named.
    pub(crate) fn attach(&mut self, programs: &Programs) -> Result<(), Error> {
        let links = links().map_err(cannot_ask)?;
        self.tell_of_wishes(&links);
        for link in &links {
            let Some((name, is_named)) = name_of(&self.wanted, link, &links) else {
                continue;
            };
            let name = name.to_owned();
            if !self.has_room(link, &name) {
                continue;
            }
            match self.add(programs, link, &name) {
                Err(error) if is_named => return Err(error),
                Err(error) => self.refuse(link, &name, &error),
                Ok(()) => {}
            }
        }
        self.devices.prepare()
    }

    fn add(&mut self, programs: &Programs, link: &Link, name: &str) -> Result<(), Error> {
        let interface = Interface::of(link, name)?;
        let needed = (self.programs_of)(&interface);
        if !needed.iter().all(|program| self.loaded.contains(program)) {
            let (now, before) = match interface.framing {
                Framing::Ethernet => ("Ethernet", "bare IP"),
                Framing::Ip => ("bare IP", "Ethernet"),
            };
            return Err(Error::Unsupported {
                needs: format!("the interfaces that were named carried {before} at the start"),
                found: format!("{name} carries {now} now"),
                remedy: "start anew".to_owned(),
            });
        }
        self.devices.attach(programs, &needed, &interface)?;
        self.names.add(&interface);
        Ok(())
    }

    /// Is there room for one more? If not, this one is left out, which is told of the first.
    fn has_room(&mut self, link: &Link, name: &str) -> bool {
        if self.devices.len() < MOST {
            return true;
        }
        if self
            .refused
            .values()
            .all(|refusal| *refusal != Refusal::NoRoom)
        {
            self.told.push(format!(
                "{name} is left out, and what else comes: {MOST} interfaces at a time are the most"
            ));
        }
        self.refused.insert(link.index, Refusal::NoRoom);
        self.refused_count += 1;
        false
    }

    fn refuse(&mut self, link: &Link, name: &str, error: &Error) {
        self.refused.insert(link.index, Refusal::Error);
        self.refused_count += 1;
        let first: &dyn std::error::Error = error;
        let causes = std::iter::successors(Some(first), |error| error.source());
        let causes: Vec<_> = causes.map(ToString::to_string).collect();
        self.told
            .push(format!("{name} is left out: {}", causes.join(": ")));
    }

    /// Lets go of interfaces that have gone, and takes those that have come. Does not wait. Returns
    /// the indices of those that have gone; `None` if nothing has changed, not even an address.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it does not tell of changes any more.
    pub(crate) fn follow(&mut self, programs: &Programs) -> Result<Option<Vec<u32>>, Error> {
        let news = self.watch.look().map_err(cannot_ask)?;
        if !news.has_changes {
            return Ok(None);
        }
        let links = links().map_err(cannot_ask)?;
        let is_there = |index: u32| {
            let is_it = |link: &Link| link.index == index;
            !news.gone.contains(&index) && links.iter().any(is_it)
        };
        let wanted = &self.wanted;
        let gone = self.devices.release(|interface| {
            let link = links.iter().find(|link| link.index == interface.index);
            let name = link.and_then(|link| name_of(wanted, link, &links));
            is_there(interface.index) && name.is_some_and(|(name, _)| interface.is_called(name))
        });
        for interface in &gone {
            self.tell_of_end(interface, &links);
        }
        let has_room = !gone.is_empty();
        self.refused.retain(|index, refusal| {
            is_there(*index) && !(has_room && *refusal == Refusal::NoRoom)
        });
        for link in &links {
            self.take_new(programs, link, &links);
        }
        self.names.keep(|index| self.devices.has(index));
        Ok(Some(gone.iter().map(|interface| interface.index).collect()))
    }

    fn tell_of_end(&mut self, interface: &Interface, links: &[Link]) {
        let name = interface.name;
        let mut wanted = self.wanted.iter();
        let is_there = |link: &Link| link.index == interface.index && link.is_called(name);
        self.told.push(
            if wanted.any(|wanted| matches!(wanted, Wanted::Name(own) if own == name)) {
                format!("{name} has disappeared: it is waited for")
            } else if links.iter().any(is_there) {
                format!("{name} is left out from now on: others show its packets")
            } else {
                format!("{name} has disappeared")
            },
        );
    }

    fn take_new(&mut self, programs: &Programs, link: &Link, links: &[Link]) {
        if self.refused.contains_key(&link.index) || self.devices.has(link.index) {
            return;
        }
        let Some((name, is_named)) = name_of(&self.wanted, link, links) else {
            return;
        };
        let name = name.to_owned();
        if !self.has_room(link, &name) {
            return;
        }
        match self.add(programs, link, &name) {
            Ok(()) if is_named => self.told.push(format!("{name} is back")),
            Ok(()) => self.told.push(format!("{name} has come")),
            // It has gone again, which is told next time.
            Err(error) if is_gone(&error) => {}
            Err(error) => self.refuse(link, &name, &error),
        }
    }

    /// What users are to be told since the last call.
    pub(crate) fn take_told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// How many interfaces that were asked for could not be measured.
    pub(crate) fn refused(&self) -> u64 {
        self.refused_count
    }

    /// One line an interface: how the programs are attached, for people.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        self.devices.describe()
    }

    /// Detaches from all.
    pub(crate) fn clear(&mut self) {
        self.devices.release(|_| false);
    }
}

fn no_interface(name: &str) -> Error {
    Error::NoInterface {
        name: name.to_owned(),
        known: interface_names().join(", "),
    }
}

fn cannot_ask(error: std::io::Error) -> Error {
    Error::kernel("ask the kernel for its interfaces", error)
}

fn is_gone(error: &Error) -> bool {
    let Error::Kernel { source, .. } = error else {
        return false;
    };
    let cause = source.downcast_ref::<std::io::Error>();
    cause.and_then(std::io::Error::raw_os_error) == Some(libc::ENODEV)
}
