//! Completions and manual pages, from the declarations.

use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::output::Output;

/// Prints the completions of a shell.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(mut command: Command, shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "fathom", &mut script);
    let mut output = Output::text()?;
    output.put_text(&String::from_utf8_lossy(&script));
    output.finish()
}

/// Writes a page for every command into the directory.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn manual(command: Command, directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write manual pages into {}", directory.display());
    clap_mangen::generate_to(command, directory).with_context(failed)?;
    #[cfg(feature = "live")]
    std::fs::write(
        directory.join("fathom-records.7"),
        crate::reference::manual_page(),
    )
    .with_context(failed)?;
    Ok(())
}

/// Prints docs/records.md.
///
/// # Errors
/// When standard output cannot be written.
#[cfg(feature = "live")]
pub(crate) fn reference(of: &str) -> anyhow::Result<()> {
    let mut output = Output::text()?;
    let text = match of {
        "metrics" => crate::reference::metrics(),
        _ => crate::reference::markdown(),
    };
    output.put_text(&text);
    output.finish()
}
