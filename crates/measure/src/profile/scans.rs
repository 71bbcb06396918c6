//! Scans of the sockets of this host: how connections stand, and which are gone though no probe
//! told of their end.

use std::io::Read as _;

use libbpf_rs::{Iter, Link};

use super::namespaces::{other_namespaces, own_number, within};
use crate::Error;
use crate::kernel::monotonic_ns;
use crate::profile::native::profile_snapshot;

/// The kernel's iterator over sockets, and the scans that were made with it.
#[derive(Debug, Default)]
pub(super) struct Scans {
    /// `None` where the kernel has none: then nothing is found.
    pub(super) iterator: Option<Link>,
    has_all_namespaces: bool,
    /// The last but one, and the last.
    last: [Scan; 2],
}

/// A scan of all sockets of some network namespaces.
#[derive(Debug, Default)]
struct Scan {
    start_ns: u64,
    namespaces: Vec<u64>,
}

impl Scans {
    pub(super) fn new(has_all_namespaces: bool) -> Self {
        Self {
            has_all_namespaces,
            ..Self::default()
        }
    }

    /// When the last scan began.
    pub(super) fn last_ns(&self) -> u64 {
        self.last[1].start_ns
    }

    /// Has the kernel tell of all sockets, in the ring.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot.
    pub(super) fn scan(&mut self) -> Result<(), Error> {
        let scan = Scan {
            start_ns: monotonic_ns(),
            namespaces: Vec::new(),
        };
        self.last.swap(0, 1);
        self.last[1] = scan;
        let (Some(iterator), [_, scan]) = (&self.iterator, &mut self.last) else {
            return Ok(());
        };
        look_through(iterator)?;
        scan.namespaces.push(own_number());
        if self.has_all_namespaces {
            for (number, namespace) in other_namespaces() {
                within(&namespace, &|| look_through(iterator))?;
                scan.namespaces.push(number);
            }
        }
        Ok(())
    }

    /// Not all that the last scan found has arrived.
    pub(super) fn doubt(&mut self) {
        self.last[1].namespaces.clear();
    }

    /// Would the last two scans have found this connection, and did not? `latest` is how it stood
    /// when it was last heard of. One scan may miss a socket that moves meanwhile.
    pub(super) fn is_gone(&self, latest: &profile_snapshot) -> bool {
        let number = u64::from(latest.net_namespace);
        let mut scans = self.last.iter();
        scans.all(|scan| latest.of.time < scan.start_ns && scan.namespaces.contains(&number))
    }
}

fn look_through(iterator: &Link) -> Result<(), Error> {
    let mut iterator =
        Iter::new(iterator).map_err(|error| Error::kernel("look through the sockets", error))?;
    let mut nothing = [0; 64];
    loop {
        match iterator.read(&mut nothing) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(Error::kernel("look through the sockets", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: u32 = 4_026_531_840;

    #[test]
    fn what_two_looks_did_not_find_is_gone() {
        let scan = |start_ns| Scan {
            start_ns,
            namespaces: vec![NAMESPACE.into()],
        };
        let mut scans = Scans::new(false);
        let mut latest = profile_snapshot {
            net_namespace: NAMESPACE,
            ..profile_snapshot::default()
        };
        latest.of.time = 10;
        scans.last = [scan(10), scan(20)];
        assert!(!scans.is_gone(&latest));
        scans.last = [scan(11), scan(20)];
        assert!(scans.is_gone(&latest));
        latest.net_namespace += 1;
        assert!(!scans.is_gone(&latest));
        latest.net_namespace -= 1;
        scans.doubt();
        assert!(!scans.is_gone(&latest));
    }
}
