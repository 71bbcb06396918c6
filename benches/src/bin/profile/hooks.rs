//! Empty programs in the places of fathom's: the least that looking at those places costs on this kernel.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::Context;
use libbpf_rs::{Link, Object, ObjectBuilder};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hooks.bpf.o"));
/// Those that hang on the root control group.
const ON_GROUP: [&str; 3] = ["empty_operation", "empty_attempt", "empty_accept"];

/// All of them, attached; gone when dropped.
pub(super) struct Hooks {
    _links: Vec<Link>,
    _object: Object,
}

impl Hooks {
    /// Loads and attaches.
    pub(super) fn attach() -> anyhow::Result<Self> {
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .and_then(libbpf_rs::OpenObject::load)
            .context("load the empty programs")?;
        let root = File::open(group_root()?).context("open the root control group")?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let is_on_group = ON_GROUP
                .iter()
                .any(|name| program.name() == OsStr::new(name));
            let link = if is_on_group {
                program.attach_cgroup(root.as_raw_fd())
            } else {
                program.attach()
            };
            links.push(link.with_context(|| format!("attach {}", program.name().display()))?);
        }
        Ok(Self {
            _links: links,
            _object: object,
        })
    }
}

/// Where the version 2 hierarchy of control groups is mounted.
pub(super) fn group_root() -> anyhow::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
    let root = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let folder = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(folder))
    });
    root.context("no version 2 hierarchy of control groups is mounted")
}
