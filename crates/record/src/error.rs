//! What can go wrong in this crate: only the reading of names and numbers that people type.

/// A text that does not name what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is neither a known protocol name nor a number from 0 to 255.
    #[error("`{text}` is not a protocol: use tcp, udp, icmp, icmpv6 or a number from 0 to 255")]
    Protocol {
        /// What was to be read.
        text: String,
    },
    /// The text is not `ADDRESS` or `ADDRESS/LENGTH`.
    #[error(
        "`{text}` is not a network: use an address with a prefix length, as in 10.0.0.0/8 or 2001:db8::/32"
    )]
    Network {
        /// What was to be read.
        text: String,
    },
    /// The prefix is longer than the address.
    #[error("a prefix of {length} bits does not fit {address}: at most {longest}")]
    PrefixLength {
        /// The address the prefix was to be taken of.
        address: std::net::IpAddr,
        /// The prefix length asked for, in bits.
        length: u8,
        /// The longest that fits, in bits: 32 for IPv4, 128 for IPv6.
        longest: u8,
    },
    /// A line of a table of networks is none.
    #[error("line {line}: {why}")]
    NetworkName {
        /// Its number, from 1 on.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The text names no output format.
    #[error("`{text}` is not an output format: use text, json or csv")]
    Format {
        /// What was to be read.
        text: String,
    },
}
