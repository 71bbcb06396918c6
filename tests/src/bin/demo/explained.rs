//! The second part: an agent keeps records, a page shows them, the queue of a link fills, and
//! `fathom explain` says what it was.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_tests::binary;
use fathom_tests::explained::{Case, Fault};

/// How long all is well.
const QUIET: Duration = Duration::from_secs(20);
const NS_PER_MS: f64 = 1e6;

const INTRODUCTION: &str = "
Another network: a client, four routers in a row, three servers. `fathom agent` on the client keeps what it measures in a store.
";

/// `fathom serve`, which ends with the demonstration.
struct Page(Child);

impl Page {
    fn open(store: &Path) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]);
        let mut page = Self(command.arg(store).stderr(Stdio::piped()).spawn()?);
        let told = page.0.stderr.take().context("hear what the page says")?;
        let mut address = String::new();
        BufReader::new(told).read_line(&mut address)?;
        ensure!(address.starts_with("http"), "fathom serve: {address}");
        println!("Look at it while it lasts: {address}");
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shows it.
///
/// # Errors
/// When the explanation is wrong.
pub(crate) fn show() -> Result<()> {
    let server = std::env::current_exe()?.with_file_name("explained");
    let directory = tempfile::tempdir().context("make a directory")?;
    let case = Case {
        faults: vec![Fault::HopForward],
        seed: 1,
    };
    println!("{INTRODUCTION}");
    let told = case.run_beside(&server, directory.path(), QUIET, |store| {
        let page = Page::open(store)?;
        println!("In 20 s, other traffic fills the queue of one link.");
        Ok(page)
    })?;
    println!(
        "\nWhat `fathom explain` says of the service:\n\n  {}\n",
        told.text
    );
    let parts = told.explanation["parts"].as_array().into_iter().flatten();
    for part in parts {
        let ms = |name: &str| part[name].as_f64().map(|ns| ns / NS_PER_MS);
        let before = ms("before_ns").map_or_else(String::new, |ms| format!("{ms:.1} ms before"));
        println!(
            "  {:<36} {:>8.1} ms  {before}",
            part["name"].as_str().unwrap_or_default(),
            ms("now_ns").unwrap_or_default()
        );
    }
    println!("\nThe truth: {}.", case.faults[0]);
    if !case.is_right(&told) {
        bail!("the explanation is wrong: is this machine very busy?");
    }
    Ok(())
}
