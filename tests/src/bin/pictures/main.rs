//! Takes the pictures of `fathom top` that documents show, and what `docs/questions.md` cites: an
//! agent on a gateway measures real traffic in the lab, one thing after the other goes wrong there,
//! real keys are pressed on a real terminal, and what is shown becomes SVG.
//!
//! `pictures FOLDER STORE PAGE`; needs root, tmux and iperf3, and takes three minutes. The page is
//! the document. What `fathom serve` is to show of the store is printed. If an answer does not name
//! what went wrong, it fails. A store that is there, with what went wrong beside it, is asked
//! again.

mod answers;
mod page;
mod scene;
mod svg;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_tests::{Terminal, binary};

use answers::{Answers, Faults};
use scene::{NORTH, Scene};

/// After the upload, so that pictures show its end.
const AFTER: Duration = Duration::from_secs(8);

fn main() -> Result<()> {
    let usage = "usage: pictures FOLDER STORE PAGE";
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let [folder, store, page] = [(); 3].map(|()| arguments.next().context(usage));
    let (folder, store, page) = (folder?, store?, page?);
    let told = store.with_extension("json");
    if !store.exists() {
        let faults = measure(&folder, &store)?;
        std::fs::write(&told, serde_json::to_string(&faults)?)?;
    }
    let faults = serde_json::from_str(&std::fs::read_to_string(&told)?)?;
    let answers = Answers::get(&store, &faults)?;
    page::write(&page, &answers.blocks)?;
    println!("{}", answers.views);
    answers.judged()
}

/// Lets one thing after the other go wrong, and takes the pictures of a terminal meanwhile.
fn measure(folder: &Path, store: &Path) -> Result<Faults> {
    std::fs::create_dir_all(folder)?;
    let mut scene = Scene::build(store)?;
    let slow_server = scene.slow_server()?;
    take_explanation(store, folder)?;
    let full_link = scene.full_link()?;
    thread::sleep(AFTER);
    take_flows(store, folder)?;
    let full_access = scene.full_access()?;
    let (lossy_access, lost) = scene.lossy_access()?;
    scene.end()?;
    Ok(Faults {
        slow_server,
        full_link,
        full_access,
        lossy_access,
        lost,
    })
}

/// What the servers' tab says of North, when asked for its cause.
fn take_explanation(store: &Path, folder: &Path) -> Result<()> {
    let options = format!("--tab servers --filter {NORTH}");
    let terminal = top("explained", (130, 24), store, &options)?;
    terminal.shows(&["live", ":443"])?;
    terminal.press(&["e"])?;
    terminal.shows(&["a response takes"])?;
    svg::write(&folder.join("top-explained.svg"), &terminal.coloured()?)
}

/// The list of flows, and the page of one that waited behind the upload: of those, the busiest.
fn take_flows(store: &Path, folder: &Path) -> Result<()> {
    let terminal = top("list", (150, 14), store, "")?;
    terminal.shows(&["live", ":443"])?;
    svg::write(&folder.join("top.svg"), &terminal.coloured()?)?;
    drop(terminal);
    let terminal = top("page", (150, 40), store, &format!("--filter {NORTH}:443"))?;
    // A row: the filter itself is there at once.
    terminal.shows(&["live", "tcp 10."])?;
    terminal.press(&["Enter"])?;
    terminal.shows(&["round trip", "response", "bit/s", "router", "events"])?;
    svg::write(&folder.join("top-flow.svg"), &terminal.coloured()?)
}

/// `fathom top`, on a terminal of so many columns and rows.
fn top(name: &str, (columns, rows): (u16, u16), store: &Path, options: &str) -> Result<Terminal> {
    let (program, store) = (binary()?, store.display());
    let command = format!("exec {} top --store {store} {options}", program.display());
    Terminal::open(name, columns, rows, &command)
}
