//! What ARCHITECTURE.md promises of the sources themselves, and that documents name what there is.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod columns;
mod crates;
mod documents;
mod measurements;
mod words;

use std::path::Path;

use fathom_tests::repository as root;

/// All files of the repository, by their paths below its root.
fn files() -> Vec<String> {
    let mut files = Vec::new();
    collect(&root(), "", &mut files);
    files.sort();
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() {
            files.push(format!("{prefix}{name}"));
        } else if !name.starts_with('.') && !["node_modules", "target"].contains(&name.as_str()) {
            collect(&path, &format!("{prefix}{name}/"), files);
        }
    }
}

/// What stands behind the last dot.
fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}
