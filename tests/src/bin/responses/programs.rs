//! Real programs: what clients say that they waited, beside what `fathom response` finds from their
//! requests alone.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_lab::traffic::tools;
use fathom_lab::{LinkConfig, Namespace, Process, Topology};
use fathom_tests::Fathom;
use fathom_tests::responses::{Epoch, RouterLab};
use tempfile::TempDir;

use crate::http3;
use crate::wireguard::{self, Tunnel};

const PATIENCE: Duration = Duration::from_secs(30);
/// Of the network between client and server, for the server that answers at once.
const LINK_ROUND_TRIP: Duration = Duration::from_millis(4);
/// How long nginx and the server of HTTP/3 wait before they answer.
const SERVICE: Duration = Duration::from_millis(3);

/// A client and its server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    client: Client,
    /// In a tunnel of `WireGuard`, whose packets are all that is measured.
    is_tunnelled: bool,
}

/// Which client, and what it is asked to do.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// With nginx.
    Wrk(&'static str),
    /// With nginx.
    H2load(&'static str),
    /// With redis.
    RedisBenchmark(&'static str),
    /// A pair of our own on a library of others.
    Http3,
}

const fn program(name: &'static str, client: Client) -> Program {
    Program {
        name,
        client,
        is_tunnelled: false,
    }
}

const fn tunnelled(name: &'static str, client: Client) -> Program {
    Program {
        is_tunnelled: true,
        ..program(name, client)
    }
}

pub(crate) const PROGRAMS: [Program; 14] = [
    program(
        "nginx, wrk, HTTP/1.1",
        Client::Wrk("-c 4 http://SERVER:8080/"),
    ),
    program(
        "nginx, wrk, HTTPS/1.1",
        Client::Wrk("-c 4 https://SERVER:8443/"),
    ),
    program(
        "nginx, h2load, HTTP/1.1",
        Client::H2load("--h1 http://SERVER:8080/"),
    ),
    program(
        "nginx, h2load, HTTP/2, one stream",
        Client::H2load("-m 1 http://SERVER:8081/"),
    ),
    program(
        "nginx, h2load, HTTP/2 over TLS, one stream",
        Client::H2load("-m 1 https://SERVER:8443/"),
    ),
    program(
        "nginx, h2load, HTTP/2 over TLS, four streams",
        Client::H2load("-m 4 https://SERVER:8443/"),
    ),
    program(
        "nginx, h2load, HTTP/2, 100 KB, windows of 64 KiB",
        Client::H2load("-m 1 -w 16 -W 16 http://SERVER:8081/large"),
    ),
    program(
        "nginx, h2load, HTTP/2 over TLS, 100 KB, windows of 64 KiB",
        Client::H2load("-m 1 -w 16 -W 16 https://SERVER:8443/large"),
    ),
    program(
        "redis, one request at a time",
        Client::RedisBenchmark("-c 4 -n 20000 -P 1"),
    ),
    program(
        "redis, eight requests at a time",
        Client::RedisBenchmark("-c 4 -n 20000 -P 8"),
    ),
    program("HTTP/3, quinn", Client::Http3),
    tunnelled(
        "WireGuard: nginx, wrk, HTTP/1.1",
        Client::Wrk("-c 1 http://SERVER:8080/"),
    ),
    tunnelled(
        "WireGuard: nginx, wrk, HTTP/1.1, 100 KB",
        Client::Wrk("-c 1 http://SERVER:8080/large"),
    ),
    tunnelled(
        "WireGuard: redis, one request at a time",
        Client::RedisBenchmark("-c 1 -n 2000 -P 1"),
    ),
];

/// What both say.
pub(crate) struct Compared {
    /// What the client waited, on average, in ms.
    client_ms: f64,
    /// The estimates, weighted by how many responses each stands for, in ms; `None` without any.
    fathom_ms: Option<f64>,
    epochs: usize,
    estimated: usize,
    sure: usize,
}

impl Compared {
    fn new(client_ms: f64, epochs: &[Epoch]) -> Self {
        let (mut sum, mut weight) = (0.0, 0.0);
        for epoch in epochs {
            if let Some(latency_ns) = epoch.latency_ns {
                let gaps = f64::from(epoch.causal_gaps.max(1));
                sum += latency_ns as f64 / 1e6 * gaps;
                weight += gaps;
            }
        }
        Self {
            client_ms,
            fathom_ms: (weight > 0.0).then(|| sum / weight),
            epochs: epochs.len(),
            estimated: epochs
                .iter()
                .filter(|epoch| epoch.latency_ns.is_some())
                .count(),
            sure: epochs
                .iter()
                .filter(|epoch| epoch.confidence == "high")
                .count(),
        }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "client {:.3} ms, ", self.client_ms)?;
        match self.fathom_ms {
            None => formatter.write_str("no estimate, ")?,
            Some(own) => {
                let error = (own - self.client_ms) / self.client_ms * 100.0;
                write!(formatter, "fathom {own:.3} ms ({error:+.1} %), ")?;
            }
        }
        let Self {
            epochs,
            estimated,
            sure,
            ..
        } = self;
        write!(
            formatter,
            "{estimated} of {epochs} epochs with an estimate, {sure} sure"
        )
    }
}

impl Program {
    /// Lets both work for some seconds, with a `fathom response` at the router between them.
    pub(crate) fn run(&self) -> Result<Compared> {
        let link = matches!(self.client, Client::RedisBenchmark(_))
            .then(|| LinkConfig::symmetric(LINK_ROUND_TRIP / 2));
        let lab = RouterLab::new(link.as_ref())?;
        let [client, router, server] = lab.hosts();
        let _server = self.client.start_server(server)?;
        let tunnel = self.is_tunnelled.then(|| Tunnel::start(client, server));
        let tunnel = tunnel.transpose()?;
        let fathom = Fathom::start_command("response", router, &[Topology::LAN_INTERFACE], &[])?;
        let address = tunnel
            .as_ref()
            .map_or(Topology::SERVER_V4, |_| wireguard::SERVER);
        let client_ms = self.client.run(client, server, address)?;
        lab.settle()?;
        tunnel.map_or(Ok(()), Tunnel::finish)?;
        Ok(Compared::new(client_ms, &fathom.finish()?.epochs()))
    }
}

impl Client {
    /// The server that it asks, until what is returned is dropped.
    fn start_server(self, namespace: &Namespace) -> Result<Option<(Process, TempDir)>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().display();
        let (mut command, filter) = match self {
            Self::Http3 => return Ok(None),
            Self::RedisBenchmark(_) => {
                let mut command = namespace.command("redis-server");
                command.args(["--port", "6379", "--protected-mode", "no", "--save", ""]);
                (command, "tcp sport = :6379")
            }
            Self::Wrk(_) | Self::H2load(_) => {
                configure_nginx(folder.path())?;
                let mut command = namespace.command("nginx");
                command.args(["-c", &format!("{path}/nginx.conf")]);
                command.args(["-e", &format!("{path}/errors")]);
                (command, "tcp sport = :8080")
            }
        };
        command.current_dir(folder.path()).stderr(Stdio::null());
        let process = tools::start_server(namespace, command, filter)?;
        Ok(Some((process, folder)))
    }

    /// What it waited for an answer, on average, in ms.
    fn run(self, client: &Namespace, server: &Namespace, address: IpAddr) -> Result<f64> {
        let (command, find): (_, fn(&str) -> Option<f64>) = match self {
            Self::Http3 => return http3::run(client, server, SERVICE),
            Self::Wrk(target) => (format!("wrk -t 1 -d 5 {target}"), mean_of_wrk),
            Self::H2load(options) => (format!("h2load -t 1 -c 4 -D 5 {options}"), mean_of_h2load),
            Self::RedisBenchmark(options) => (
                format!("redis-benchmark -h SERVER -t get --csv {options}"),
                mean_of_redis,
            ),
        };
        let command = command.replace("SERVER", &address.to_string());
        let mut words = command.split(' ');
        let mut run = client.command(words.next().unwrap_or_default());
        let output = Process::start(run.args(words).stdout(Stdio::piped()))?.output(PATIENCE)?;
        let text = String::from_utf8_lossy(&output.stdout);
        find(&text).with_context(|| format!("`{command}` does not say how long it waited: {text}"))
    }
}

