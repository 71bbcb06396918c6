//! A control group for a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_lab::wait_until;

/// How long the kernel may take to see off its last process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A control group of the version 2 hierarchy; dropped, it is gone.
#[derive(Debug)]
pub struct Group(PathBuf);

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
        let folder = Path::new(mount).join(format!("fathom-test-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Some(Self(folder)))
    }

    /// Its folder.
    pub fn folder(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Its path in the hierarchy.
    pub fn path(&self) -> String {
        let name = self.0.file_name().and_then(|name| name.to_str());
        format!("/{}", name.unwrap_or_default())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Busy until the kernel has seen off its last process.
        let _ = wait_until(PATIENCE, "the control group to go", || {
            fs::remove_dir(&self.0).is_ok()
        });
    }
}
