//! Real programs as traffic: iperf3, ping, dnsmasq and dig, from the Debian packages of those names
//! (dig: bind9-dnsutils).

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use crate::{Error, Namespace, Process, Result, wait_until};

/// How long a server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Starts an iperf3 server and waits until it listens.
///
/// # Errors
/// [`Error::Start`] without iperf3, [`Error::Deadline`] when it does not listen.
pub fn iperf3_server(namespace: &Namespace, port: u16) -> Result<Process> {
    let mut command = namespace.command("iperf3");
    command.args(["--server", "--port"]).arg(port.to_string());
    start_server(namespace, command, &format!("tcp sport = :{port}"))
}

/// Starts an iperf3 client for `seconds` towards `server`, its JSON report piped; `options` are
/// passed on (`--reverse`, `--bitrate 10M`).
///
/// # Errors
/// [`Error::Start`] without iperf3.
pub fn iperf3_client(
    namespace: &Namespace,
    server: SocketAddr,
    seconds: u32,
    options: &[&str],
) -> Result<Process> {
    let mut command = namespace.command("iperf3");
    command
        .args(["--json", "--client", &server.ip().to_string()])
        .args(["--port", &server.port().to_string()])
        .args(["--time", &seconds.to_string()])
        .args(options)
        .stdout(Stdio::piped());
    Process::start(&mut command)
}

/// Pings `destination` and returns the round-trip times of the answers; missing answers are no
/// error.
///
/// # Errors
/// [`Error::Start`] without ping, [`Error::Deadline`] when it does not end.
pub fn ping(
    namespace: &Namespace,
    destination: IpAddr,
    count: u32,
    interval: Duration,
) -> Result<Vec<Duration>> {
    let mut command = namespace.command("ping");
    command
        .args(["-n", "-c", &count.to_string()])
        .args(["-i", &interval.as_secs_f64().to_string(), "-W", "4"])
        .arg(destination.to_string())
        .stdout(Stdio::piped());
    let patience = interval * count + Duration::from_secs(10);
    let output = Process::start(&mut command)?.output(patience)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let milliseconds = text
        .split("time=")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(milliseconds
        .map(|number| Duration::from_secs_f64(number / 1e3))
        .collect())
}

/// Starts dnsmasq at `address`, answering every name with 192.0.2.1 and `2001:db8::1` unless
/// `options` say otherwise, and waits until it listens.
///
/// # Errors
/// [`Error::Start`] without dnsmasq, [`Error::Deadline`] when it does not listen.
pub fn dnsmasq(
    namespace: &Namespace,
    address: SocketAddr,
    options: impl IntoIterator<Item = String>,
) -> Result<Process> {
    let mut command = namespace.command("dnsmasq");
    command
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file",
        ])
        .args(["--no-resolv", "--no-hosts", "--bind-interfaces"])
        .args(["--user=root", "--except-interface=lo"])
        .args(["--address=/#/192.0.2.1", "--address=/#/2001:db8::1"])
        .arg(format!("--listen-address={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .args(options)
        .stderr(Stdio::null());
    start_server(
        namespace,
        command,
        &format!("udp sport = :{}", address.port()),
    )
}

/// Asks `server` for `name` with dig, over TCP if wanted, and returns what it printed.
///
/// # Errors
/// [`Error::Start`] without dig, [`Error::Command`] when there is no answer.
pub fn dig(namespace: &Namespace, server: SocketAddr, name: &str, is_tcp: bool) -> Result<String> {
    let transport = if is_tcp { "+tcp" } else { "+notcp" };
    let (address, port) = (server.ip(), server.port());
    namespace.run(&format!(
        "dig @{address} -p {port} {name} A {transport} +timeout=3 +tries=2"
    ))
}

/// Starts `command` and waits until a socket matches the `ss` filter behind its protocol, as in
/// `tcp sport = :80`.
///
/// # Errors
/// [`Error::Start`] without the program, [`Error::Deadline`] when it does not listen.
pub fn start_server(
    namespace: &Namespace,
    mut command: std::process::Command,
    filter: &str,
) -> Result<Process> {
    let (protocol, filter) = filter.split_once(' ').unwrap_or(("tcp", filter));
    let query = format!("ss --no-header --listening --numeric --{protocol} {filter}");
    command.stdout(Stdio::null());
    let process = Process::start(&mut command)?;
    let mut failure: Option<Error> = None;
    let what = format!("`{}` to listen", command.get_program().to_string_lossy());
    wait_until(START_PATIENCE, &what, || match namespace.run(&query) {
        Ok(sockets) => !sockets.trim().is_empty(),
        Err(error) => {
            failure = Some(error);
            true
        }
    })?;
    failure.map_or(Ok(process), Err)
}
