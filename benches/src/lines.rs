//! Records as fathom prints them.

/// The value of a name in a record in JSON, without its quotes. There are too many records to take
/// each apart.
pub fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}
