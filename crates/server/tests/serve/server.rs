//! A server, and what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// What it printed first.
    pub(crate) url: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) fn command(store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom-server"));
    command
        .args(["serve", "--store"])
        .arg(store)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Server {
    pub(crate) fn start(store: &Path) -> Self {
        Self::start_with(store, &["--listen", "127.0.0.1:0"])
    }

    pub(crate) fn start_with(store: &Path, arguments: &[&str]) -> Self {
        let mut process = command(store, arguments).spawn().unwrap();
        let mut url = String::new();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        errors.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let after = url.split_once("://").map(|(_, rest)| rest);
        let address = after.and_then(|rest| rest.split('/').next()?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{url} is no address"));
        // What it says later goes where the test's own output goes.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::stderr()));
        Self {
            process,
            address,
            url,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_as(path, &[])
    }

    /// With these headers; `Host` takes the place of the usual one.
    pub(crate) fn get_as(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(&request(self.address, "GET", path, headers, ""))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [("Content-Type", "application/json")];
        self.ask(&request(
            self.address,
            "POST",
            path,
            &headers,
            &body.to_string(),
        ))
    }

    pub(crate) fn statement(&self, statement: &str) -> Answer {
        self.post(
            "/api/v1/sql",
            &serde_json::json!({ "statement": statement }),
        )
    }

    /// Sends bytes, and reads until the server closes.
    pub(crate) fn ask(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.send(bytes);
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Duration) {
        let begin = Instant::now();
        let pid = self.pid().to_string();
        Command::new("kill").arg(&pid).status().unwrap();
        (self.process.wait().unwrap(), begin.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Vec<u8> {
    let address = address.to_string();
    let length = body.len().to_string();
    let usual = [
        ("Host", address.as_str()),
        ("Connection", "close"),
        ("Content-Length", length.as_str()),
    ];
    let usual = usual
        .into_iter()
        .filter(|(name, _)| !headers.iter().any(|(own, _)| own == name));
    let mut lines = vec![format!("{method} {path} HTTP/1.1")];
    lines.extend(
        usual
            .chain(headers.iter().copied())
            .map(|(name, value)| format!("{name}: {value}")),
    );
    format!("{}\r\n\r\n{body}", lines.join("\r\n")).into_bytes()
}
