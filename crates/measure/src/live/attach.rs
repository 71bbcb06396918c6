//! Attaching: tcx links where the kernel has them, filters of a clsact qdisc where not, XDP on request.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};
use libbpf_sys as sys;

use super::interfaces::{Framing, Interface};
use super::object::Programs;
use crate::Error;

/// The programs on one interface; dropped, they are gone.
pub(super) struct Attached {
    pub(super) interface: Interface,
    hooks: Vec<Hook>,
}

#[expect(dead_code, reason = "held for what their drop does")]
enum Hook {
    Link { way: &'static str, link: Link },
    Filter { way: &'static str, filter: Filter },
}

impl Attached {
    pub(super) fn new(programs: &Programs, interface: &Interface, has_xdp: bool) -> Result<Self, Error> {
        let (ingress, egress) = match interface.framing {
            Framing::Ethernet => ("ethernet_ingress", "ethernet_egress"),
            Framing::Ip => ("ip_ingress", "ip_egress"),
        };
        let mut hooks = Vec::new();
        if has_xdp {
            hooks.push(attach_xdp(programs, interface)?);
        } else {
            hooks.push(attach_traffic(programs.program(ingress)?, interface, Side::Ingress)?);
        }
        if !interface.is_loopback {
            hooks.push(attach_traffic(programs.program(egress)?, interface, Side::Egress)?);
        }
        Ok(Self { interface: *interface, hooks })
    }

    pub(super) fn describe(&self) -> String {
        let ways = self.hooks.iter().map(|hook| match hook {
            Hook::Link { way, .. } | Hook::Filter { way, .. } => *way,
        });
        format!("{}: {}", self.interface.name, ways.collect::<Vec<_>>().join(", "))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ingress,
    Egress,
}

fn attach_xdp(programs: &Programs, interface: &Interface) -> Result<Hook, Error> {
    if interface.framing == Framing::Ip {
        return Err(Error::Unsupported {
            needs: "XDP needs frames with an Ethernet header".to_owned(),
            found: format!("{} carries bare IP", interface.name),
            remedy: "leave --xdp out".to_owned(),
        });
    }
    let program = programs.program("xdp_ingress")?;
    let link = program
        .attach_xdp(interface.index.cast_signed())
        .map_err(|error| Error::kernel(format!("attach to XDP of {}", interface.name), error))?;
    Ok(Hook::Link { way: "XDP ingress", link })
}

fn attach_traffic(program: ProgramMut<'_>, interface: &Interface, side: Side) -> Result<Hook, Error> {
    match attach_tcx(&program, interface.index) {
        Ok(link) => {
            let way = if side == Side::Ingress { "tcx ingress" } else { "tcx egress" };
            Ok(Hook::Link { way, link })
        }
        // No such command or attach type: a kernel before 6.6.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
            let filter = Filter::attach(&program, interface, side)?;
            let way = if side == Side::Ingress { "clsact ingress" } else { "clsact egress" };
            Ok(Hook::Filter { way, filter })
        }
        Err(error) => Err(Error::kernel(format!("attach to {}", interface.name), error)),
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
        let link = sys::bpf_program__attach_tcx(program, interface.cast_signed(), &raw const options);
        let link = NonNull::new(link).ok_or_else(std::io::Error::last_os_error)?;
        Ok(Link::from_ptr(link))
    }
}

/// A filter of a clsact qdisc. The qdisc is removed with it only if it was made for it.
pub(super) struct Filter {
    hook: sys::bpf_tc_hook,
    options: sys::bpf_tc_opts,
    has_made_qdisc: bool,
}

impl Filter {
    #[expect(unsafe_code, reason = "calls libbpf")]
    fn attach(program: &ProgramMut<'_>, interface: &Interface, side: Side) -> Result<Self, Error> {
        let failed = |code: i32| {
            let source = std::io::Error::from_raw_os_error(-code);
            Error::kernel(format!("attach a filter to {}", interface.name), source)
        };
        let mut hook = sys::bpf_tc_hook {
            sz: size_of::<sys::bpf_tc_hook>() as _,
            ifindex: interface.index.cast_signed(),
            attach_point: if side == Side::Ingress { sys::BPF_TC_INGRESS } else { sys::BPF_TC_EGRESS },
            ..sys::bpf_tc_hook::default()
        };
        let mut options = sys::bpf_tc_opts {
            sz: size_of::<sys::bpf_tc_opts>() as _,
            prog_fd: program.as_fd().as_raw_fd(),
            ..sys::bpf_tc_opts::default()
        };
        // SAFETY: both structs say their size and outlive the calls.
        let created = unsafe { sys::bpf_tc_hook_create(&raw mut hook) };
        if created != 0 && created != -libc::EEXIST {
            return Err(failed(created));
        }
        // Handle and priority are left to the kernel, so that no other filter is met.
        // SAFETY: as above.
        let attached = unsafe { sys::bpf_tc_attach(&raw const hook, &raw mut options) };
        let filter = Self { hook, options, has_made_qdisc: created == 0 };
        if attached != 0 {
            return Err(failed(attached));
        }
        Ok(filter)
    }
}

impl Drop for Filter {
    #[expect(unsafe_code, reason = "calls libbpf")]
    fn drop(&mut self) {
        // What names a filter is its handle and priority; the rest must be 0.
        self.options.prog_fd = 0;
        self.options.prog_id = 0;
        self.options.flags = 0;
        // SAFETY: both structs say their size and outlive the calls. A failure means that the interface is gone.
        unsafe {
            sys::bpf_tc_detach(&raw const self.hook, &raw const self.options);
            if self.has_made_qdisc {
                self.hook.attach_point = sys::BPF_TC_INGRESS | sys::BPF_TC_EGRESS;
                sys::bpf_tc_hook_destroy(&raw mut self.hook);
            }
        }
    }
}
