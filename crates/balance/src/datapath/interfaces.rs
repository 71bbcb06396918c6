//! The interfaces where packets of clients arrive.

use libbpf_rs::Link;
use nix::net::if_::if_nametoindex;

use super::object::Program;
use super::pins::Pins;
use super::routes::Routes;
use crate::Error;
use crate::config::Config;

#[derive(Default)]
pub(super) struct Interfaces {
    /// In the order of the configuration.
    indexes: Vec<u32>,
    links: Vec<Link>,
}

impl Interfaces {
    /// Finds those of a configuration.
    pub(super) fn plan(&mut self, config: &Config) -> Result<(), Error> {
        let indexes = config.interfaces.iter().map(|name| {
            if_nametoindex(name.as_str()).map_err(|_| Error::NoInterface { name: name.clone() })
        });
        self.indexes = indexes.collect::<Result<_, _>>()?;
        Ok(())
    }

    pub(super) fn indexes(&self) -> &[u32] {
        &self.indexes
    }

    /// Has the packets of all of them go through the program, and those of no other.
    pub(super) fn attach(
        &mut self,
        config: &Config,
        program: &Program,
        pins: &Pins,
        routes: &mut Routes,
    ) -> Result<(), Error> {
        self.links.clear();
        for interface in &self.indexes {
            let mode = routes.mode(*interface, config.mode)?;
            self.links.push(program.attach(pins, *interface, mode)?);
        }
        for interface in pins.links() {
            if !self.indexes.contains(&interface) {
                let path = pins.link(interface);
                std::fs::remove_file(&path)
                    .map_err(|error| Error::kernel(format!("remove {}", path.display()), error))?;
            }
        }
        Ok(())
    }

    /// Attaches to those that have come back by another number, or come at last. Returns what
    /// people are to know.
    pub(super) fn follow(
        &mut self,
        config: &Config,
        program: &Program,
        pins: &Pins,
        routes: &mut Routes,
    ) -> Result<Vec<String>, Error> {
        let mut messages = Vec::new();
        for (before, name) in self.indexes.iter_mut().zip(&config.interfaces) {
            let Ok(index) = if_nametoindex(name.as_str()) else {
                continue;
            };
            if index == *before {
                continue;
            }
            let mode = routes.mode(index, config.mode)?;
            messages.push(match program.attach(pins, index, mode) {
                Ok(link) => {
                    self.links.push(link);
                    // Of an interface that is no more.
                    let _ = std::fs::remove_file(pins.link(*before));
                    *before = index;
                    format!("interface {name} is back")
                }
                Err(error) => format!("interface {name} is back, and not used: {error}"),
            });
        }
        Ok(messages)
    }
}
