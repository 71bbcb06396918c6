//! Objects of users, linked into one that was built in: their functions take the place of its weak
//! ones.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::{Error as IoError, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Linkage};
use libbpf_sys as sys;

use super::load::{quiet_libbpf, take_messages};
use crate::Error;

/// The object with these files linked into it.
///
/// # Errors
/// [`Error::Kernel`] when they do not fit together, with what libbpf says of it.
pub(crate) fn link(object: &[u8], files: &[&Path]) -> Result<Vec<u8>, Error> {
    quiet_libbpf();
    linked(object, files).map_err(|error| {
        let names: Vec<_> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let cause = IoError::other(format!("{error}\n{}", take_messages().trim_end()));
        Error::kernel(
            format!("link {} into the programs", names.join(" and ")),
            cause,
        )
    })
}

fn linked(object: &[u8], files: &[&Path]) -> Result<Vec<u8>, IoError> {
    let mut output = nameless_file()?;
    let linker = Linker::new(&output)?;
    linker.add(object)?;
    for file in files {
        linker.add_file(file)?;
    }
    linker.finish()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks that a file is a BPF object with this function for others to call.
///
/// # Errors
/// [`Error::Kernel`] when it cannot be read, or lacks it.
pub(crate) fn check_function(file: &Path, name: &str) -> Result<(), Error> {
    quiet_libbpf();
    let attempt = || format!("take {} as a program", file.display());
    let lacks = |what: String| Error::kernel(attempt(), IoError::other(what));
    File::open(file).map_err(|error| Error::Unsupported {
        needs: format!("{} must be a BPF object", file.display()),
        found: format!("it cannot be read ({error})"),
        remedy: "check the name and the permissions".to_owned(),
    })?;
    let types = Btf::from_path(file).map_err(|_| {
        take_messages();
        lacks("it is no BPF object with types: compile it with clang -O2 -g -target bpf".to_owned())
    })?;
    let function = types
        .type_by_kind::<Func<'_>>()
        .find(|function| function.name().is_some_and(|own| own == name));
    match function {
        Some(function) if function.linkage() == Linkage::Global => Ok(()),
        Some(_) => Err(lacks(format!(
            "its function {name} is static, so that others cannot call it"
        ))),
        None => Err(lacks(format!("it has no function {name}"))),
    }
}

/// libbpf's linker. That of libbpf-rs 0.27 panics where libbpf refuses a file.
struct Linker(NonNull<sys::bpf_linker>);

#[expect(unsafe_code, reason = "calls libbpf")]
impl Linker {
    /// Writes to this file, which must outlive it.
    fn new(output: &File) -> Result<Self, IoError> {
        // SAFETY: the descriptor is open; there may be no options.
        let linker = unsafe { sys::bpf_linker__new_fd(output.as_raw_fd(), null_mut()) };
        NonNull::new(linker)
            .map(Self)
            .ok_or_else(IoError::last_os_error)
    }

    fn add(&self, object: &[u8]) -> Result<(), IoError> {
        let bytes = object.as_ptr().cast_mut().cast();
        // SAFETY: the bytes outlive the call, which only reads them.
        done(unsafe {
            sys::bpf_linker__add_buf(self.0.as_ptr(), bytes, object.len() as _, null_mut())
        })
    }

    fn add_file(&self, file: &Path) -> Result<(), IoError> {
        let file = CString::new(file.as_os_str().as_bytes())?;
        // SAFETY: the name ends with a zero and outlives the call.
        done(unsafe { sys::bpf_linker__add_file(self.0.as_ptr(), file.as_ptr(), null_mut()) })
    }

    fn finish(&self) -> Result<(), IoError> {
        // SAFETY: it is not freed yet.
        done(unsafe { sys::bpf_linker__finalize(self.0.as_ptr()) })
    }
}

impl Drop for Linker {
    #[expect(unsafe_code, reason = "calls libbpf")]
    fn drop(&mut self) {
        // SAFETY: it is this one's alone.
        unsafe { sys::bpf_linker__free(self.0.as_ptr()) }
    }
}

fn done(code: c_int) -> Result<(), IoError> {
    match code {
        0 => Ok(()),
        code => Err(IoError::from_raw_os_error(code.abs())),
    }
}

/// A file in memory.
#[expect(unsafe_code, reason = "std makes no files in memory")]
fn nameless_file() -> Result<File, IoError> {
    // SAFETY: the name ends with a zero, and the descriptor is owned once.
    unsafe {
        let descriptor = libc::memfd_create(c"programs".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(IoError::last_os_error());
        }
        Ok(File::from(OwnedFd::from_raw_fd(descriptor)))
    }
}
