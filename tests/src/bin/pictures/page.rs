//! Blocks of a document that a program writes, each between two lines that name it.

use std::path::Path;

use anyhow::{Context, Result};

/// A name, and the lines between.
pub(crate) type Block = (&'static str, String);

/// Puts blocks in place of those that are there.
///
/// # Errors
/// When the document has no place for one.
pub(crate) fn write(path: &Path, blocks: &[Block]) -> Result<()> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let text = blocks.iter().try_fold(text, |text, block| {
        replaced(&text, block).with_context(|| format!("{shown} has no place for `{}`", block.0))
    })?;
    std::fs::write(path, text).with_context(|| format!("cannot write {shown}"))
}

fn replaced(text: &str, (name, block): &Block) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {name}: written by make pictures -->\n"),
        "<!-- end -->",
    );
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{block}{end}{after}"))
}
