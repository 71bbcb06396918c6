//! What is in the way.

use std::net::IpAddr;

/// Why a server cannot be reached, or checks of a service cannot leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no route.
    NoRoute,
    /// It is this machine's own address.
    Local,
    /// Its route goes through an interface without Ethernet.
    NoEthernet,
    /// Packets of checks that leave there cannot be given their headers.
    Refused(String),
    /// The neighbour has not answered yet; it is being asked.
    Unresolved(IpAddr),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRoute => formatter.write_str("there is no route to it: see `ip route get`"),
            Self::Refused(why) => write!(
                formatter,
                "the kernel takes no program where they leave: {why}"
            ),
            Self::Local => formatter.write_str("it is an address of this machine"),
            Self::NoEthernet => formatter.write_str("the route to it has no Ethernet"),
            Self::Unresolved(neighbour) => {
                write!(
                    formatter,
                    "{neighbour} does not answer ARP or neighbour solicitations"
                )
            }
        }
    }
}
