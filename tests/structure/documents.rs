//! What documents name exists: paths, headings, messages.

use std::collections::BTreeMap;

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

/// Also in documents that name files of elsewhere, such as CHANGELOG.md.
#[test]
fn headings_that_links_lead_to_exist() {
    let files = files();
    let documents: Vec<_> = files.iter().filter(|it| extension(it) == "md").collect();
    let anchors: BTreeMap<_, _> = documents
        .iter()
        .map(|document| (document.as_str(), anchors(&read(document))))
        .collect();
    let mut missing = Vec::new();
    let mut count = 0;
    for document in &documents {
        let text = read(document);
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (path, anchor) in targets(&text).filter_map(|target| target.split_once('#')) {
            count += 1;
            let target = match path {
                "" => (*document).clone(),
                path => resolved(folder, path),
            };
            let there = anchors.get(target.as_str());
            if !there.is_some_and(|there| there.iter().any(|it| it == anchor)) {
                missing.push(format!("{document} links to {path}#{anchor}"));
            }
        }
    }
    assert!(count > 10, "links with headings are found");
    assert_eq!(missing, Vec::<String>::new());
}

/// What the headings of a document are called in links, as GitHub and mdBook do it.
fn anchors(text: &str) -> Vec<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = words
            .replace(' ', "-")
            .chars()
            .filter(|it| it.is_alphanumeric() || "-_".contains(*it))
            .collect();
        let before = anchors.iter().filter(|it| **it == anchor).count();
        anchors.push(match before {
            0 => anchor,
            number => format!("{anchor}-{number}"),
        });
    }
    anchors
}

/// Messages stand in the first column of tables, with `…` for what is filled in.
#[test]
fn messages_that_users_are_told_about_are_in_the_sources() {
    let files = files();
    let sources = files
        .iter()
        .filter(|it| it.starts_with("crates/") && it.contains("/src/") && extension(it) == "rs");
    let sources: Vec<_> = sources.map(|path| literals(&read(path))).collect();
    let text = read("docs/troubleshooting.md");
    let messages = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<_> = messages.filter_map(|rest| rest.split('`').next()).collect();
    assert!(messages.len() > 20, "messages are found");
    let unknown = messages.into_iter().filter(|message| {
        let parts: Vec<_> = message.split('…').filter(|it| !it.is_empty()).collect();
        !sources.iter().any(|source| has_in_a_row(source, &parts))
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// A source whose texts of several lines are in one.
fn literals(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    let joined = parts.fold(first, |all, part| all + part.trim_start());
    joined.replace("\\\"", "\"")
}

/// Whether the parts stand one after the other, on one line, with something in between.
fn has_in_a_row(source: &str, parts: &[&str]) -> bool {
    source.lines().any(|line| {
        let mut rest = line;
        parts.iter().all(|part| match rest.split_once(part) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    })
}

/// What links of Markdown lead to, but for addresses.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':'))
}

/// The files of these, but for the document itself.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let files = targets(text).filter_map(|target| target.split('#').next());
    files.filter(|file| !file.is_empty())
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
