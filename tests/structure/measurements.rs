//! All about a measurement is in two folders of its name: `crates/measure/src/NAME` and
//! `crates/fathom/src/NAME`.

use std::collections::BTreeMap;

use crate::words::{Word, words};
use crate::{extension, files, read};

/// Files outside its folders that may name a measurement: the library's list of modules, the
/// binary's lists of modules and commands, and, of what measures packets that pass, the programs
/// they share.
const MOST: usize = 3;

const LIBRARY: &str = "crates/measure/";
const BINARY: &str = "crates/fathom/src/";

/// A measurement is a folder of the library with a document of its own.
fn measurements() -> Vec<String> {
    let folder = |path: &String| {
        let name = path.strip_prefix("crates/measure/src/")?;
        name.strip_suffix("/README.md").map(str::to_owned)
    };
    let found: Vec<_> = files().iter().filter_map(folder).collect();
    let found: Vec<_> = found.into_iter().filter(|it| !it.contains('/')).collect();
    assert!(found.len() >= 4, "measurements are found: {found:?}");
    found
}

/// Sources of the product, and what each says.
fn sources() -> impl Iterator<Item = (String, Vec<Word>)> {
    let is_source = |path: &String| {
        let is_product = path.starts_with(LIBRARY) && !path.starts_with("crates/measure/tests/")
            || path.starts_with(BINARY);
        is_product && matches!(extension(path), "rs" | "h" | "c")
    };
    let files = files().into_iter().filter(is_source);
    files
        .map(|path| (words(&read(&path)), path))
        .map(|(words, path)| (path, words))
}

/// The measurement in whose folder a file is.
fn owner<'a>(path: &str, measurements: &'a [String]) -> Option<&'a str> {
    let folder = path
        .strip_prefix("crates/measure/src/")
        .or_else(|| path.strip_prefix(BINARY))?;
    let (folder, _) = folder.split_once('/')?;
    let mut names = measurements.iter().map(String::as_str);
    names.find(|name| *name == folder)
}

#[test]
fn measurements_do_not_import_their_siblings() {
    let measurements = measurements();
    let mut wrong = Vec::new();
    for (path, words) in sources() {
        let Some(own) = owner(&path, &measurements) else {
            continue;
        };
        for sibling in measurements.iter().filter(|name| *name != own) {
            if imports(&words, sibling) {
                wrong.push(format!("{path} imports {sibling}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Is it a module that is declared or a part of a path, in Rust or of an `#include`?
fn imports(words: &[Word], name: &str) -> bool {
    let is_path = |words: &[Word]| {
        matches!(words, [Word::Name(it), Word::Sign(':'), Word::Sign(':')] if it == name)
            || matches!(words, [Word::Sign(':'), Word::Sign(':'), Word::Name(it)] if it == name)
    };
    let is_include = |words: &[Word]| match words {
        [Word::Sign('#'), Word::Name(include), Word::Text(path)] => {
            include == "include" && path.split('/').any(|folder| folder == name)
        }
        _ => false,
    };
    let is_declared =
        |words: &[Word]| matches!(words, [Word::Name(a), Word::Name(b)] if a == "mod" && b == name);
    // `use crate::{a, b}`
    let is_used = |statement: &[Word]| {
        let names = |word: &&Word| matches!(word, Word::Name(it) if it == name);
        statement.contains(&Word::Name("use".to_owned())) && statement.iter().any(|it| names(&it))
    };
    words.windows(3).any(|it| is_path(it) || is_include(it))
        || words.windows(2).any(is_declared)
        || words.split(|it| *it == Word::Sign(';')).any(is_used)
}

#[test]
fn few_files_outside_its_folders_name_a_measurement() {
    let measurements = measurements();
    let mut naming: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, words) in sources() {
        if owner(&path, &measurements).is_some() {
            continue;
        }
        let is_c = extension(&path) != "rs";
        for name in &measurements {
            if imports(&words, name) || words.iter().any(|word| names(word, name, is_c)) {
                naming.entry(name).or_default().push(path.clone());
            }
        }
    }
    naming.retain(|_, files| files.len() > MOST);
    assert!(naming.is_empty(), "too many files name them: {naming:#?}");
}

/// Is this a measurement's type, a name of its C, or text that is its name or a path with it?
fn names(word: &Word, name: &str, is_c: bool) -> bool {
    match word {
        Word::Name(it) if is_c => it.to_ascii_lowercase().starts_with(&format!("{name}_")),
        Word::Name(it) => {
            let capital = name[..1].to_ascii_uppercase() + &name[1..];
            let rest = it.strip_prefix(&capital);
            rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
        }
        Word::Text(it) => it.split('/').any(|part| part == name),
        Word::Sign(_) => false,
    }
}

#[test]
fn imports_are_seen_in_rust_and_in_c() {
    let is_import = |source| imports(&words(source), "rtt");
    for import in [
        "use crate::rtt::Engine;",
        "use crate::{flow, rtt};",
        "let a = super::rtt::b();",
        "mod rtt;",
        "#include \"../rtt/tcp.h\"",
    ] {
        assert!(is_import(import), "{import}");
    }
    for other in ["let rtt = rtt_ns;", "// crate::rtt", "a(\"rtt\")"] {
        assert!(!is_import(other), "{other}");
    }
}
