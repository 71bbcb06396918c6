//! Control groups of the version 2 hierarchy.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::Error;

/// Why there is no [`group_root`].
pub(crate) const NO_GROUPS: &str =
    "no version 2 hierarchy of control groups is mounted, and this process may not mount it";

/// A control group as the kernel's programs compare it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Group {
    /// The inode of its folder; 0: all groups.
    pub(crate) number: u64,
    /// How many groups are above it.
    pub(crate) level: u32,
}

impl Group {
    /// The group of a folder.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when it is none.
    pub(crate) fn of(folder: &Path) -> Result<Self, Error> {
        let wrong = |found: String| Error::Unsupported {
            needs: format!(
                "{} must be a folder of the version 2 hierarchy of control groups",
                folder.display()
            ),
            found,
            remedy: match mounted() {
                Some(root) => format!("it is mounted at {}", root.display()),
                None => "none is mounted here".to_owned(),
            },
        };
        let metadata = folder
            .metadata()
            .map_err(|error| wrong(error.to_string()))?;
        let root = mounted().ok_or_else(|| wrong("there is none".to_owned()))?;
        let folder = folder
            .canonicalize()
            .map_err(|error| wrong(error.to_string()))?;
        let below = folder
            .strip_prefix(&root)
            .map_err(|_| wrong("it is not".to_owned()))?;
        Ok(Self {
            number: metadata.ino(),
            level: below.components().count() as u32,
        })
    }
}

/// The folder of the hierarchy's root. Where it is not mounted, as within `ip netns exec`, this
/// process mounts it for itself, at no place.
pub(crate) fn group_root() -> Option<PathBuf> {
    static OWN: LazyLock<Option<OwnedFd>> = LazyLock::new(|| mount().ok());
    mounted().or_else(|| OWN.as_ref().map(path_of))
}

fn path_of(opened: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", opened.as_raw_fd()).into()
}

/// Where the hierarchy is mounted.
fn mounted() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let is_version_2 = kind.split(' ').next() == Some("cgroup2");
        is_version_2
            .then(|| mount.split(' ').nth(4).map(PathBuf::from))
            .flatten()
    })
}

/// Mounts it where nobody else sees it, until the process ends.
fn mount() -> rustix::io::Result<OwnedFd> {
    let hierarchy = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(hierarchy.as_fd())?;
    fsmount(
        hierarchy.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_RDONLY,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_folders_are_no_groups() {
        let folder = std::env::temp_dir();
        assert!(matches!(
            Group::of(&folder),
            Err(Error::Unsupported { needs, .. }) if needs.starts_with(&folder.display().to_string())
        ));
    }

    #[test]
    fn a_mount_of_its_own_has_the_same_groups() {
        let Some(root) = mounted() else {
            println!("skipped: no version 2 hierarchy of control groups is mounted");
            return;
        };
        let opened = match mount() {
            Ok(opened) => opened,
            Err(error) => {
                println!("skipped: this process may not mount: {error}");
                return;
            }
        };
        let own = path_of(&opened);
        let number = |folder: &Path| folder.metadata().unwrap().ino();
        assert_eq!(number(&own), number(&root));
        assert!(own.join("cgroup.procs").exists());
    }

    #[test]
    fn the_root_is_above_all() {
        let Some(root) = mounted() else {
            println!("skipped: no version 2 hierarchy of control groups is mounted");
            return;
        };
        let group = Group::of(&root).unwrap();
        assert_eq!(group.level, 0);
        assert_ne!(group.number, 0);
    }
}
