//! The program: loaded over the tables that are there, attached in place of the one before.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Mutex;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel,
};
use libbpf_sys as sys;

use super::pins::Pins;
use crate::Error;
use crate::config::Mode;
use crate::native::{balance_config, bytes_of};

/// The compiled program.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/balance.bpf.o"));

/// Its name in the object.
const PROGRAM: &str = "balance";
/// The sections of its constants.
const CONFIG: &str = ".rodata.balance_config";
const RESPONSE_CONFIG: &str = ".rodata.response_config";

/// What libbpf had to say since the last look; the verifier's verdict is among it.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// How large the tables are to be that are not there yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) buckets: u32,
    /// Of these, the first, whose connections are measured.
    pub(super) measured: u32,
    pub(super) services: u32,
    pub(super) servers: u32,
    pub(super) ring_elements: u32,
}

impl Sizes {
    fn of(&self, map: &str) -> Option<u32> {
        match map {
            "balance_buckets" => Some(self.buckets),
            "balance_measured" => Some(self.measured * crate::native::BALANCE_BUCKET_PLACES),
            "balance_services" => Some(self.services * 3),
            "balance_networks" => Some(self.services * 2),
            "balance_service_traffic" => Some(self.services),
            "balance_servers" | "balance_server_traffic" | "balance_quic_ids" => Some(self.servers),
            "balance_rings" => Some(self.ring_elements),
            _ => None,
        }
    }
}

/// A program that is loaded, and its tables.
pub(super) struct Program(Object);

/// What the program that is pinned was configured with, if there is one.
pub(super) fn previous_config(pins: &Pins) -> Option<balance_config> {
    let map = MapHandle::from_pinned_path(pins.map(CONFIG)).ok()?;
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    super::read(&bytes)
}

/// The size of a table that is there.
pub(super) fn entries(pins: &Pins, map: &str) -> Option<u32> {
    let map = MapHandle::from_pinned_path(pins.map(map)).ok()?;
    Some(map.max_entries())
}

impl Program {
    /// Loads it with tables that are pinned, or else new ones of these sizes, which it pins.
    pub(super) fn load(
        pins: &Pins,
        sizes: &Sizes,
        config: &balance_config,
        response: &[u8],
    ) -> Result<Self, Error> {
        quiet_libbpf();
        let failed = |error| Error::kernel("open the BPF object", error);
        let mut object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(failed)?;
        prepare(&mut object, pins, sizes, config, response)?;
        let object = object.load().map_err(|error| refused(&error))?;
        let mut program = Self(object);
        program.pin(pins)?;
        Ok(program)
    }

    fn pin(&mut self, pins: &Pins) -> Result<(), Error> {
        for mut map in self.0.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let path = pins.map(&name);
            if name.starts_with(".rodata") {
                // Of this program, and of no other.
                let _ = std::fs::remove_file(&path);
            }
            if name.starts_with('.') && name != CONFIG || path.exists() {
                continue;
            }
            map.pin(&path).map_err(|error| {
                Error::kernel(format!("pin {name} at {}", path.display()), error)
            })?;
        }
        Ok(())
    }

    /// A handle of its own.
    pub(super) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        let failed = |error| Error::kernel(format!("use the map {name}"), error);
        let map = self.0.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| missing(&format!("the map {name}")))?;
        MapHandle::try_from(&map).map_err(failed)
    }

    /// Has packets of this interface go through it from now on; no packet misses both it and the one before.
    pub(super) fn attach(&self, pins: &Pins, interface: u32, mode: Mode) -> Result<Link, Error> {
        let program = self.0.progs().find(|program| program.name() == PROGRAM);
        let program = program.ok_or_else(|| missing("the program"))?;
        let path = pins.link(interface);
        if let Ok(mut link) = Link::open(&path) {
            if link.update_prog(&program).is_ok() {
                return Ok(link);
            }
            // Its interface has gone.
            let _ = std::fs::remove_file(&path);
        }
        create_link(program.as_fd().as_raw_fd(), interface, mode, &path)
            .map_err(|error| unattached(interface, error))?;
        Link::open(&path).map_err(|error| Error::kernel(format!("use {}", path.display()), error))
    }
}

