//! A control group for a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_lab::wait_until;

/// How long the kernel may take to see off its last process.
const PATIENCE: Duration = Duration::from_secs(30);

/// Groups that this process has made: several of its tests run at a time.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A control group of the version 2 hierarchy; dropped, it is gone.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    /// Those below it that were made, each before what is below that.
    below: Vec<PathBuf>,
}

impl Group {
    /// Makes one; `None`, having said why, where no such hierarchy is mounted.
    pub fn create() -> Result<Option<Self>> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read what is mounted")?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let folder = words.next()?;
            (words.next()? == "cgroup2").then_some(folder)
        });
        let Some(mount) = mount else {
            println!("skipped: no version 2 hierarchy of control groups is mounted");
            return Ok(None);
        };
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(mount).join(format!("fathom-test-{}-{nth}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Some(Self {
            folder,
            below: Vec::new(),
        }))
    }

    /// Makes a group some levels below it, and returns its folder.
    pub fn make_below(&mut self, path: &str) -> Result<PathBuf> {
        let mut folder = self.folder.clone();
        for name in path.split('/') {
            folder.push(name);
            fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
            self.below.push(folder.clone());
        }
        Ok(folder)
    }

    /// The path of this process in that hierarchy; empty where it has none.
    pub fn own_path() -> String {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
        path.unwrap_or_default().to_owned()
    }

    /// Its folder.
    pub fn folder(&self) -> &str {
        self.folder.to_str().unwrap_or_default()
    }

    /// Its path in the hierarchy.
    pub fn path(&self) -> String {
        let name = self.folder.file_name().and_then(|name| name.to_str());
        format!("/{}", name.unwrap_or_default())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.below.iter().rev().chain([&self.folder]) {
            // Busy until the kernel has seen off its last process.
            let _ = wait_until(PATIENCE, "the control group to go", || {
                fs::remove_dir(folder).is_ok()
            });
        }
    }
}
