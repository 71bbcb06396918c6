//! Which other ends sessions have that are compared.

use std::str::FromStr;

use fathom_record::Network;

/// Towards whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Towards {
    /// Systems, or networks with a name, to which there are sessions over IPv4 and over IPv6.
    DualStack,
    Network(Network),
}

impl FromStr for Towards {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "dual-stack" {
            return Ok(Self::DualStack);
        }
        let network = text.parse().map(Self::Network);
        network
            .map_err(|_| "it is neither dual-stack nor a network such as 192.0.2.0/24".to_owned())
    }
}
