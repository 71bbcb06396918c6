//! Rows of the table in which a benchmark ends.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Error, Result};

/// What was asked, and what was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was measured, in a few words.
    pub what: String,
    /// What must be reached, in words; empty where there is no target.
    pub target: String,
    /// The figure, with its unit.
    pub measured: String,
    /// Whether it is reached, where there is a target.
    pub is_reached: Option<bool>,
}

impl Row {
    /// The row in Markdown.
    ///
    /// ```
    /// use fathom_lab::summary::Row;
    ///
    /// let row = Row { what: "memory".into(), target: "at most 40 MB".into(), measured: "34.8 MB".into(), is_reached: Some(true) };
    /// assert_eq!(row.markdown(), "| memory | at most 40 MB | 34.8 MB | reached |");
    /// ```
    pub fn markdown(&self) -> String {
        let verdict = match self.is_reached {
            None => "",
            Some(true) => "reached",
            Some(false) => "MISSED",
        };
        format!(
            "| {} | {} | {} | {verdict} |",
            self.what, self.target, self.measured
        )
    }
}

/// Prints the rows, and appends them to the file `path` if there is one.
///
/// # Errors
/// [`Error::Runtime`] when the file cannot be written.
pub fn conclude(rows: &[Row], path: Option<&Path>) -> Result<()> {
    let lines: Vec<String> = rows.iter().map(Row::markdown).collect();
    for line in &lines {
        println!("{line}");
    }
    let Some(path) = path else {
        return Ok(());
    };
    let append = || {
        let mut file = File::options().create(true).append(true).open(path)?;
        lines.iter().try_for_each(|line| writeln!(file, "{line}"))
    };
    append().map_err(|error| Error::runtime(format!("append to {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_appended() {
        let path = std::env::temp_dir().join(format!("fathom-summary-{}.md", std::process::id()));
        let row = Row {
            what: "a".to_owned(),
            target: "b".to_owned(),
            measured: "c".to_owned(),
            is_reached: Some(false),
        };
        conclude(std::slice::from_ref(&row), Some(&path)).unwrap();
        conclude(&[row], Some(&path)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "| a | b | c | MISSED |\n".repeat(2));
    }
}
