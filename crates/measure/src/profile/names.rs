//! Names that many records share: each is made once.

use std::cell::RefCell;
use std::ffi::c_char;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::group::{ControlGroup, InGroup};
use super::moment::text;

/// More names than this are forgotten at once and learnt anew: processes can rename themselves
/// without end.
const NAMES_MAX: usize = 4096;

/// Names by what the kernel calls them. Clones know the same: to learn the control groups, all
/// their folders are read, and connections, DNS exchanges and lookups are in the same groups.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Rc<RefCell<Known>>);

impl Names {
    /// With the paths of control groups below `root`.
    pub(super) fn new(root: Option<PathBuf>) -> Self {
        Self(Rc::new(RefCell::new(Known {
            root,
            ..Known::default()
        })))
    }

    /// A name of at most 16 bytes; `None` if it is empty.
    pub(super) fn text(&self, name: &[c_char; 16]) -> Option<Arc<str>> {
        (name[0] != 0).then(|| self.0.borrow_mut().text(name))
    }

    /// The control group of this number, by its path, or by its number as text if it is gone;
    /// none for sockets without one.
    pub(super) fn group(&self, id: u64) -> InGroup {
        InGroup((id != 0).then(|| self.0.borrow_mut().group(id)))
    }
}

#[derive(Debug, Default)]
struct Known {
    texts: FxHashMap<[u64; 2], Arc<str>>,
    groups: FxHashMap<u64, Arc<ControlGroup>>,
    /// Where control groups are mounted.
    root: Option<PathBuf>,
}

impl Known {
    fn text(&mut self, name: &[c_char; 16]) -> Arc<str> {
        if self.texts.len() >= NAMES_MAX {
            self.texts.clear();
        }
        let known = self.texts.entry(words(name));
        Arc::clone(known.or_insert_with(|| text(name).into()))
    }

    fn group(&mut self, id: u64) -> Arc<ControlGroup> {
        if !self.groups.contains_key(&id) {
            self.learn_groups();
        }
        let group = self.groups.entry(id);
        Arc::clone(group.or_insert_with(|| ControlGroup::at(&id.to_string()).into()))
    }

    /// The number of a control group is that of its folder's inode; none has it again. Records of
    /// groups that are gone may still come, so these are remembered.
    fn learn_groups(&mut self) {
        if self.groups.len() >= NAMES_MAX {
            self.groups.clear();
        }
        let Some(root) = self.root.clone() else {
            return;
        };
        let number = root.metadata().map(|metadata| metadata.ino());
        let mut folders = vec![(number.unwrap_or_default(), root.clone())];
        while let Some((number, folder)) = folders.pop() {
            if self.groups.len() >= NAMES_MAX {
                return;
            }
            let group = self.groups.entry(number);
            group.or_insert_with(|| ControlGroup::at(&path_below(&root, &folder)).into());
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            folders.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| (entry.ino(), entry.path())),
            );
        }
    }
}

/// The same bytes, which are hashed faster so.
fn words(name: &[c_char; 16]) -> [u64; 2] {
    let (words, _) = name.as_chunks::<8>();
    [words[0], words[1]].map(|word| u64::from_ne_bytes(word.map(|byte| byte.to_ne_bytes()[0])))
}

fn path_below(root: &Path, folder: &Path) -> String {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    format!("/{}", below.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn clones_know_what_one_has_learnt() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("shop.service");
        fs::create_dir(&folder).unwrap();
        let id = folder.metadata().unwrap().ino();
        let path = |names: &Names| names.group(id).0.unwrap().cgroup.to_string();
        let names = Names::new(Some(root.path().to_owned()));
        let of_lookups = names.clone();
        assert_eq!(path(&names), "/shop.service");
        fs::remove_dir(&folder).unwrap();
        assert_eq!(path(&of_lookups), "/shop.service");
        let later = Names::new(Some(root.path().to_owned()));
        assert_eq!(path(&later), id.to_string());
    }
}
