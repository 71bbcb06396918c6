//! Attaching: tcx links where the kernel has them, filters of a clsact qdisc where not, XDP on
//! request.

use std::ptr::NonNull;

use libbpf_rs::{AsRawLibbpf, Link, OpenObject, ProgramAttachType, ProgramMut};
use libbpf_sys as sys;

use super::filter::{Filter, FilterPlace};
use super::interfaces::{Framing, Interface};
use super::janitor::Janitor;
use crate::Error;
use crate::kernel::Programs;

/// The interfaces that programs are attached to; dropped, they are gone from there.
#[derive(Default)]
pub(super) struct Devices {
    // Dropped in this order: the janitor need not remove what is gone.
    attached: Vec<Attached>,
    janitor: Option<Janitor>,
}

impl Devices {
    /// Attaches programs by the end of their names: `xdp_ingress` to XDP, `…_ingress` and
    /// `…_egress` to traffic control.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the interface cannot have XDP, [`Error::Kernel`] when the kernel
    /// refuses.
    pub(super) fn attach(
        &mut self,
        programs: &Programs,
        names: &[&str],
        interface: &Interface,
    ) -> Result<(), Error> {
        let attached = Attached::new(programs, names, interface, &mut self.janitor)?;
        self.attached.push(attached);
        Ok(())
    }

    /// One line an interface: how the programs are attached, for people.
    pub(super) fn describe(&self) -> impl Iterator<Item = String> {
        self.attached.iter().map(Attached::describe)
    }

    /// Detaches from all interfaces but those that stay, and returns the others.
    pub(super) fn release(&mut self, stays: impl Fn(&Interface) -> bool) -> Vec<Interface> {
        let goes = |attached: &mut Attached| !stays(&attached.interface);
        let mut gone = Vec::new();
        for attached in self.attached.extract_if(.., goes) {
            gone.push(attached.interface);
            let filters = attached.filters();
            drop(attached);
            for place in filters {
                // If it is gone there is nobody to tell.
                let _ = self.janitor.as_mut().map(|janitor| janitor.watch(&place));
            }
        }
        gone
    }

    /// Gets ready for interfaces that come later: where there are no links, the process that cleans
    /// up must be made while this one has but one thread.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be made.
    pub(super) fn prepare(&mut self) -> Result<(), Error> {
        if self.janitor.is_none() && !has_tcx() {
            let started = Janitor::start();
            let attempt = "start a process that removes filters";
            self.janitor = Some(started.map_err(|error| Error::kernel(attempt, error))?);
        }
        Ok(())
    }

    /// Are programs attached to the interface of this number?
    pub(super) fn has(&self, index: u32) -> bool {
        let mut attached = self.attached.iter();
        attached.any(|attached| attached.interface.index == index)
    }

    /// How many interfaces there are.
    pub(super) fn len(&self) -> usize {
        self.attached.len()
    }
}

/// The programs on one interface.
struct Attached {
    interface: Interface,
    hooks: Vec<Hook>,
}

pub(super) enum Hook {
    Link {
        way: &'static str,
        #[expect(dead_code, reason = "held for what its drop does")]
        link: Link,
    },
    Filter {
        way: &'static str,
        filter: Filter,
    },
}

impl Attached {
    fn new(
        programs: &Programs,
        names: &[&str],
        interface: &Interface,
        janitor: &mut Option<Janitor>,
    ) -> Result<Self, Error> {
        let mut hooks = Vec::new();
        for name in names {
            let program = programs.program(name)?;
            hooks.push(match *name {
                "xdp_ingress" => attach_xdp(&program, interface)?,
                name if name.ends_with("_ingress") => {
                    attach_traffic(&program, interface, Side::Ingress, janitor)?
                }
                _ => attach_traffic(&program, interface, Side::Egress, janitor)?,
            });
        }
        Ok(Self {
            interface: *interface,
            hooks,
        })
    }

    /// Filters that the janitor knows of.
    fn filters(&self) -> Vec<FilterPlace> {
        let places = self.hooks.iter().filter_map(|hook| match hook {
            Hook::Filter { filter, .. } => Some(filter.place),
            Hook::Link { .. } => None,
        });
        places.collect()
    }

