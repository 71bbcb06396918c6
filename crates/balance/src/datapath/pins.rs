//! What outlives the process: a directory on a BPF file system.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Error as IoError;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::Error;

/// The number of the BPF file system (`BPF_FS_MAGIC`).
const MAGIC: i64 = 0xcafe_4a11;

/// The directory.
#[derive(Debug, Clone)]
pub(super) struct Pins(PathBuf);

impl Pins {
    /// Takes the directory, and makes it if it is not there.
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        check_directory(directory)?;
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| {
                Error::kernel(format!("make the directory {}", directory.display()), error)
            })?;
        // It may have been there.
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
        Ok(Self(directory.to_owned()))
    }

    /// The directory, if something is there.
    pub(super) fn find(directory: &Path) -> Option<Self> {
        directory.is_dir().then(|| Self(directory.to_owned()))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// The path of a map; the file system takes no dots in names.
    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.0.join(name.trim_start_matches('.').replace('.', "_"))
    }

    /// The path of the link of the interface with this number.
    pub(super) fn link(&self, interface: u32) -> PathBuf {
        self.0.join(format!("link_{interface}"))
    }

    /// The interfaces that something is attached to.
    pub(super) fn links(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("link_")?.parse().ok());
        numbers.collect()
    }

    /// Held so that there is one process only: two that write the same tables would undo what the
    /// other does.
    pub(super) fn lock(&self) -> Result<Flock<File>, Error> {
        let path = self.0.display();
        let directory = File::open(&self.0)
            .map_err(|error| Error::kernel(format!("open the directory {path}"), error))?;
        Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|_| Error::Unsupported {
            needs: format!("one process at a time controls what is in {path}"),
            found: "another one does".to_owned(),
            remedy: "end it first; forwarding goes on meanwhile".to_owned(),
        })
    }

    /// Removes everything: with its last pin the kernel lets go of each.
    pub(super) fn remove(&self) -> Result<(), Error> {
        let failed = |path: &Path| {
            let attempt = format!("remove {}", path.display());
            move |error: IoError| Error::kernel(attempt, error)
        };
        // First nothing is forwarded any more, then the tables go.
        for interface in self.links() {
            let path = self.link(interface);
            fs::remove_file(&path).map_err(failed(&path))?;
        }
        for entry in fs::read_dir(&self.0).map_err(failed(&self.0))?.flatten() {
            fs::remove_file(entry.path()).map_err(failed(&entry.path()))?;
        }
        fs::remove_dir(&self.0).map_err(failed(&self.0))
    }
}

/// Takes away everything that was pinned: nothing is forwarded any more. `false`: there was
/// nothing.
///
/// # Errors
/// [`Error::Kernel`] when it cannot be removed.
pub fn remove(directory: &Path) -> Result<bool, Error> {
    match Pins::find(directory) {
        Some(pins) => pins.remove().map(|()| true),
        None => Ok(false),
    }
}

/// Can pins be in this directory, which need not be there?
///
/// # Errors
/// [`Error::Unsupported`] when it is on a file system of another kind.
pub fn check_directory(directory: &Path) -> Result<(), Error> {
    let existing = directory.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    let found = kind(existing)
        .map_err(|error| Error::kernel(format!("look at {}", existing.display()), error))?;
    if found == MAGIC {
        return Ok(());
    }
    Err(Error::Unsupported {
        needs: format!(
            "pins = \"{}\" must be on a BPF file system, so that forwarding goes on while no process runs",
            directory.display()
        ),
        found: format!("{} is not", existing.display()),
        remedy: "mount one (mount -t bpf bpf /sys/fs/bpf), or name a directory that is on one"
            .to_owned(),
    })
}

#[expect(unsafe_code, reason = "std does not tell the kind of a file system")]
fn kind(path: &Path) -> Result<i64, IoError> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeros is a valid value of it.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the kernel writes one such struct.
    match unsafe { libc::statfs(path.as_ptr(), &raw mut found) } {
        0 => Ok(found.f_type),
        _ => Err(IoError::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_system_is_refused_with_advice() {
        let error = Pins::open(Path::new("/tmp/fathom-no-bpf")).unwrap_err();
        assert!(error.to_string().contains("mount -t bpf"), "{error}");
        assert!(!remove(Path::new("/tmp/fathom-no-bpf")).unwrap());
    }
}
