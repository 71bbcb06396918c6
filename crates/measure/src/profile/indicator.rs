//! What profiles may lack on a kernel.

/// A group of numbers in profiles that stand and fall with one probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indicator {
    /// States, times, errors and all that the stack counts.
    Connections,
    /// Retransmission timeouts, lossy and recovered.
    Stalls,
    /// Attempts that found no route.
    Attempts,
    /// The process of a server and the time in the accept queue.
    Acceptance,
    /// Segments that had been received whole.
    Duplicates,
    /// Bytes and distances of segments out of order, and partial duplicates.
    Disorder,
    /// Segments with a wrong checksum.
    Checksums,
    /// The mean and variance of round trips.
    RoundTrips,
    /// MPTCP connections.
    Mptcp,
    /// Their bytes; those of their subflows are in [`Self::Connections`].
    MptcpBytes,
    /// Their stalls and recoveries.
    MptcpStalls,
    /// What no kernel counts for a connection of MPTCP.
    MptcpData,
    /// Connections that were there before, periodic profiles, the last ones.
    Existing,
    /// DNS exchanges at port 53.
    Dns,
    /// Time in `getaddrinfo`.
    Lookups,
}

impl Indicator {
    /// All.
    pub const ALL: [Self; 15] = [
        Self::Connections,
        Self::Stalls,
        Self::Attempts,
        Self::Acceptance,
        Self::Duplicates,
        Self::Disorder,
        Self::Checksums,
        Self::RoundTrips,
        Self::Mptcp,
        Self::MptcpBytes,
        Self::MptcpStalls,
        Self::MptcpData,
        Self::Existing,
        Self::Dns,
        Self::Lookups,
    ];

    /// Whether only profiles of MPTCP lack it.
    pub fn is_of_mptcp(self) -> bool {
        matches!(
            self,
            Self::Mptcp | Self::MptcpBytes | Self::MptcpStalls | Self::MptcpData
        )
    }

    /// What it is, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Connections => "connections, their states and what the stack counts",
            Self::Stalls => "stalls and recoveries",
            Self::Attempts => "attempts that find no route",
            Self::Acceptance => "process and accept-queue time of servers",
            Self::Duplicates => "duplicates received",
            Self::Disorder => "bytes and distances out of order, partial duplicates",
            Self::Checksums => "checksum errors",
            Self::RoundTrips => "mean and variance of round trips",
            Self::Mptcp => "MPTCP connections and their subflows",
            Self::MptcpBytes => "bytes of MPTCP connections, also reinjected",
            Self::MptcpStalls => "stalls of MPTCP connections (head-of-line blocking)",
            Self::MptcpData => "packets reinjected and data out of order of MPTCP connections",
            Self::Existing => "existing connections, periodic profiles",
            Self::Dns => "DNS exchanges at port 53, over UDP and TCP",
            Self::Lookups => {
                "time in getaddrinfo of glibc and musl (not of static programs, nor of those with resolvers of their own)"
            }
        }
    }
}

/// What this kernel can tell, and how to read it.
#[derive(Debug, Clone)]
pub(crate) struct Capabilities {
    /// What profiles come without.
    pub(crate) missing: Vec<Indicator>,
    /// Length of a jiffy.
    pub(crate) jiffy_ns: u64,
}

impl Capabilities {
    /// Whether profiles have this.
    pub(super) fn can(&self, indicator: Indicator) -> bool {
        !self.missing.contains(&indicator)
    }
}
