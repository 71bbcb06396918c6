//! Where packets are seen that pass: the interfaces, and the programs that each needs.

use super::attach::Devices;
use super::interfaces::{Interface, InterfaceNames};
use super::programs::Programs;
use crate::Error;

/// Where and how to measure.
#[derive(Debug, Clone)]
pub struct Options<S> {
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// Use XDP for packets that arrive: earlier, before receive offload, and cheaper where the driver has it.
    pub has_xdp: bool,
    /// What to measure.
    pub settings: S,
}

/// The interfaces that were named.
pub(crate) struct Places {
    interfaces: Vec<Interface>,
    has_xdp: bool,
}

impl Places {
    /// Finds them.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Unsupported`] when one carries neither Ethernet nor IP, [`Error::Kernel`] when it cannot be asked for.
    pub(crate) fn find<S>(options: &Options<S>) -> Result<Self, Error> {
        let interfaces = options.interfaces.iter().map(|name| Interface::find(name));
        Ok(Self {
            interfaces: interfaces.collect::<Result<_, _>>()?,
            has_xdp: options.has_xdp,
        })
    }

    /// Is this program attached to any?
    pub(crate) fn need(&self, program: &str) -> bool {
        let mut interfaces = self.interfaces.iter();
        interfaces.any(|interface| interface.programs(self.has_xdp).contains(&program))
    }

    /// Attaches to all.
    ///
    /// # Errors
    /// As [`Devices::attach`].
    pub(crate) fn attach(&self, programs: &Programs) -> Result<(Devices, InterfaceNames), Error> {
        let (mut devices, mut names) = (Devices::default(), InterfaceNames::default());
        for interface in &self.interfaces {
            devices.attach(programs, &interface.programs(self.has_xdp), interface)?;
            names.add(interface);
        }
        Ok((devices, names))
    }
}
