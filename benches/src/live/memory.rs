//! What a process takes of memory, its own and the kernel's on its behalf.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, bail};
use libbpf_rs::query::MapInfoIter;

/// A map, or all programs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelObject {
    /// The map's name, or `programs`.
    pub name: String,
    /// What the kernel says that it takes, unused entries that exist from the start included.
    pub bytes: u64,
}

/// Memory of a process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Resident now, in bytes, without the pages of maps, which the kernel counts.
    pub resident_bytes: u64,
    /// Of these, those of no file and no map: what it has allocated.
    pub anonymous_bytes: u64,
    /// Resident at most so far, likewise.
    pub peak_bytes: u64,
    /// Maps and programs that it holds.
    pub kernel: Vec<KernelObject>,
}

impl Memory {
    /// Asks the kernel about a process.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let rollup = read(&format!("/proc/{process}/smaps_rollup"))?;
        let status = read(&format!("/proc/{process}/status"))?;
        // Tables and rings, which stay what they are.
        let of_maps = pages_of_maps(&read(&format!("/proc/{process}/smaps"))?);
        let own = |kilobytes: u64| kilobytes.saturating_sub(of_maps) * 1024;
        Ok(Self {
            resident_bytes: own(kilobytes(&rollup, "Rss:")?),
            anonymous_bytes: kilobytes(&rollup, "Anonymous:")? * 1024,
            peak_bytes: own(kilobytes(&status, "VmHWM:")?),
            kernel: kernel_objects(process)?,
        })
    }

    /// All maps and programs together.
    pub fn kernel_bytes(&self) -> u64 {
        self.kernel.iter().map(|object| object.bytes).sum()
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {path}"))
}

/// The number behind a name that starts a line, in whatever unit follows.
fn number(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

fn kilobytes(text: &str, name: &str) -> anyhow::Result<u64> {
    number(text, name).with_context(|| format!("there is no {name} of the process"))
}

/// Kilobytes of mapped BPF maps that are resident, of `/proc/PID/smaps`.
fn pages_of_maps(smaps: &str) -> u64 {
    let mut is_map = false;
    let mut total = 0;
    for line in smaps.lines() {
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            is_map = line.ends_with("bpf-map");
        } else if is_map {
            total += number(line, "Rss:").unwrap_or(0);
        }
    }
    total
}

/// What `/proc/PID/fdinfo` tells of BPF file descriptors; an object may be open under several.
fn kernel_objects(process: u32) -> anyhow::Result<Vec<KernelObject>> {
    let names: BTreeMap<u64, String> = MapInfoIter::default()
        .map(|map| (u64::from(map.id), map.name.to_string_lossy().into_owned()))
        .collect();
    let folder = format!("/proc/{process}/fdinfo");
    let (mut maps, mut programs) = (BTreeMap::new(), BTreeMap::new());
    for entry in fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        // It may have been closed since.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let Some(bytes) = number(&text, "memlock:") else {
            continue;
        };
        if let Some(id) = number(&text, "map_id:") {
            maps.insert(id, bytes);
        } else if let Some(id) = number(&text, "prog_id:") {
            programs.insert(id, bytes);
        }
    }
    if maps.is_empty() {
        bail!("process {process} holds no BPF maps");
    }
    let held = maps.into_iter().map(|(id, bytes)| KernelObject {
        name: names.get(&id).cloned().unwrap_or_default(),
        bytes,
    });
    let all_programs = KernelObject {
        name: "programs".to_owned(),
        bytes: programs.values().sum(),
    };
    Ok(held.chain([all_programs]).collect())
}

/// Whether `process` has attached its programs to both directions of an interface, by links.
pub(super) fn has_links(process: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
        return false;
    };
    let texts = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts
        .filter(|text| text.starts_with("link_type:") || text.contains("\nlink_type:"))
        .count()
        >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let text = "map_type:\t9\nmemlock:\t29361024\nRss:   1234 kB\n";
        assert_eq!(number(text, "memlock:"), Some(29_361_024));
        assert_eq!(number(text, "Rss:"), Some(1234));
        assert_eq!(number(text, "VmHWM:"), None);
    }

    #[test]
    fn pages_of_maps_are_told_apart() {
        let smaps = "7f00-7f10 rw-p 00000000 00:00 0 \nRss:   8 kB\nPss:  8 kB\n\
                     7f10-7f20 rw-s 00000000 00:0e 12  anon_inode:bpf-map\nRss:   64 kB\nPss: 9 kB\n\
                     7f20-7f30 r--p 00000000 fe:00 3  /usr/bin/fathom\nRss:   16 kB\n";
        assert_eq!(pages_of_maps(smaps), 64);
    }

    #[test]
    fn a_process_without_maps_is_an_error() {
        let error = Memory::of(std::process::id()).unwrap_err();
        assert!(error.to_string().contains("no BPF maps"), "{error}");
    }
}