    /// How its programs are attached, for people.
    fn describe(&self) -> String {
        let ways = self.hooks.iter().map(|hook| match hook {
            Hook::Link { way, .. } | Hook::Filter { way, .. } => *way,
        });
        format!(
            "{}: {}",
            self.interface.name,
            ways.collect::<Vec<_>>().join(", ")
        )
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Ingress,
    Egress,
}

fn attach_xdp(program: &ProgramMut<'_>, interface: &Interface) -> Result<Hook, Error> {
    if interface.framing == Framing::Ip {
        return Err(Error::Unsupported {
            needs: "XDP needs frames with an Ethernet header".to_owned(),
            found: format!("{} carries bare IP", interface.name),
            remedy: "leave --xdp out".to_owned(),
        });
    }
    let link = program
        .attach_xdp(interface.index.cast_signed())
        .map_err(|error| Error::kernel(format!("attach to XDP of {}", interface.name), error))?;
    Ok(Hook::Link {
        way: "XDP ingress",
        link,
    })
}

pub(super) fn attach_traffic(
    program: &ProgramMut<'_>,
    interface: &Interface,
    side: Side,
    janitor: &mut Option<Janitor>,
) -> Result<Hook, Error> {
    match attach_tcx(program, interface.index) {
        Ok(link) => {
            let way = if side == Side::Ingress {
                "tcx ingress"
            } else {
                "tcx egress"
            };
            Ok(Hook::Link { way, link })
        }
        // No such command or attach type: a kernel before 6.6.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
            let filter = Filter::attach(program, interface, side, janitor).map_err(|error| {
                Error::kernel(format!("attach a filter to {}", interface.name), error)
            })?;
            let way = if side == Side::Ingress {
                "clsact ingress"
            } else {
                "clsact egress"
            };
            Ok(Hook::Filter { way, filter })
        }
        Err(error) => Err(Error::kernel(
            format!("attach to {}", interface.name),
            error,
        )),
    }
}

#[expect(unsafe_code, reason = "libbpf-rs has no tcx")]
fn attach_tcx(program: &ProgramMut<'_>, interface: u32) -> Result<Link, std::io::Error> {
    let options = sys::bpf_tcx_opts {
        sz: size_of::<sys::bpf_tcx_opts>() as _,
        ..sys::bpf_tcx_opts::default()
    };
    // SAFETY: the program is loaded and outlives the call; the link that comes back is ours alone.
    unsafe {
        let program = program.as_libbpf_object().as_ptr();
        let link =
            sys::bpf_program__attach_tcx(program, interface.cast_signed(), &raw const options);
        let link = NonNull::new(link).ok_or_else(std::io::Error::last_os_error)?;
        Ok(Link::from_ptr(link))
    }
}

/// Has the kernel links for programs of traffic control (since 6.6)? It is asked which there are at
/// the loopback interface, which always has number 1.
#[expect(unsafe_code, reason = "libbpf-rs has no tcx")]
fn has_tcx() -> bool {
    let mut options = sys::bpf_prog_query_opts {
        sz: size_of::<sys::bpf_prog_query_opts>() as _,
        ..sys::bpf_prog_query_opts::default()
    };
    // SAFETY: the struct says its size and outlives the call; it has no room for answers, and says
    // so.
    let code = unsafe { sys::bpf_prog_query_opts(1, sys::BPF_TCX_INGRESS, &raw mut options) };
    code != -libc::EINVAL
}

/// Has only those programs loaded that `is_needed` says yes to: each costs the verifier a good part
/// of a second. Tells the kernel where they will be attached: by the end of their names.
pub(crate) fn choose_programs(object: &mut OpenObject, is_needed: impl Fn(&str) -> bool) {
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(is_needed(&name));
        if name.ends_with("_ingress") && name != "xdp_ingress" {
            program.set_attach_type(ProgramAttachType::TcxIngress);
        } else if name.ends_with("_egress") {
            program.set_attach_type(ProgramAttachType::TcxEgress);
        }
    }
}
