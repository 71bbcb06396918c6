//! Names and addresses of a chain.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most routers in a row, not counting those of branches.
pub(super) const MAXIMUM_ROUTERS: usize = 8;
/// Most branches of a chain.
pub(super) const MAXIMUM_BRANCHES: usize = 8;
/// Most routers of one branch.
pub(super) const MAXIMUM_BRANCH_ROUTERS: usize = 2;
/// The number of the way that is no branch.
pub(super) const MAIN: usize = 0;
/// Second octet of the IPv4 networks of the main way; the others follow.
const MAIN_OCTET: usize = 78;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family of `address`.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    /// The option of the `ip` command.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// Length of the prefix of one address.
    pub(super) fn host_bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// A link by its place: how many links of its way lie before it, from the client, and the way's
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) branch: usize,
    pub(super) number: usize,
}

impl Place {
    pub(super) fn main(number: usize) -> Self {
        Self {
            branch: MAIN,
            number,
        }
    }

    /// The address of the end on the client's side.
    pub(super) fn near(self, family: Family) -> IpAddr {
        self.address(family, 1)
    }

    /// The address of the end on the server's side.
    pub(super) fn far(self, family: Family) -> IpAddr {
        self.address(family, 2)
    }

    /// The name of the routers' interfaces at both ends.
    pub(super) fn interface(self) -> String {
        match self.branch {
            MAIN => format!("link{}", self.number),
            branch => format!("link{}-{branch}", self.number),
        }
    }

    fn address(self, family: Family, host: u8) -> IpAddr {
        let Self { branch, number } = self;
        match family {
            Family::V4 => Ipv4Addr::new(10, (MAIN_OCTET + branch) as u8, number as u8, host).into(),
            Family::V6 => Ipv6Addr::new(
                0xfd78,
                number as u16,
                branch as u16,
                0,
                0,
                0,
                0,
                host.into(),
            )
            .into(),
        }
    }
}

/// A way past one router of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detour {
    /// The router that is passed.
    pub(super) router: usize,
    /// The number of the way.
    pub(super) branch: usize,
    /// Its routers.
    pub(super) routers: usize,
}

impl Detour {
    /// The way over the router itself.
    pub(super) fn main(router: usize) -> Self {
        Self {
            router,
            branch: MAIN,
            routers: 1,
        }
    }

    /// The links, from the router before to the router behind.
    pub(super) fn links(self) -> impl DoubleEndedIterator<Item = Place> {
        let Self { router, branch, .. } = self;
        (router..=router + self.routers).map(move |number| Place { branch, number })
    }

    /// The first link.
    pub(super) fn first(self) -> Place {
        let Self { router, branch, .. } = self;
        Place {
            branch,
            number: router,
        }
    }

    /// The last link.
    pub(super) fn last(self) -> Place {
        let Self { router, branch, .. } = self;
        Place {
            branch,
            number: router + self.routers,
        }
    }

    /// Who answers at each hop of a chain of `routers` when the traffic goes this way, the server
    /// last.
    pub(super) fn responders(self, routers: usize, family: Family) -> Vec<IpAddr> {
        let before = (1..self.router).map(Place::main);
        let within = self.links().take(self.routers);
        let behind = (self.router + 1..=routers + 1).map(Place::main);
        before
            .chain(within)
            .chain(behind)
            .map(|place| place.far(family))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responders(detour: Detour) -> Vec<String> {
        let addresses = detour.responders(3, Family::V4);
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_hop_answers_from_its_near_interface() {
        let main = ["10.78.1.2", "10.78.2.2", "10.78.3.2", "10.78.4.2"];
        assert_eq!(responders(Detour::main(1)), main);
        assert_eq!(responders(Detour::main(3)), main);
        let branch = |branch, routers| Detour {
            router: 2,
            branch,
            routers,
        };
        let beside = ["10.78.1.2", "10.79.2.2", "10.78.3.2", "10.78.4.2"];
        assert_eq!(responders(branch(1, 1)), beside);
        assert_eq!(
            responders(branch(2, 0)),
            ["10.78.1.2", "10.78.3.2", "10.78.4.2"]
        );
        let longer = [
            "10.78.1.2",
            "10.81.2.2",
            "10.81.3.2",
            "10.78.3.2",
            "10.78.4.2",
        ];
        assert_eq!(responders(branch(3, 2)), longer);
    }

    #[test]
    fn names_and_both_families() {
        let place = Place {
            branch: 2,
            number: 3,
        };
        assert_eq!(place.interface(), "link3-2");
        assert_eq!(place.near(Family::V6).to_string(), "fd78:3:2::1");
        assert_eq!(Place::main(3).far(Family::V6).to_string(), "fd78:3::2");
    }
}
