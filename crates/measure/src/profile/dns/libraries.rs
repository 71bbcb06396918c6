//! The C libraries in use: those that processes have mapped, in whatever container, and those that
//! programs would find here.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the libraries of programs yet to start may be.
const FOLDERS: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/lib32"];

/// A C library that has `getaddrinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Library {
    /// What it is to the kernel: device and inode.
    pub(super) file: (u64, u64),
    /// A path that opens it now.
    pub(super) path: PathBuf,
    /// The path that those see who have mapped it.
    pub(super) name: String,
    /// The mount namespace that it was found in; `None`: our own.
    pub(super) namespace: Option<u64>,
}

/// What a look through the processes has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Libraries of processes that the look before did not see, and at the first look those on
    /// disk.
    pub(super) libraries: Vec<Library>,
    /// Mount namespaces that processes are in.
    pub(super) namespaces: HashSet<u64>,
}

/// Looks through the processes again and again.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// What the last look saw: process, and the program that it runs.
    seen: HashSet<(u32, u64, u64)>,
    has_begun: bool,
}

impl Search {
    /// Looks through the processes; those that have neither changed nor are new cost two system
    /// calls each.
    pub(super) fn look(&mut self) -> Found {
        let mut found = Found::default();
        let own_namespace = namespace_of(Path::new("/proc/self"));
        if !self.has_begun {
            self.has_begun = true;
            found.libraries.extend(on_disk());
        }
        let mut seen = HashSet::new();
        for folder in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = folder
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let path = folder.path();
            // Threads of the kernel run no program; others are gone by now, or not ours to look at.
            let Some(namespace) = namespace_of(&path) else {
                continue;
            };
            let Ok(program) = path.join("exe").metadata() else {
                continue;
            };
            found.namespaces.insert(namespace);
            let process = (process, program.dev(), program.ino());
            seen.insert(process);
            if !self.seen.contains(&process) {
                let namespace = Some(namespace).filter(|_| own_namespace != Some(namespace));
                found.libraries.extend(mapped_by(&path, namespace));
            }
        }
        self.seen = seen;
        found
    }
}

fn namespace_of(process: &Path) -> Option<u64> {
    let metadata = process.join("ns/mnt").metadata().ok()?;
    Some(metadata.ino())
}

/// Those that a process has mapped.
fn mapped_by(process: &Path, namespace: Option<u64>) -> Vec<Library> {
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let mappings = maps.lines().filter_map(mapping);
    mappings
        .filter_map(|(range, name)| {
            // Leads to the file itself: in another mount namespace, or deleted, its path would not.
            let path = process.join("map_files").join(range);
            Library::open(path, name, namespace)
        })
        .collect()
}

/// The range and the name of a mapping of code of a C library.
fn mapping(line: &str) -> Option<(&str, &str)> {
    let mut words = line.splitn(6, ' ');
    let range = words.next()?;
    let may_run = words.next()?.as_bytes().get(2) == Some(&b'x');
    let name = words.nth(3)?.trim_start();
    let file = name.strip_suffix(" (deleted)").unwrap_or(name);
    // Where musl's loader is a link, this is what it leads to. glibc has a text of that name, which
    // nobody maps.
    let is_musl = file.ends_with("/libc.so");
    (may_run && (is_musl || is_library(Path::new(file)))).then_some((range, name))
}

/// Is it what glibc or musl is called?
fn is_library(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let version = name.strip_prefix("libc-2.");
    let is_old_glibc = version.is_some_and(|version| version.strip_suffix(".so").is_some());
    let is_musl =
        (name.starts_with("ld-musl-") || name.starts_with("libc.musl-")) && name.ends_with(".so.1");
    name == "libc.so.6" || is_old_glibc || is_musl
}

/// Those in the folders where the loaders of both look, and in the folders of architectures below.
fn on_disk() -> Vec<Library> {
    let mut found: Vec<Library> = Vec::new();
    for folder in FOLDERS.map(Path::new) {
        let below = entries(folder).into_iter().filter(|path| path.is_dir());
        let files = below.flat_map(|folder| entries(&folder));
        for path in entries(folder).into_iter().chain(files) {
            if is_library(&path)
                && let Some(library) = Library::open(path.clone(), &path.to_string_lossy(), None)
                && found.iter().all(|known| known.file != library.file)
            {
                found.push(library);
            }
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

impl Library {
    fn open(path: PathBuf, name: &str, namespace: Option<u64>) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            path,
            name: name.to_owned(),
            namespace,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_of_c_libraries() {
        let code = "7f0be36ed000-7f0be3842000 r-xp 00026000 fe:00 1583                       /usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(
            mapping(code),
            Some((
                "7f0be36ed000-7f0be3842000",
                "/usr/lib/x86_64-linux-gnu/libc.so.6"
            ))
        );
        let deleted = format!("{code} (deleted)");
        assert!(mapping(&deleted).is_some_and(|(_, name)| name.ends_with(" (deleted)")));
        assert!(mapping(&code.replace("libc.so.6", "libc.so")).is_some());
        assert_eq!(mapping(&code.replace("r-xp", "r--p")), None);
        assert_eq!(mapping(&code.replace("libc.so.6", "libcurl.so.4")), None);
        assert_eq!(
            mapping(
                "7ffd5a9f7000-7ffd5a9f9000 r-xp 00000000 00:00 0                          [vdso]"
            ),
            None
        );
        assert_eq!(
            mapping("7ffd5a9f7000-7ffd5a9f9000 rw-p 00000000 00:00 0 "),
            None
        );
        assert_eq!(mapping(""), None);
    }

    #[test]
    fn names_of_c_libraries() {
        for name in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libc-2.31.so",
            "/lib/ld-musl-x86_64.so.1",
            "/lib/libc.musl-x86_64.so.1",
        ] {
            assert!(is_library(Path::new(name)), "{name}");
        }
        for name in [
            "/lib/libc.so",
            "/lib/libc++.so.1",
            "/lib/ld-linux-x86-64.so.2",
            "/",
            "",
        ] {
            assert!(!is_library(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn this_process_is_found_once() {
        let mut search = Search::default();
        let own = mapped_by(Path::new("/proc/self"), None);
        let first = search.look();
        if own.is_empty() {
            println!("skipped: this test has no C library, or may not follow map_files");
            return;
        }
        assert!(
            first
                .libraries
                .iter()
                .any(|library| library.file == own[0].file)
        );
        let again = search.look();
        let of_us = format!("/proc/{}/", std::process::id());
        assert!(
            again
                .libraries
                .iter()
                .all(|library| !library.path.starts_with(&of_us))
        );
    }
}
