//! A program of somebody else at the way out of interfaces, attached as those of the measurements
//! are.

use libbpf_rs::ProgramMut;

use super::attach::{Hook, Side, attach_traffic};
use super::interfaces::Interface;
use super::janitor::Janitor;
use crate::Error;

/// The interfaces whose outgoing packets go through a program. Dropped, it is gone from there; also
/// when the process is killed.
#[derive(Default)]
pub struct Egress {
    // Dropped in this order: the janitor need not remove what is gone.
    hooks: Vec<(Interface, Hook)>,
    janitor: Option<Janitor>,
}

impl Egress {
    /// Attaches a program; it must have been loaded for
    /// [`libbpf_rs::ProgramAttachType::TcxEgress`]. One that is attached there already stays.
    ///
    /// # Errors
    /// [`Error::NoInterface`] when there is none of that name, [`Error::Kernel`] when the kernel
    /// refuses.
    pub fn attach(&mut self, program: &ProgramMut<'_>, interface: &str) -> Result<(), Error> {
        let interface = Interface::find(interface)?;
        if self
            .hooks
            .iter()
            .any(|(own, _)| own.index == interface.index)
        {
            return Ok(());
        }
        let hook = attach_traffic(program, &interface, Side::Egress, &mut self.janitor)?;
        self.hooks.push((interface, hook));
        Ok(())
    }

    /// Detaches it from all interfaces but those of these numbers.
    pub fn keep(&mut self, interfaces: &[u32]) {
        self.hooks
            .retain(|(interface, _)| interfaces.contains(&interface.index));
    }
}
