//! The least that profiles of connections cost on this kernel: programs in the places of fathom's
//! that do nothing, but for records as long as its own with nothing in them, and a process that
//! writes a line as long as its own for each, always the same, or a row of a Parquet file for every
//! second one.

mod rows;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use fathom_lab::{Namespace, Process};
use libbpf_rs::{MapCore, ObjectBuilder, RingBufferBuilder};
use rows::Rows;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/least.bpf.o"));
/// Those that hang on the root control group.
const ON_GROUP: [&str; 3] = ["empty_operation", "empty_attempt", "empty_accept"];
/// As fathom does.
const POLL: Duration = Duration::from_millis(50);
/// As long as fathom's lines of JSON are, on average.
const LINE: [u8; 1_250] = [b'.'; 1_250];
const FULL: usize = 64 * 1024;
/// Said once all is attached.
const ATTACHED: &str = "attached";
/// The hidden option that makes this program the process of it.
pub(super) const OPTION: &str = "--least";

/// A process that does the least; killed when dropped.
pub(super) struct Least(Process);

impl Least {
    /// Starts it, and waits until its programs are attached. With `file`, it writes rows there.
    pub(super) fn start(namespace: &Namespace, file: Option<&Path>) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("find this program")?;
        let (said, says) = io::pipe().context("make a pipe")?;
        let mut command = namespace.command(&own.to_string_lossy());
        command.arg(OPTION).args(file);
        command.stdout(Stdio::null()).stderr(says);
        let process = Process::start(&mut command)?;
        drop(command);
        let mut message = String::new();
        let mut said = BufReader::new(said);
        said.read_line(&mut message).context("wait for it")?;
        if message.trim() != ATTACHED {
            let _ = said.read_to_string(&mut message);
        }
        ensure!(message.trim() == ATTACHED, "it does not run: {message}");
        Ok(Self(process))
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

/// What that process does until it is killed.
pub(super) fn run(file: Option<&Path>) -> anyhow::Result<()> {
    let mut rows = file.map(Rows::create).transpose()?;
    let object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .and_then(libbpf_rs::OpenObject::load)
        .context("load the programs")?;
    let root = File::open(group_root()?).context("open the root control group")?;
    let mut attached = Vec::new();
    for program in object.progs_mut() {
        let is_on_group = ON_GROUP
            .iter()
            .any(|name| program.name() == OsStr::new(name));
        let link = if is_on_group {
            program.attach_cgroup(root.as_raw_fd())
        } else {
            program.attach()
        };
        attached.push(link.with_context(|| format!("attach {}", program.name().display()))?);
    }
    let ring = object.maps().find(|map| map.name() == "least_records");
    let ring = ring.context("find the ring")?;
    let mut out = io::stdout();
    let mut lines = Vec::with_capacity(2 * FULL);
    let mut records = 0_u64;
    let mut builder = RingBufferBuilder::new();
    builder.add(&ring, |_| {
        records += 1;
        if let Some(rows) = &mut rows {
            // A short connection has one row where it has two lines.
            let is_written = records.is_multiple_of(2) || rows.add().is_ok();
            return if is_written { 0 } else { -1 };
        }
        lines.extend_from_slice(&LINE);
        if lines.len() >= FULL {
            // Who does not take them is not waited for.
            let _ = out.write_all(&lines);
            lines.clear();
        }
        0
    })?;
    let ring = builder.build()?;
    eprintln!("{ATTACHED}");
    loop {
        thread::sleep(POLL);
        ring.consume()?;
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
