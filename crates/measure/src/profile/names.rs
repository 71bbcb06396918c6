//! Names that many records share: each is made once.

use std::ffi::c_char;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::group::{ControlGroup, InGroup};
use super::moment::text;

/// More names than this are forgotten at once and learnt anew: processes can rename themselves
/// without end.
const NAMES_MAX: usize = 4096;

/// Names by what the kernel calls them.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: FxHashMap<[u64; 2], Arc<str>>,
    groups: FxHashMap<u64, Arc<ControlGroup>>,
    /// Where control groups are mounted.
    root: Option<PathBuf>,
}

impl Names {
    /// With the paths of control groups below `root`.
    pub(super) fn new(root: Option<PathBuf>) -> Self {
        Self {
            root,
            ..Self::default()
        }
    }

    /// A name of at most 16 bytes; `None` if it is empty.
    pub(super) fn text(&mut self, name: &[c_char; 16]) -> Option<Arc<str>> {
        if name[0] == 0 {
            return None;
        }
        if self.texts.len() >= NAMES_MAX {
            self.texts.clear();
        }
        let known = self.texts.entry(words(name));
        Some(Arc::clone(known.or_insert_with(|| text(name).into())))
    }

    /// The control group of this number, by its path, or by its number as text if it is gone;
    /// none for sockets without one.
    pub(super) fn group(&mut self, id: u64) -> InGroup {
        if id == 0 {
            return InGroup::default();
        }
        if !self.groups.contains_key(&id) {
            self.learn_groups();
        }
        let group = self.groups.entry(id);
        let group = group.or_insert_with(|| ControlGroup::at(&id.to_string()).into());
        InGroup(Some(Arc::clone(group)))
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
    [words[0], words[1]].map(|word| u64::from_ne_bytes(word.map(c_char::cast_unsigned)))
}

fn path_below(root: &Path, folder: &Path) -> String {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    format!("/{}", below.display())
}
