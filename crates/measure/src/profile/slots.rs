//! What the kernel keeps of connections until it next tells of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::flow::flow_address_of;
use crate::kernel::{Programs, Table};
use crate::profile::native::{PROFILE_SLOTS, profile_attempt, profile_moment_of, profile_slot};

/// The kernel's table, in which a connection has its slot by its number.
#[derive(Debug)]
pub(super) struct Slots {
    shared: Table<profile_slot>,
    copy: Vec<profile_slot>,
}

impl Slots {
    /// Finds the table, and shares its memory: to ask for 4,096 values takes ten times as long as
    /// to copy them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be had.
    pub(super) fn open(programs: &Programs) -> Result<Self, Error> {
        Ok(Self {
            shared: Table::open(&programs.map("profile_slots")?)?,
            copy: vec![profile_slot::default(); PROFILE_SLOTS as usize],
        })
    }

    /// The table as it is now. A slot that the kernel writes to meanwhile may be half of each;
    /// those that are looked for have not been written to for a second.
    pub(super) fn read(&mut self) -> &[profile_slot] {
        self.shared.copy(&mut self.copy);
        &self.copy
    }
}

impl profile_slot {
    /// The slot of a connection among all, if it has one.
    pub(super) fn find(slots: &[Self], connection: u64) -> Option<&Self> {
        let slot = slots.get((connection % u64::from(PROFILE_SLOTS)) as usize)?;
        (slot.connection == connection).then_some(slot)
    }

    /// What the process did with the connection, as the ring would have told it.
    pub(super) fn told(&self) -> profile_moment_of {
        profile_moment_of {
            time: self.since,
            connection: self.connection,
            moment: self.moment,
            is_ipv6: self.is_ipv6,
            local: flow_address_of(self.unspecified()),
            remote: self.remote,
            remote_port: self.remote_port,
            process_id: self.process_id,
            process: self.process,
            ..profile_moment_of::default()
        }
    }

    /// The address of a socket that has none yet.
    fn unspecified(&self) -> IpAddr {
        match self.is_ipv6 {
            0 => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The attempt that it holds, as the ring would have told it.
    pub(super) fn attempt(&self) -> profile_attempt {
        profile_attempt {
            of: self.told(),
            cgroup: self.cgroup,
            net_namespace: self.net_namespace,
            padding: 0,
        }
    }

    /// Is it still to be told of, and what?
    pub(super) fn holds(&self, moment: u32) -> bool {
        self.since != 0 && u32::from(self.moment) == moment
    }
}
