//! Filters of clsact qdiscs, for kernels before 6.6, which have no links for programs of traffic
//! control.

use std::io::Error;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::ProgramMut;
use libbpf_sys as sys;

use super::attach::Side;
use super::interfaces::Interface;
use super::janitor::Janitor;
use super::links;

/// The first handle of filters that take the qdisc along when they are the last: it was made for
/// one of them. So a process that comes later, and may be the last to go, knows it.
const QDISC_IS_OURS: u32 = 0xfa70_0000;
/// The bits by which they are told from others.
const MARK: u32 = 0xffff_0000;

/// A filter of a clsact qdisc; dropped, it is gone.
pub(super) struct Filter {
    pub(super) place: FilterPlace,
}

/// Where a filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterPlace {
    interface: u32,
    attach_point: u32,
    handle: u32,
    priority: u32,
}

impl FilterPlace {
    /// Bytes of [`FilterPlace::to_bytes`].
    pub(super) const SIZE: usize = 16;

    /// For the [`Janitor`], which is another process.
    pub(super) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let words = [
            self.interface,
            self.attach_point,
            self.handle,
            self.priority,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The reverse of [`FilterPlace::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| u32::from_ne_bytes(words[index]);
        Self {
            interface: word(0),
            attach_point: word(1),
            handle: word(2),
            priority: word(3),
        }
    }

    fn hook(self) -> sys::bpf_tc_hook {
        sys::bpf_tc_hook {
            sz: size_of::<sys::bpf_tc_hook>() as _,
            ifindex: self.interface.cast_signed(),
            attach_point: self.attach_point,
            ..sys::bpf_tc_hook::default()
        }
    }

    /// Puts a program there; the error is that of the kernel.
    #[expect(unsafe_code, reason = "calls libbpf")]
    fn put(self, program: &ProgramMut<'_>) -> Result<Self, i32> {
        let mut options = sys::bpf_tc_opts {
            sz: size_of::<sys::bpf_tc_opts>() as _,
            prog_fd: program.as_fd().as_raw_fd(),
            handle: self.handle,
            priority: self.priority,
            ..sys::bpf_tc_opts::default()
        };
        let hook = self.hook();
        // SAFETY: both structs say their size and outlive the call.
        match unsafe { sys::bpf_tc_attach(&raw const hook, &raw mut options) } {
            0 => Ok(Self {
                handle: options.handle,
                priority: options.priority,
                ..self
            }),
            code => Err(-code),
        }
    }

    /// Removes the filter. With the last filter goes a qdisc that was made for one of ours; with
    /// somebody else's, theirs would go. A failure means that the interface is gone.
    #[expect(unsafe_code, reason = "calls libbpf")]
    pub(super) fn remove(self) {
        let mut hook = self.hook();
        let options = sys::bpf_tc_opts {
            sz: size_of::<sys::bpf_tc_opts>() as _,
            handle: self.handle,
            priority: self.priority,
            ..sys::bpf_tc_opts::default()
        };
        // SAFETY: both structs say their size and outlive the calls.
        unsafe {
            sys::bpf_tc_detach(&raw const hook, &raw const options);
            let is_last = || links::filters(self.interface).is_ok_and(|others| others.is_empty());
            if self.handle & MARK == QDISC_IS_OURS && is_last() {
                hook.attach_point = sys::BPF_TC_INGRESS | sys::BPF_TC_EGRESS;
                sys::bpf_tc_hook_destroy(&raw mut hook);
            }
        }
    }
}

impl Filter {
    /// Attaches a program to one side of an interface, and tells the janitor.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn attach(
        program: &ProgramMut<'_>,
        interface: &Interface,
        side: Side,
        janitor: &mut Option<Janitor>,
    ) -> Result<Self, Error> {
        let mut place = FilterPlace {
            interface: interface.index,
            attach_point: if side == Side::Ingress {
                sys::BPF_TC_INGRESS
            } else {
                sys::BPF_TC_EGRESS
            },
            handle: 0,
            priority: 0,
        };
        if make_qdisc(place)? {
            place.handle = QDISC_IS_OURS;
        }
        // If the kernel refuses the filter, a qdisc that was made for it goes again.
        let mut filter = Self { place };
        filter.place = put_first(place, program).map_err(Error::from_raw_os_error)?;
        if janitor.is_none() {
            *janitor = Some(Janitor::start()?);
        }
        if let Some(janitor) = janitor {
            janitor.watch(&filter.place)?;
        }
        Ok(filter)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.place.remove();
    }
}

/// Makes the qdisc unless there is one. Was it made for a filter of ours, now or before?
#[expect(unsafe_code, reason = "calls libbpf")]
fn make_qdisc(place: FilterPlace) -> Result<bool, Error> {
    let mut hook = place.hook();
    // SAFETY: the struct says its size and outlives the call.
    match -unsafe { sys::bpf_tc_hook_create(&raw mut hook) } {
        0 => Ok(true),
        libc::EEXIST => {
            let handles = links::filters(place.interface)?;
            Ok(handles.iter().any(|handle| handle & MARK == QDISC_IS_OURS))
        }
        code => Err(Error::from_raw_os_error(code)),
    }
}

/// Puts a program before all others, since a filter before it may end the classification; it never
/// does. If that place is taken by another kind of filter, wherever the kernel puts it. No other
/// filter is met: the kernel chooses the handle, or the next that is free is found.
fn put_first(place: FilterPlace, program: &ProgramMut<'_>) -> Result<FilterPlace, i32> {
    for priority in [1, 0] {
        for handle in place.handle..=place.handle | !MARK {
            let place = FilterPlace {
                handle,
                priority,
                ..place
            };
            match place.put(program) {
                Err(libc::EEXIST) => {}
                Err(libc::EINVAL) => break,
                done => return done,
            }
        }
    }
    Err(libc::EINVAL)
}
