//! Control groups of the version 2 hierarchy.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;

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
            remedy: match group_root() {
                Some(root) => format!("it is mounted at {}", root.display()),
                None => "none is mounted here".to_owned(),
            },
        };
        let metadata = folder
            .metadata()
            .map_err(|error| wrong(error.to_string()))?;
        let root = group_root().ok_or_else(|| wrong("there is none".to_owned()))?;
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

/// Where the hierarchy is mounted.
pub(crate) fn group_root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let is_version_2 = kind.split(' ').next() == Some("cgroup2");
        is_version_2
            .then(|| mount.split(' ').nth(4).map(PathBuf::from))
            .flatten()
    })
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
    fn the_root_is_above_all() {
        let Some(root) = group_root() else {
            println!("skipped: no version 2 hierarchy of control groups is mounted");
            return;
        };
        let group = Group::of(&root).unwrap();
        assert_eq!(group.level, 0);
        assert_ne!(group.number, 0);
    }
}
