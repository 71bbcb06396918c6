//! Commands of `fathom-server`, which are called by `fathom`, as git calls its own: a router needs
//! no engine for queries.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, io};

use anyhow::{Context, anyhow};

const NAME: &str = "fathom-server";

/// Becomes `fathom-server COMMAND ARGUMENTS`. It is beside this program, or where others are.
///
/// # Errors
/// When it is not installed, or cannot be run.
pub(crate) fn run(command: &str, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let program = beside().unwrap_or_else(|| NAME.into());
    let error = Command::new(program).arg(command).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return Err(anyhow!(
            "`fathom {command}` needs {NAME}, which is not installed: the package {NAME} has it, or `make build-server` builds it; it belongs beside fathom or into a directory of PATH"
        ));
    }
    Err(error).with_context(|| format!("cannot run {NAME}"))
}

fn beside() -> Option<PathBuf> {
    let path = env::current_exe().ok()?.with_file_name(NAME);
    path.is_file().then_some(path)
}
