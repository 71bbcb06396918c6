//! The program: loaded over the tables that are there, attached in place of the one before.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::LazyLock;

use fathom_measure::bytes::{bytes_of, read_prefix};
use fathom_measure::kernel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, OpenObject};
use libbpf_sys as sys;

use super::pins::Pins;
use crate::Error;
use crate::config::Mode;
use crate::native::balance_config;

/// The compiled program.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    kernel::decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/balance.bpf.o.zst"
    )))
});

/// Its name in the object.
const PROGRAM: &str = "balance";
/// The sections of its constants.
const CONFIG: &str = ".rodata.balance_config";
const RESPONSE_CONFIG: &str = ".rodata.response_config";

/// How large the tables are to be that are not there yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) buckets: u32,
    /// The first of these buckets, whose connections are measured.
    pub(super) measured: u32,
    pub(super) services: u32,
    pub(super) servers: u32,
    pub(super) ring_elements: u32,
}

impl Sizes {
    fn of(&self, map: &str) -> Option<u32> {
        match map {
            "balance_buckets" => Some(self.buckets),
            "balance_measured" => Some(self.measured * crate::native::BALANCE_BUCKET_SLOTS),
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

/// Loads the program with these constants, after what `prepare` does with its tables.
fn load(
    config: &balance_config,
    response: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
) -> Result<Object, Error> {
    let constants = [(CONFIG, bytes_of(config)), (RESPONSE_CONFIG, response)];
    kernel::load(&OBJECT, |object| {
        kernel::set_constants(object, &constants)?;
        prepare(object)
    })
}

/// Loads the program with these constants and small tables, and lets it go again.
pub(super) fn check(config: &balance_config, response: &[u8]) -> Result<(), Error> {
    load(config, response, |_| Ok(())).map(drop)
}

/// What the program that is pinned was configured with, if there is one.
pub(super) fn previous_config(pins: &Pins) -> Option<balance_config> {
    let map = MapHandle::from_pinned_path(pins.map(CONFIG)).ok()?;
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some(read_prefix(&bytes)?.0)
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
        let mut program = Self(load(config, response, |object| {
            prepare(object, pins, sizes)
        })?);
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
        Ok(kernel::map(&self.0, name)?)
    }

    /// Has packets of this interface go through it from now on; no packet misses both it and the
    /// one before.
    pub(super) fn attach(&self, pins: &Pins, interface: u32, mode: Mode) -> Result<Link, Error> {
        let program = kernel::program(&self.0, PROGRAM)?;
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

/// Takes the tables that are pinned, and sizes those that are not.
fn prepare(object: &mut OpenObject, pins: &Pins, sizes: &Sizes) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("set the map {name} up"), error);
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
    // SAFETY: the program is loaded, the options say their size, and the path ends with a zero; the
    // descriptor that comes back is ours alone.
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
