//! How many ICMP errors the kernel of a namespace sends.

use std::io;

use crate::{Error, Namespace, Result};

/// Setting, its value without a limit, and the value Linux starts with; the masks are those of the
/// types that are limited.
const LIMITS: [(&str, &str, &str); 5] = [
    ("net/ipv4/icmp_ratelimit", "0", "1000"),
    ("net/ipv4/icmp_ratemask", "0", "6168"),
    ("net/ipv4/icmp_msgs_per_sec", "1000000", "1000"),
    ("net/ipv4/icmp_msgs_burst", "1000000", "50"),
    ("net/ipv6/icmp/ratelimit", "0", "1000"),
];

impl Namespace {
    /// Puts the limits that Linux starts with in force: one error in 1000 ms to each destination
    /// after a burst of six, both families, and 1000 a second in all. IPv6 shortens the pause for
    /// destinations whose route is no host route.
    ///
    /// # Errors
    /// As [`Namespace::set`].
    pub fn limit_icmp(&self) -> Result<()> {
        LIMITS
            .iter()
            .try_for_each(|(key, _, usual)| self.set_if_present(key, usual))
    }

    /// Lets the kernel send as many ICMP errors as it is asked for. A kernel before 6.12 still
    /// sends at most 1000 a second in all namespaces together.
    ///
    /// # Errors
    /// As [`Namespace::set`].
    pub fn lift_icmp_limits(&self) -> Result<()> {
        LIMITS
            .iter()
            .try_for_each(|(key, lifted, _)| self.set_if_present(key, lifted))
    }

    /// Older kernels have some limits for the whole machine only, where they are none of a
    /// namespace's business.
    fn set_if_present(&self, key: &str, value: &str) -> Result<()> {
        match self.set(key, value) {
            Err(Error::Setting { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            result => result,
        }
    }
}
