//! What is remarkable about a hop, as a few words.

use std::sync::Arc;

/// The words, in the order of the bits.
const NAMES: [&str; 9] = [
    "source",
    "destination",
    "ports",
    "dscp",
    "ecn",
    "ttl",
    "mpls",
    "balanced",
    "asymmetric",
];

/// A set of remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u16);

impl Marks {
    /// The source address was translated.
    pub const SOURCE: Self = Self(1);
    /// The destination address was translated.
    pub const DESTINATION: Self = Self(1 << 1);
    /// A port, or the identifier of an echo, was translated.
    pub const PORTS: Self = Self(1 << 2);
    /// The differentiated services code point was changed (RFC 2474).
    pub const DSCP: Self = Self(1 << 3);
    /// The congestion notification bits were changed (RFC 3168): cleared, or set by a router that
    /// is congested.
    pub const ECN: Self = Self(1 << 4);
    /// The TTL at which the router gave up was neither 1 nor 0: somebody before it did not count,
    /// as MPLS tunnels do not.
    pub const TTL: Self = Self(1 << 5);
    /// It was inside MPLS.
    pub const MPLS: Self = Self(1 << 6);
    /// Routers take turns at this hop, packet by packet.
    pub const BALANCED: Self = Self(1 << 7);
    /// Its answers seem to pass more or fewer routers on the way back than there are on the way
    /// there.
    pub const ASYMMETRIC: Self = Self(1 << 8);

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The other set, if it is so.
    #[must_use]
    pub const fn with_if(self, other: Self, is_so: bool) -> Self {
        if is_so { self.with(other) } else { self }
    }

    /// The words with spaces between; `None` where there are none.
    pub fn text(self) -> Option<Arc<str>> {
        let set = NAMES.iter().enumerate();
        let words: Vec<&str> = set
            .filter(|(bit, _)| self.0 >> bit & 1 != 0)
            .map(|(_, name)| *name)
            .collect();
        (!words.is_empty()).then(|| words.join(" ").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_as_words() {
        assert_eq!(Marks::default().text(), None);
        let marks = Marks::MPLS
            .with(Marks::SOURCE)
            .with_if(Marks::ECN, false)
            .with_if(Marks::BALANCED, true);
        assert_eq!(marks.text().as_deref(), Some("source mpls balanced"));
    }
}
