//! Paths that documents name exist.

use crate::{extension, files, read};

/// Documents for users and for builders.
fn documents(files: &[String]) -> impl Iterator<Item = &String> {
    files.iter().filter(|path| {
        let is_top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&path.as_str());
        let is_of_folder = path.starts_with("docs/") && extension(path) == "md";
        is_top || is_of_folder || path.ends_with("/README.md")
    })
}

#[test]
fn paths_that_documents_name_exist() {
    let files = files();
    let mut missing = Vec::new();
    let mut count = 0;
    for document in documents(&files) {
        let text = read(document);
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in links(&text) {
            count += 1;
            let path = resolved(folder, link);
            if !path.is_empty() && !files.iter().any(|file| is_at(file, &path)) {
                missing.push(format!("{document} links to {link}"));
            }
        }
        for span in spans(&text).filter(|span| is_path(span)) {
            count += 1;
            let path = resolved(if span.starts_with('.') { folder } else { "" }, span);
            if !files.iter().any(|file| is_below(file, &path)) {
                missing.push(format!("{document} names {span}"));
            }
        }
    }
    assert!(count > 100, "paths are found");
    assert_eq!(missing, Vec::<String>::new());
}

/// What links of Markdown lead to, but for addresses and places in the same document.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.contains(':') && !target.is_empty())
}

/// What stands between backquotes in a line.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let lines = text.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// A file or folder of this repository, by what it looks like. Words in capitals stand for
/// something else.
fn is_path(span: &str) -> bool {
    const SOURCES: [&str; 5] = [".rs", ".h", ".c", ".md", ".vector"];
    const FOLDERS: [&str; 9] = [
        "crates/", "benches/", "tests/", "docs/", "scripts/", "fuzz/", "src/", "bpf/", "native/",
    ];
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-*".contains(it);
    let is_made = span.split(['/', '.', '_']).any(|part| {
        part.len() > 2 && part.chars().all(|it| it.is_ascii_uppercase()) && part != "README"
    });
    let is_here = SOURCES
        .iter()
        .any(|end| span.ends_with(end) && span.len() > end.len())
        || FOLDERS.iter().any(|start| span.starts_with(start));
    is_here && span.chars().all(is_plain) && !is_made
}

/// From the root of the repository.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Is the file there, or in a folder there?
fn is_at(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The same at any depth; `*` stands for a part of a name.
fn is_below(file: &str, path: &str) -> bool {
    let file: Vec<&str> = file.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    file.windows(path.len())
        .any(|parts| parts.iter().zip(&path).all(|(part, name)| fits(part, name)))
}

fn fits(part: &str, name: &str) -> bool {
    match name.split_once('*') {
        None => part == name,
        Some((start, end)) => part.starts_with(start) && part[start.len()..].ends_with(end),
    }
}
