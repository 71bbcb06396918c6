//! Takes the pictures of `fathom top` that documents show: an agent at the sender measures real
//! traffic in the lab, real keys are pressed on a real terminal, and what it shows becomes SVG.
//!
//! `pictures FOLDER STORE`; needs root, tmux and iperf3, and takes a minute. The store is for other
//! pictures of the same traffic.

mod svg;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_lab::traffic::loops::{Service, Shape, Workload, start_server};
use fathom_lab::traffic::tools;
use fathom_lab::{Chain, Direction, Family, LinkConfig, Process, wait_until};
use fathom_tests::{Terminal, attached_programs, binary};

const MILLISECOND: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);
/// Before and after the upload there is nothing but requests.
const QUIET: Duration = Duration::from_secs(18);
const UPLOAD_SECONDS: u32 = 16;
const PORT: u16 = 443;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().context("usage: pictures FOLDER STORE")?;
    let store = arguments.next().context("usage: pictures FOLDER STORE")?;
    let chain = chain()?;
    let _agent = agent(&chain, &store)?;
    thread::scope(|scope| {
        let requests = scope.spawn(|| requests(&chain));
        thread::sleep(QUIET);
        upload(&chain)?;
        thread::sleep(QUIET / 2);
        let taken = take(&store, &folder);
        let requests = requests
            .join()
            .map_err(|_| anyhow::anyhow!("requests failed"))?;
        taken.and(requests)
    })
}

/// Three routers, of which the second has a narrow link behind it.
fn chain() -> Result<Chain> {
    let narrow = LinkConfig {
        forward: Direction::delayed(6 * MILLISECOND).rate(20_000_000, 160_000),
        backward: Direction::delayed(6 * MILLISECOND),
        seed: 1,
    };
    let chain = Chain::builder(3)
        .link(1, LinkConfig::symmetric(MILLISECOND))
        .link(2, LinkConfig::symmetric(3 * MILLISECOND))
        .link(3, narrow)
        .link(4, LinkConfig::symmetric(MILLISECOND))
        .build()?;
    Ok(chain)
}

fn agent(chain: &Chain, store: &Path) -> Result<Process> {
    let mut command = chain.client.command(&binary()?.to_string_lossy());
    command
        .args(["agent", "--interval", "1s", "--metrics", "none", "--store"])
        .arg(store)
        .arg("--socket")
        .arg(store.with_extension("sock"));
    for measurement in ["rtt", "response", "traffic", "hops", "profile"] {
        command.args(["--measure", measurement]);
    }
    let agent = Process::start(command.stderr(Stdio::null()))?;
    wait_until(PATIENCE, "the agent to attach its programs", || {
        let attached = attached_programs(&chain.client, Chain::HOST_INTERFACE);
        attached.is_ok_and(|count| count >= 2)
    })?;
    Ok(agent)
}

/// Clients of a server, as long as pictures are taken.
fn requests(chain: &Chain) -> Result<()> {
    let address = SocketAddr::from((chain.server_address(Family::V4), PORT));
    let _server = start_server(&chain.server, address)?;
    let service = Service::Lognormal(12 * MILLISECOND, 0.6);
    let workload = Workload {
        connections: 6,
        think: Some(Service::Exponential(60 * MILLISECOND)),
        response_bytes: 6_000,
        duration: 3 * QUIET + Duration::from_secs(UPLOAD_SECONDS.into()),
        ..Workload::new(Shape::Window(1), service)
    };
    workload.run(&chain.client, address)?;
    Ok(())
}

/// One that fills the queue of the narrow link.
fn upload(chain: &Chain) -> Result<()> {
    let server = SocketAddr::from((chain.server_address(Family::V4), 5201));
    let _iperf3 = tools::iperf3_server(&chain.server, server.port())?;
    let mut client = tools::iperf3_client(&chain.client, server, UPLOAD_SECONDS, &[])?;
    client.wait_with_deadline(PATIENCE + Duration::from_secs(UPLOAD_SECONDS.into()))?;
    Ok(())
}

/// The list of flows, and the page of one that waited behind the upload.
fn take(store: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let command = format!(
        "exec {} top --store {}",
        binary()?.display(),
        store.display()
    );
    let terminal = Terminal::open("list", 150, 14, &command)?;
    terminal.shows(&["live", ":443"])?;
    svg::write(&folder.join("top.svg"), &terminal.coloured()?)?;
    drop(terminal);
    let terminal = Terminal::open("page", 150, 40, &command)?;
    terminal.shows(&["live", ":443"])?;
    terminal.press(&["s", "s", "Enter"])?;
    terminal.shows(&["round trip", "response", "bit/s", "router", "events"])?;
    svg::write(&folder.join("top-flow.svg"), &terminal.coloured()?)
}