/// With a certificate of its own, it waits before it answers.
fn configure_nginx(folder: &Path) -> Result<()> {
    let signed = rcgen::generate_simple_self_signed([Topology::SERVER_V4.to_string()])?;
    fs::write(folder.join("certificate"), signed.cert.pem())?;
    fs::write(folder.join("key"), signed.signing_key.serialize_pem())?;
    let path = folder.display();
    let mut text = format!(
        "load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;\n\
         daemon off; master_process off; pid {path}/pid;\n\
         events {{ }}\n\
         http {{\n\
         access_log off; keepalive_requests 1000000; http2_max_concurrent_streams 128;\n\
         client_body_temp_path {path}; proxy_temp_path {path}; fastcgi_temp_path {path}; uwsgi_temp_path {path}; scgi_temp_path {path};\n\
         ssl_certificate {path}/certificate; ssl_certificate_key {path}/key;\n"
    );
    for listen in ["8080", "8081 http2", "8443 ssl http2"] {
        let wait = SERVICE.as_secs_f64();
        writeln!(
            text,
            "server {{ listen {listen}; location / {{ echo_sleep {wait}; echo hello; }} location /large {{ echo_sleep {wait}; echo_duplicate 100000 x; }} }}"
        )?;
    }
    text.push_str("}\n");
    fs::write(folder.join("nginx.conf"), text)?;
    Ok(())
}

/// In `    Latency     3.55ms  200.00us   9.00ms   90.00%`.
fn mean_of_wrk(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Latency"))?;
    milliseconds(line.split_whitespace().next()?)
}

/// In `time for request:      3.01ms      9.00ms      3.55ms       200us    90.00%`: least, most,
/// mean.
fn mean_of_h2load(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("time for request:"))?;
    milliseconds(line.split_whitespace().nth(2)?)
}

/// The third column of the second line is the mean in ms.
fn mean_of_redis(text: &str) -> Option<f64> {
    text.lines()
        .nth(1)?
        .split(',')
        .nth(2)?
        .trim_matches('"')
        .parse()
        .ok()
}

fn milliseconds(text: &str) -> Option<f64> {
    let (number, factor) = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// Why these cannot run here, if they cannot.
pub(crate) fn obstacle() -> Option<String> {
    let programs = ["nginx", "wrk", "h2load", "redis-server", "redis-benchmark"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing = programs.iter().find(|program| !is_there(program))?;
    Some(format!(
        "{missing} is not installed: `make setup` installs it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_print_is_understood() {
        let wrk = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     3.55ms  200.00us   9.00ms   90.00%\n";
        assert_eq!(mean_of_wrk(wrk), Some(3.55));
        let h2load =
            "time for request:      3.01ms      9.00ms       812us       200us    90.00%\n";
        assert_eq!(mean_of_h2load(h2load), Some(0.812));
        let redis =
            "\"test\",\"rps\",\"avg_latency_ms\",\"min\"\n\"GET\",\"900.01\",\"4.377\",\"4.1\"\n";
        assert_eq!(mean_of_redis(redis), Some(4.377));
        assert_eq!(mean_of_redis("nothing\n"), None);
    }
}
