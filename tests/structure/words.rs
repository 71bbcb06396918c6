//! Sources of Rust and C as words, without their comments.

/// A part of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// A name or a number.
    Name(String),
    /// What stands between quotes.
    Text(String),
    /// Anything else.
    Sign(char),
}

/// What a source says. Tests at its end are no part of it.
pub(crate) fn words(source: &str) -> Vec<Word> {
    let mut rest = without_tests(source);
    let mut words = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            let length = text_length(rest);
            words.push(Word::Text(rest[1..length - 1].to_owned()));
            length
        } else if first == '\'' {
            character_length(rest)
        } else if is_of_name(first) {
            let length = rest.find(|it| !is_of_name(it)).unwrap_or(rest.len());
            words.push(Word::Name(rest[..length].to_owned()));
            length
        } else {
            if !first.is_whitespace() {
                words.push(Word::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    words
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn without_tests(source: &str) -> &str {
    let ends = [
        "\n#[cfg(test)]\nmod tests {",
        "\n#[cfg(test)]\npub(super) mod tests {",
    ];
    let end = ends.iter().filter_map(|end| source.find(end)).min();
    &source[..end.unwrap_or(source.len())]
}

/// With both quotes.
fn text_length(rest: &str) -> usize {
    let mut is_escaped = true;
    for (index, character) in rest.char_indices() {
        match character {
            '"' if !is_escaped => return index + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    rest.len()
}

/// A character between quotes, or the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let from = 2 + escaped.len_utf8();
            rest[from..].find('\'').map_or(from, |end| from + end + 1)
        }
        (Some(character), Some('\'')) => character.len_utf8() + 2,
        _ => 1,
    }
}

#[test]
fn comments_and_tests_say_nothing() {
    let source =
        "use a; // b\n/* c */ 'd' \"e \\\" f\" fn g<'h>() '\\''\n#[cfg(test)]\nmod tests { i }";
    let names: Vec<_> = words(source)
        .into_iter()
        .filter_map(|word| match word {
            Word::Name(name) | Word::Text(name) => Some(name),
            Word::Sign(_) => None,
        })
        .collect();
    assert_eq!(names, ["use", "a", "e \\\" f", "fn", "g", "h"]);
}
