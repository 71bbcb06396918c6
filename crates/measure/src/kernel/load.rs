//! BPF objects: opened, prepared, loaded; what is in them by name.

use std::cell::RefCell;
use std::ffi::OsStr;

use libbpf_rs::{
    Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel,
    ProgramMut,
};

use crate::Error;

thread_local! {
    /// What libbpf had to say to this thread since its last look; the verifier's verdict is among
    /// it.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// An object as it was compressed when the program was built.
///
/// # Panics
/// When it is something else.
pub fn decompress(object: &[u8]) -> Vec<u8> {
    zstd::decode_all(object).expect("it is built into the program")
}

/// Opens an object, has it prepared, and loads it.
///
/// # Errors
/// [`Error::Unsupported`] when privileges do not allow it, [`Error::Kernel`] when the kernel
/// refuses, and what `prepare` says.
pub fn load<E: From<Error>>(
    object: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> Result<(), E>,
) -> Result<Object, E> {
    quiet_libbpf();
    let mut object = ObjectBuilder::default()
        .open_memory(object)
        .map_err(|error| {
            let cause = format!("{error}\n{}", take_messages().trim_end());
            Error::kernel("open the BPF object", std::io::Error::other(cause))
        })?;
    prepare(&mut object)?;
    Ok(object.load().map_err(|error| refused(&error))?)
}

/// Sets a variable while programs run: the map is its section, which has it alone. `step` is what
/// that is for.
///
/// # Errors
/// [`Error::Kernel`] when the kernel refuses it.
pub(crate) fn set_variable(
    section: &MapHandle,
    value: &[u8],
    step: &'static str,
) -> Result<(), Error> {
    let set = section.update(&0_u32.to_ne_bytes(), value, MapFlags::ANY);
    set.map_err(|error| Error::kernel(step, error))
}

/// Sets constants before the load, each a section of its own; a section that the object lacks is
/// none of its programs' business.
///
/// # Errors
/// When a section has no room for the constant.
pub fn set_constants(object: &mut OpenObject, constants: &[(&str, &[u8])]) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, bytes)) = constants.iter().find(|(section, _)| *section == name) {
            fill(&mut map, bytes).ok_or_else(|| missing(&name))?;
        }
    }
    Ok(())
}

fn fill(map: &mut OpenMapMut<'_>, bytes: &[u8]) -> Option<()> {
    let value = map.initial_value_mut()?;
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// A program of a loaded object, to be attached.
///
/// # Errors
/// [`Error::Kernel`] when the object has none of that name.
pub fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, Error> {
    object
        .progs_mut()
        .find(|program| program.name() == OsStr::new(name))
        .ok_or_else(|| missing(name))
}

/// A handle of a map of a loaded object: it can be used while the object is, and after it.
///
/// # Errors
/// [`Error::Kernel`] when the object has none of that name, or the process no descriptor left.
pub fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    MapHandle::try_from(&find_map(object, name)?)
        .map_err(|error| Error::kernel(format!("use the map {name}"), error))
}

pub(super) fn find_map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, Error> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| missing(name))
}

pub(super) fn missing(name: &str) -> Error {
    let source = std::io::Error::other("the object that was built into this program lacks it");
    Error::kernel(format!("find {name}"), source)
}

/// Keeps what libbpf has to say, to be told if it matters.
pub(super) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        MESSAGES.with_borrow_mut(|messages| messages.push_str(&message));
    })));
}

/// What libbpf had to say to this thread since the last call.
pub(super) fn take_messages() -> String {
    MESSAGES.take()
}

/// What the kernel says from the wrong instruction on. Since Linux 7 it explains it.
const VERDICT_LINES: usize = 40;

/// The kernel refused the programs: say what can be done.
fn refused(error: &libbpf_rs::Error) -> Error {
    let messages = take_messages();
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_verdict(&messages) {
        return Error::Unsupported {
            needs: "loading BPF programs needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON".to_owned(),
            found: "the kernel refused".to_owned(),
            remedy: "run as root outside of any user namespace, or give the program these capabilities with setcap".to_owned(),
        };
    }
    if error.kind() == libbpf_rs::ErrorKind::OutOfMemory {
        return Error::Unsupported {
            needs: "the tables of the measurement must fit into the kernel's memory".to_owned(),
            found: "there is not enough".to_owned(),
            remedy: "ask for fewer flows (--flows), or give its control group more memory"
                .to_owned(),
        };
    }
    let last: Vec<_> = messages.lines().rev().take(VERDICT_LINES).collect();
    let told = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    Error::kernel(
        "load the BPF programs",
        std::io::Error::other(format!("{error}\n{told}")),
    )
}

fn is_verdict(messages: &str) -> bool {
    messages.contains("processed ") && messages.contains(" insns")
}
