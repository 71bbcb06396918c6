//! Hosts on one switch, as servers and their balancer stand in a rack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Namespace, Result};

/// Hosts that reach each other over one Ethernet segment.
///
/// ```text
///   host 0      host 1      host 2  …
///    eth0        eth0        eth0
///  10.78.0.1   10.78.0.2   10.78.0.3
///   fd78::1     fd78::2     fd78::3
///      └───────────┴─ switch ──┘
/// ```
///
/// Packets are as on a wire: nothing is left to offloads. XDP must be attached in its generic mode:
/// what a veth's own sends back (`XDP_TX`) waits until another packet passes, unless the other end
/// has a program too.
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
    /// Where the bridge is.
    bridge: Namespace,
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
        let hosts = names.iter().map(|name| Namespace::new(name));
        let switch = Self {
            hosts: hosts.collect::<Result<_>>()?,
            bridge,
        };
        for host in 0..switch.hosts.len() {
            switch.plug(host)?;
        }
        Ok(switch)
    }

    /// Gives a host its interface: at the beginning, and after the test has deleted it.
    ///
    /// # Errors
    /// When it has one.
    pub fn plug(&self, host: usize) -> Result<()> {
        let (index, host) = (host, &self.hosts[host]);
        let port = format!("port{index}");
        host.connect(Self::INTERFACE, &self.bridge, &port)?;
        self.bridge
            .run(&format!("ip link set {port} master bridge0"))?;
        // What XDP passes on keeps no note of a checksum that is still to be made, nor of segments
        // that are still to be cut.
        self.bridge.set_offloads(&port, false)?;
        host.set_offloads(Self::INTERFACE, false)?;
        host.add_address(Self::INTERFACE, &format!("{}/24", Self::address(index)))?;
        host.add_address(Self::INTERFACE, &format!("{}/64", Self::address_v6(index)))?;
        // Who asks for a neighbour on behalf of an address that it has adopted, asks from this one.
        host.add_address(Self::INTERFACE, &format!("fe80::{:x}/64", index + 1))
    }

    /// The address of a host.
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, 0, host as u8 + 1)
    }

    /// Its address by IPv6.
    pub fn address_v6(host: usize) -> Ipv6Addr {
        Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, host as u16 + 1)
    }

    /// Lets a host answer for `address` besides its own, without telling anybody (direct server
    /// return).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn adopt(&self, host: usize, address: IpAddr) -> Result<()> {
        let host = &self.hosts[host];
        let bits = if address.is_ipv4() { 32 } else { 128 };
        host.add_address("lo", &format!("{address}/{bits}"))?;
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
        for (own, adopted) in [("10.78.0.2", "10.79.0.1"), ("fd78::2", "fd79::1")] {
            switch.hosts[0]
                .run(&format!("ping -c 1 -W 5 {own}"))
                .unwrap();
            switch.adopt(1, adopted.parse().unwrap()).unwrap();
            switch.hosts[0].add_route(adopted, own).unwrap();
            switch.hosts[0]
                .run(&format!("ping -c 1 -W 5 {adopted}"))
                .unwrap();
        }
    }
}