fn prepare(
    object: &mut OpenObject,
    pins: &Pins,
    sizes: &Sizes,
    config: &balance_config,
    response: &[u8],
) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("set the map {name} up"), error);
        let constant = match name.as_str() {
            CONFIG => Some(bytes_of(config)),
            RESPONSE_CONFIG => Some(response),
            _ => None,
        };
        if let Some(constant) = constant {
            let room = map
                .initial_value_mut()
                .and_then(|value| value.get_mut(..constant.len()));
            let short = || std::io::Error::other("it has no room for the constant");
            let room = room.ok_or_else(|| Error::kernel(format!("set {name}"), short()))?;
            room.copy_from_slice(constant);
            continue;
        }
        let path = pins.map(&name);
        if !name.starts_with('.') && path.exists() {
            let found = MapHandle::from_pinned_path(&path).map_err(failed)?;
            if (found.key_size(), found.value_size()) != (map.key_size(), map.value_size()) {
                return Err(Error::Incompatible {
                    pins: pins.directory().to_owned(),
                    what: format!("the table {name} of another version"),
                });
            }
            map.set_max_entries(found.max_entries()).map_err(failed)?;
            map.reuse_fd(found.as_fd()).map_err(failed)?;
        } else if let Some(entries) = sizes.of(&name) {
            map.set_max_entries(entries).map_err(failed)?;
        }
    }
    Ok(())
}

/// The object that was built into this program lacks something.
pub(super) fn missing(what: &str) -> Error {
    let cause = std::io::Error::other("the object that was built into this program lacks it");
    Error::kernel(format!("find {what}"), cause)
}

/// Attaches, and pins what holds it.
#[expect(
    unsafe_code,
    reason = "libbpf-rs attaches in no mode but that of the driver's choice"
)]
fn create_link(
    program: i32,
    interface: u32,
    mode: Mode,
    path: &Path,
) -> Result<(), std::io::Error> {
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;

    let options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        flags: match mode {
            Mode::Auto => 0,
            Mode::Native => sys::XDP_FLAGS_DRV_MODE,
            Mode::Generic => sys::XDP_FLAGS_SKB_MODE,
        },
        ..sys::bpf_link_create_opts::default()
    };
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the program is loaded, the options say their size, and the path ends with a zero; the descriptor that comes back is ours alone.
    unsafe {
        let link = sys::bpf_link_create(
            program,
            interface.cast_signed(),
            sys::BPF_XDP,
            &raw const options,
        );
        if link < 0 {
            return Err(std::io::Error::from_raw_os_error(-link));
        }
        let link = OwnedFd::from_raw_fd(link);
        match sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) {
            0 => Ok(()),
            code => Err(std::io::Error::from_raw_os_error(code.abs())),
        }
    }
}

fn unattached(interface: u32, error: std::io::Error) -> Error {
    let name = nix::net::if_::if_indextoname(interface);
    let name = name.map_or_else(
        |_| format!("number {interface}"),
        |name| name.to_string_lossy().into_owned(),
    );
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Error::Unsupported {
            needs: format!("XDP of {name} must be free"),
            found: "another program is attached to it".to_owned(),
            remedy: "see `ip link show` and `bpftool net`, and take it away; if it is an earlier balancer with other pins, run `fathom balance stop` with its configuration".to_owned(),
        },
        Some(libc::EOPNOTSUPP) => Error::Unsupported {
            needs: format!("{name} must have XDP in its driver"),
            found: "it has not".to_owned(),
            remedy: "set xdp = \"generic\", or \"auto\"".to_owned(),
        },
        _ => Error::kernel(format!("attach to XDP of {name}"), error),
    }
}

/// Keeps what libbpf has to say, to be told if it matters.
pub(super) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push_str(&message);
        }
    })));
}

/// The kernel refused the program: say what can be done.
pub(super) fn refused(error: &libbpf_rs::Error) -> Error {
    let messages = MESSAGES
        .lock()
        .map(|mut messages| std::mem::take(&mut *messages));
    let messages = messages.unwrap_or_default();
    let is_verdict = messages.contains("processed ") && messages.contains(" insns");
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_verdict {
        return Error::Unsupported {
            needs: "loading BPF programs needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON".to_owned(),
            found: "the kernel refused".to_owned(),
            remedy: "run as root, or give the program these capabilities with setcap".to_owned(),
        };
    }
    let last: Vec<_> = messages.lines().rev().take(12).collect();
    let told = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    Error::kernel(
        "load the BPF program",
        std::io::Error::other(format!("{error}\n{told}")),
    )
}
