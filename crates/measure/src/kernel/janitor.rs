//! Kernels before 6.6 have no links for traffic-control programs: a filter would outlive a killed
//! process. So a second process waits for the end of this one, whatever ends it, and then removes
//! the filters.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::filter::FilterPlace;

/// The process that waits. Dropped after the filters are gone, it ends without doing anything.
pub(crate) struct Janitor {
    lifeline: File,
}

/// What is written before an orderly end; without it the lifeline just breaks.
const ALL_CLEAN: u8 = 1;

impl Janitor {
    /// Starts it. The filters need not be attached yet: it is told of them as they come.
    pub(super) fn start() -> Result<Self, Error> {
        let mut ends = [0; 2];
        #[expect(unsafe_code, reason = "std can neither make a bare pipe nor fork")]
        // SAFETY: the array has room for two descriptors, which are owned once each. The child only
        // reads, detaches and exits. Where this process has other threads (`fathom doctor`), the
        // only lock that the child takes is that of the allocator, which the C library frees in it.
        unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return Err(Error::last_os_error());
            }
            let reading = File::from(OwnedFd::from_raw_fd(ends[0]));
            let lifeline = File::from(OwnedFd::from_raw_fd(ends[1]));
            match libc::fork() {
                -1 => Err(Error::last_os_error()),
                0 => {
                    drop(lifeline);
                    wait(reading);
                    libc::_exit(0);
                }
                _ => Ok(Self { lifeline }),
            }
        }
    }

    /// Entrusts a filter to it; told of it again, it is rid of it.
    pub(super) fn watch(&mut self, place: &FilterPlace) -> Result<(), Error> {
        self.lifeline.write_all(&place.to_bytes())
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // If it is gone there is nobody to tell.
        let _ = self.lifeline.write_all(&[ALL_CLEAN]);
    }
}

#[expect(unsafe_code, reason = "a descriptor becomes a file")]
fn standard_input() -> File {
    // SAFETY: the caller has just put the lifeline there, and nothing else in this process uses it.
    unsafe { File::from(OwnedFd::from_raw_fd(0)) }
}

/// The life of the second process.
fn wait(mut lifeline: File) {
    #[expect(unsafe_code, reason = "std cannot leave a session nor ignore signals")]
    // SAFETY: both only change this process. Neither a Ctrl-C at the terminal must end it before
    // its time, nor a service manager that signals to all processes of a service: SIGABRT is what
    // systemd's watchdog sends.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGABRT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"fathom-janitor".as_ptr());
        // Whatever the parent has open must end with it: its output, its programs, its maps.
        libc::dup2(lifeline.as_raw_fd(), 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
    }
    std::mem::forget(std::mem::replace(&mut lifeline, standard_input()));
    let mut kept = Kept::default();
    let mut buffer = [0; 64 * FilterPlace::SIZE];
    loop {
        match lifeline.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => kept.take(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
    if kept.rest != [ALL_CLEAN] {
        kept.places.into_iter().for_each(FilterPlace::remove);
    }
}

/// What the process was told.
#[derive(Default)]
struct Kept {
    /// Filters that are there.
    places: Vec<FilterPlace>,
    /// What came last, and is no whole place.
    rest: Vec<u8>,
}

impl Kept {
    fn take(&mut self, told: &[u8]) {
        self.rest.extend_from_slice(told);
        let (places, rest) = self.rest.as_chunks::<{ FilterPlace::SIZE }>();
        for place in places {
            let place = FilterPlace::from_bytes(place);
            let known = self.places.iter().position(|known| *known == place);
            match known {
                Some(known) => drop(self.places.swap_remove(known)),
                None => self.places.push(place),
            }
        }
        self.rest = rest.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_told_of_again_is_forgotten() {
        let place = |interface: u32| {
            let mut bytes = [0; FilterPlace::SIZE];
            bytes[..4].copy_from_slice(&interface.to_ne_bytes());
            bytes
        };
        let told = [place(1), place(2), place(1)].concat();
        let mut kept = Kept::default();
        for bytes in told.chunks(7) {
            kept.take(bytes);
        }
        assert!(kept.places == [FilterPlace::from_bytes(&place(2))]);
        assert!(kept.rest.is_empty());
        kept.take(&[ALL_CLEAN]);
        assert_eq!(kept.rest, [ALL_CLEAN]);
    }
}
