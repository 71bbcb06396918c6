//! Hosts on one switch, as servers and their balancer stand in a rack.

use std::net::Ipv4Addr;

use crate::{Namespace, Result};

/// Hosts that reach each other over one Ethernet segment.
///
/// ```text
///   host 0      host 1      host 2  …
///    eth0        eth0        eth0
///  10.78.0.1   10.78.0.2   10.78.0.3
///      └───────────┴─ switch ──┘
/// ```
///
/// Everybody knows everybody's hardware address from the start, so that no ARP passes. XDP must be attached in its generic mode: what a veth's own
/// sends back (`XDP_TX`) waits until another packet passes, unless the other end has a program too.
///
/// # Examples
/// ```no_run
/// use fathom_lab::Switch;
/// let switch = Switch::new(&["client", "balancer", "server"])?;
/// println!("{}", switch.hosts[0].run("ping -c 3 10.78.0.3")?);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Switch {
    /// In the order of their names.
    pub hosts: Vec<Namespace>,
    /// Holds the bridge.
    _bridge: Namespace,
}

impl Switch {
    /// The interface of each host.
    pub const INTERFACE: &str = "eth0";

    /// Creates so many hosts, with these names.
    ///
    /// # Errors
    /// As [`Namespace::new`], and when the kernel has no bridges.
    pub fn new(names: &[&str]) -> Result<Self> {
        let bridge = Namespace::new("switch")?;
        bridge.run("ip link add bridge0 type bridge")?;
        bridge.run("ip link set bridge0 up")?;
        let mut hosts = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let host = Namespace::new(name)?;
            let port = format!("port{index}");
            host.connect(Self::INTERFACE, &bridge, &port)?;
            host.run(&format!(
                "ip link set {} address {}",
                Self::INTERFACE,
                Self::hardware_address(index)
            ))?;
            // Packets as on a wire: what XDP passes on keeps no note of a checksum that is still to be made.
            host.set_offloads(Self::INTERFACE, false)?;
            bridge.run(&format!("ip link set {port} master bridge0"))?;
            host.add_address(Self::INTERFACE, &format!("{}/24", Self::address(index)))?;
            hosts.push(host);
        }
        for (own, host) in hosts.iter().enumerate() {
            for other in (0..hosts.len()).filter(|&other| other != own) {
                host.run(&format!(
                    "ip neigh replace {} lladdr {} dev {} nud permanent",
                    Self::address(other),
                    Self::hardware_address(other),
                    Self::INTERFACE
                ))?;
            }
        }
        Ok(Self {
            hosts,
            _bridge: bridge,
        })
    }

    /// The address of a host.
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, 0, host as u8 + 1)
    }

    /// The Ethernet address of a host.
    pub fn hardware_address(host: usize) -> String {
        format!("02:00:0a:4e:00:{:02x}", host + 1)
    }

    /// Lets a host answer for `address` besides its own, without telling anybody (direct server return).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn adopt(&self, host: usize, address: Ipv4Addr) -> Result<()> {
        let host = &self.hosts[host];
        host.add_address("lo", &format!("{address}/32"))?;
        host.set("net/ipv4/conf/all/arp_ignore", "1")?;
        host.set("net/ipv4/conf/all/arp_announce", "2")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_reach_each_other_and_what_they_adopt() {
        if let Some(why) = crate::obstacle() {
            println!("skipped: {why}");
            return;
        }
        let switch = Switch::new(&["first", "second"]).unwrap();
        switch.hosts[0].run("ping -c 1 -W 5 10.78.0.2").unwrap();
        switch.adopt(1, Ipv4Addr::new(10, 79, 0, 1)).unwrap();
        switch.hosts[0].add_route("10.79.0.1", "10.78.0.2").unwrap();
        switch.hosts[0].run("ping -c 1 -W 5 10.79.0.1").unwrap();
    }
}
