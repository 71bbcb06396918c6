//! What a connection takes, and what there is without any.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fathom_balance::native::{BALANCE_BUCKET_SLOTS, balance_bucket, balance_measured};
use fathom_benches::live::Memory;
use fathom_lab::summary::Row;
use fathom_lab::{Namespace, Process, wait_until};

const SERVICES: u32 = 10;
const MOST_BYTES: u64 = 16_000_000;
/// 16 of the connection, 96 of what is measured, and 48 for what its client thinks.
const MOST_PLACE_BYTES: usize = 160;
/// The tables of connections, by the first 15 letters of their names: the kernel keeps no more.
const OF_CONNECTIONS: [&str; 2] = ["balance_buckets", "balance_measure"];
const PATIENCE: Duration = Duration::from_secs(20);

/// What a place of the table of connections takes.
pub(crate) fn of_a_connection() -> Row {
    let connection = size_of::<balance_bucket>() / BALANCE_BUCKET_SLOTS as usize;
    let bytes = connection + size_of::<balance_measured>();
    Row {
        what: "memory, balancer, a place of the table of connections".to_owned(),
        target: format!("at most {MOST_PLACE_BYTES} bytes"),
        measured: format!("{bytes} bytes; {connection} where none is measured"),
        is_reached: Some(bytes <= MOST_PLACE_BYTES),
    }
}

/// What a balancer takes besides its connections: what the kernel says of the maps and programs of
/// a process that balances ten services, and what that has allocated itself. (Maps that it has
/// mapped are resident twice, but there once.)
pub(crate) fn of_services(fathom: &Path) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let (balancer, other) = (Namespace::new("balancer")?, Namespace::new("other")?);
    balancer.connect("eth0", &other, "eth0")?;
    balancer.add_address("eth0", "10.77.0.2/24")?;
    let file = directory.path().join("lb.toml");
    let socket = directory.path().join("socket");
    fs::write(&file, configuration(directory.path()))?;
    let mounted = directory.path().join("bpf");
    fs::create_dir(&mounted)?;
    // What it pins lies on a file system that goes with the process.
    let mut command = balancer.command("unshare");
    command.args(["--mount", "sh", "-c"]);
    command.arg("mount -t bpf bpf \"$1\" && exec \"$2\" balance --config \"$3\"");
    command.arg("sh").arg(&mounted).arg(fathom).arg(&file);
    let process = Process::start(&mut command)?;
    wait_until(PATIENCE, "fathom balance to answer", || socket.exists())?;
    let memory = Memory::of(process.id())?;
    let connections = memory
        .kernel
        .iter()
        .filter(|object| OF_CONNECTIONS.contains(&object.name.as_str()));
    let connections: u64 = connections.map(|object| object.bytes).sum();
    let fixed = memory.kernel_bytes() - connections;
    let total = fixed + memory.anonymous_bytes;
    Ok(Row {
        what: format!("memory, balancer, {SERVICES} services, without connections"),
        target: "less than 16 MB".to_owned(),
        measured: format!(
            "{:.1} MB: {:.1} MB in the kernel, {:.1} MB that the process has allocated; room for connections besides {:.1} MB",
            total as f64 / 1e6,
            fixed as f64 / 1e6,
            memory.anonymous_bytes as f64 / 1e6,
            connections as f64 / 1e6
        ),
        is_reached: Some(total < MOST_BYTES),
    })
}

fn configuration(directory: &Path) -> String {
    let mut text = format!(
        "interfaces = [\"eth0\"]\npins = '{0}/bpf/pins'\nsocket = '{0}/socket'\n[health]\ncheck = \"none\"\n",
        directory.display()
    );
    for number in 1..=SERVICES {
        let _ = write!(
            text,
            "[[server]]\nname = \"s{number}\"\naddress = \"10.77.0.{}\"\n[[service]]\nname = \"v{number}\"\naddress = \"10.77.9.{number}\"\nport = 80\n",
            10 + number
        );
    }
    text
}
