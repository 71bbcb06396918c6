//! Comments and prose have 100 columns, as code has by rustfmt.

use crate::{extension, files, read};

const COLUMNS: usize = 100;
/// Programs write these.
const GENERATED: [&str; 2] = ["docs/records.md", "docs/performance.md"];

#[test]
fn comments_and_prose_have_100_columns() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in files() {
        let is_generated = GENERATED.contains(&path.as_str()) || path.ends_with("bindings.rs");
        let longest: fn(&str) -> Vec<usize> = match extension(&path) {
            "rs" if !is_generated => long_comments,
            "md" if !is_generated => long_prose,
            _ => continue,
        };
        count += 1;
        let numbers = longest(&read(&path)).into_iter();
        wrong.extend(numbers.map(|number| format!("{path}:{number}")));
    }
    assert!(count > 100, "sources and documents are found");
    assert_eq!(wrong, Vec::<String>::new());
}

/// Does the line break where it may? A name or an address may take as long as it is.
fn is_too_long(line: &str) -> bool {
    line.chars().count() > COLUMNS && line.trim_start().split_once(' ').is_some()
}

/// The numbers of lines of Rust that are comments, and too long.
fn long_comments(text: &str) -> Vec<usize> {
    let comments = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let text = line.trim_start().strip_prefix("//")?;
        Some((number, line, text.trim_start_matches(['/', '!', ' '])))
    });
    long(comments)
}

/// The numbers of lines of Markdown that are text, and too long.
fn long_prose(text: &str) -> Vec<usize> {
    let lines = (1..).zip(text.lines());
    let prose = lines.filter(|(_, line)| !line.starts_with(['|', '#', '<', '[']));
    long(
        prose
            .filter(|(_, line)| !line.starts_with("    "))
            .map(|(number, line)| (number, line, line)),
    )
}

/// The numbers of those that are too long; what stands between fences stays as it is. Lines have
/// their number, all of them, and their text.
fn long<'a>(lines: impl Iterator<Item = (usize, &'a str, &'a str)>) -> Vec<usize> {
    let mut is_shown = false;
    let lines = lines.filter(move |(_, _, text)| {
        is_shown ^= text.trim_start().starts_with("```");
        !is_shown
    });
    lines
        .filter(|(_, line, _)| is_too_long(line))
        .map(|(number, ..)| number)
        .collect()
}

#[test]
fn long_lines_are_found() {
    let long = "word ".repeat(COLUMNS / 4);
    let rust = format!("// {long}\n/// ```\n/// {long}\n/// ```\nlet it = \"{long}\";\n//! {long}");
    assert_eq!(long_comments(&rust), [1, 6]);
    let markdown = format!("{long}\n| {long}\n```\n{long}\n```\n    {long}\n- {long}");
    assert_eq!(long_prose(&markdown), [1, 7]);
}
