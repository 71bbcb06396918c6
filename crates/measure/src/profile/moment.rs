//! What the kernel says, taken apart.

use std::ffi::c_char;

use fathom_record::{FlowKey, Protocol};

use crate::live::read_prefix;
use crate::native::{self, profile_meta, profile_moment_of, profile_snapshot};

/// One entry of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// Only that it happened, and to whom.
    Note(profile_moment_of),
    /// And how the connection stands.
    Snapshot(Box<profile_snapshot>),
    /// The same of an MPTCP connection.
    Meta(Box<profile_meta>),
}

impl Moment {
    /// Reads the first entry; what is behind it.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (of, behind) = read_prefix::<profile_moment_of>(bytes)?;
        match u32::from(of.moment) {
            native::PROFILE_ESTABLISHED
            | native::PROFILE_LOSSY
            | native::PROFILE_RECOVERED
            | native::PROFILE_CLOSED
            | native::PROFILE_SEEN => {
                let (snapshot, behind) = read_prefix(bytes)?;
                Some((Self::Snapshot(Box::new(snapshot)), behind))
            }
            native::PROFILE_META_CONNECT
            | native::PROFILE_META_ESTABLISHED
            | native::PROFILE_META_CLOSED => {
                let (meta, behind) = read_prefix(bytes)?;
                Some((Self::Meta(Box::new(meta)), behind))
            }
            _ => Some((Self::Note(of), behind)),
        }
    }
}

impl profile_moment_of {
    /// The connection, seen from this host.
    pub(super) fn flow(&self) -> FlowKey {
        FlowKey {
            protocol: Protocol::TCP,
            source: native::address(&self.local),
            source_port: self.local_port,
            destination: native::address(&self.remote),
            destination_port: self.remote_port,
        }
    }
}

/// A name as the kernel keeps it: up to the first zero, and what is not UTF-8 made visible.
pub(super) fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name
        .iter()
        .map(|byte| byte.cast_unsigned())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
