//! What the kernel says, taken apart.

use std::ffi::c_char;
use std::mem::offset_of;

use fathom_record::{FlowKey, Protocol};

use crate::bytes::read_prefix;
use crate::flow::address;
use crate::profile::native::{
    self, profile_attempt, profile_meta, profile_moment_of, profile_snapshot,
};

/// One entry of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack, and is handed on by reference"
)]
pub(super) enum Moment {
    /// Only that it happened, and to whom.
    Note(profile_moment_of),
    /// `connect()` was called, or failed before anything was sent.
    Attempt(profile_attempt),
    /// And how the connection stands.
    Snapshot(profile_snapshot),
    /// The same of an MPTCP connection.
    Meta(profile_meta),
}

impl Moment {
    /// Reads the first entry; what is behind it.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let moment = *bytes.get(offset_of!(profile_moment_of, moment))?;
        match u32::from(moment) {
            native::PROFILE_ATTEMPT | native::PROFILE_FAILED => {
                let (attempt, behind) = read_prefix(bytes)?;
                Some((Self::Attempt(attempt), behind))
            }
            native::PROFILE_ESTABLISHED
            | native::PROFILE_LOSSY
            | native::PROFILE_RECOVERED
            | native::PROFILE_CLOSED
            | native::PROFILE_SEEN => {
                let (snapshot, behind) = read_snapshot(bytes)?;
                Some((Self::Snapshot(snapshot), behind))
            }
            native::PROFILE_META_CONNECT
            | native::PROFILE_META_ESTABLISHED
            | native::PROFILE_META_CLOSED
            | native::PROFILE_META_ADDED
            | native::PROFILE_META_REMOVED
            | native::PROFILE_META_LOSSY
            | native::PROFILE_META_RECOVERED
            | native::PROFILE_META_SEEN => {
                let (meta, behind) = read_prefix(bytes)?;
                Some((Self::Meta(meta), behind))
            }
            _ => {
                let (of, behind) = read_prefix(bytes)?;
                Some((Self::Note(of), behind))
            }
        }
    }
}

/// A snapshot, which leaves out where the disorder was where there was none.
fn read_snapshot(bytes: &[u8]) -> Option<(profile_snapshot, &[u8])> {
    const SHORT: usize = offset_of!(profile_snapshot, disorder);
    if *bytes.get(offset_of!(profile_snapshot, has_disorder))? != 0 {
        return read_prefix(bytes);
    }
    let (short, behind) = bytes.split_first_chunk::<SHORT>()?;
    let mut whole = [0; size_of::<profile_snapshot>()];
    whole[..SHORT].copy_from_slice(short);
    let (snapshot, _) = read_prefix(&whole)?;
    Some((snapshot, behind))
}

impl profile_snapshot {
    /// What the process did with the connection before, if it was not told yet.
    pub(super) fn kept(&self) -> Option<profile_moment_of> {
        (self.kept_since != 0).then_some(profile_moment_of {
            time: self.kept_since,
            moment: self.kept_moment,
            ..self.of
        })
    }
}

impl profile_moment_of {
    /// The connection, seen from this host.
    pub(super) fn flow(&self) -> FlowKey {
        FlowKey {
            protocol: Protocol::TCP,
            source: address(&self.local),
            source_port: self.local_port,
            destination: address(&self.remote),
            destination_port: self.remote_port,
        }
    }
}

/// A name as the kernel keeps it: up to the first zero, and what is not UTF-8 made visible.
pub(super) fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name
        .iter()
        .flat_map(|byte| byte.to_ne_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::bytes_of;

    #[test]
    fn a_snapshot_may_leave_its_disorder_away() {
        let mut with = profile_snapshot {
            has_disorder: 1,
            ..profile_snapshot::default()
        };
        with.of.moment = native::PROFILE_CLOSED as u8;
        with.disorder.stalls = 3;
        let mut without = profile_snapshot {
            bytes_sent: 7,
            ..with
        };
        without.has_disorder = 0;
        without.disorder = native::profile_disorder::default();
        let short = &bytes_of(&without)[..offset_of!(profile_snapshot, disorder)];
        let bytes = [short, bytes_of(&with)].concat();
        let (first, behind) = Moment::read(&bytes).unwrap();
        assert_eq!(first, Moment::Snapshot(without));
        let (second, behind) = Moment::read(behind).unwrap();
        assert_eq!(second, Moment::Snapshot(with));
        assert_eq!(Moment::read(behind), None);
        assert_eq!(Moment::read(&short[..short.len() - 1]), None);
    }
}
