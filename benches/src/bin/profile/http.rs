//! Short connections as servers see them: `wrk` asks `nginx` for a file of a kilobyte, each time
//! over a connection of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use fathom_lab::{Namespace, Process, wait_until};

use super::least::group_root;
use super::overhead::Load;
use super::short::{CLIENT_PORTS, SERVER};

/// Connections that the client has open at a time.
const CONCURRENCY: u32 = 64;
const FILE_BYTES: usize = 1_024;
const PATIENCE: Duration = Duration::from_secs(10);

/// Both at work, one thread each, on one processor: on two, what a connection takes depends on when
/// they meet, and varies by a third. Killed when dropped.
pub(super) struct Http {
    // Dropped in this order: a control group goes when nobody is in it.
    client: Process,
    server: Process,
    group: Group,
    _folder: Folder,
}

/// A control group of the server's own.
struct Group(PathBuf);

/// Where the server's files are.
struct Folder(PathBuf);

impl Http {
    /// What is not installed, if anything.
    pub(super) fn obstacle() -> Option<String> {
        let lacks = |program: &&str| Command::new(program).arg("-v").output().is_err();
        let missing = ["nginx", "wrk"].into_iter().find(lacks)?;
        Some(format!("{missing} is not installed"))
    }

    /// Starts both over the loopback of `namespace`; `folder` is for the server's files.
    pub(super) fn start(namespace: &Namespace, folder: &Path) -> anyhow::Result<Self> {
        namespace.set("net/ipv4/ip_local_port_range", CLIENT_PORTS)?;
        let group = Group::new()?;
        let folder = Folder::new(folder)?;
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec taskset -c 0 nginx -c {}/nginx.conf -e {1}/errors",
            group.0.display(),
            folder.0.display()
        );
        let server = Process::start(
            namespace
                .command("sh")
                .args(["-c", &enter])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        wait_until(PATIENCE, "nginx to listen", || {
            let connect = || std::net::TcpStream::connect(SERVER).is_ok();
            namespace.enter(connect).unwrap_or(false)
        })?;
        let client = Process::start(
            namespace
                .command("taskset")
                .args([
                    "-c",
                    "0",
                    "wrk",
                    "-t",
                    "1",
                    "-c",
                    &CONCURRENCY.to_string(),
                    "-d",
                    "1h",
                ])
                .args(["-H", "Connection: close", &format!("http://{SERVER}/file")])
                .stdout(Stdio::null()),
        )?;
        Ok(Self {
            client,
            server,
            group,
            _folder: folder,
        })
    }

    /// The control group of the server, in which its ends of the connections are.
    pub(super) fn server_group(&self) -> &Path {
        &self.group.0
    }
}

impl Load for Http {
    fn done(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/net/snmp", self.server.id());
        let counts = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        accepted(&counts).with_context(|| format!("{path} has no count of connections"))
    }

    fn check(&self) -> anyhow::Result<()> {
        let is_alive =
            |process: &Process| Path::new(&format!("/proc/{}/exe", process.id())).exists();
        ensure!(is_alive(&self.client), "wrk has ended");
        ensure!(is_alive(&self.server), "nginx has ended");
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.client.id(), self.server.id()]
    }
}

impl Group {
    fn new() -> anyhow::Result<Self> {
        let path = group_root()?.join(format!("fathom-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes in it are dead, but may not be gone yet.
        let _ = wait_until(PATIENCE, "the control group to be empty", || {
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

impl Folder {
    fn new(parent: &Path) -> anyhow::Result<Self> {
        let path = parent.canonicalize()?.join("nginx");
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        let folder = Self(path);
        let path = folder.0.display();
        let configuration = format!(
            "daemon off; master_process off; pid {path}/pid;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n\
             access_log off;\n\
             client_body_temp_path {path}; proxy_temp_path {path}; fastcgi_temp_path {path}; uwsgi_temp_path {path}; scgi_temp_path {path};\n\
             server {{ listen {SERVER} backlog=4096; root {path}; }}\n\
             }}\n"
        );
        fs::write(folder.0.join("nginx.conf"), configuration)?;
        fs::write(folder.0.join("file"), [b'.'; FILE_BYTES])?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is said by nobody, and overwritten by the next.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Connections accepted so far, in the counts of a network namespace (`PassiveOpens`, RFC 4022).
fn accepted(counts: &str) -> Option<u64> {
    let mut lines = counts.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let position = names.split(' ').position(|name| name == "PassiveOpens")?;
    values.split(' ').nth(position)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_name() {
        let counts = "Ip: Forwarding\nIp: 1\nTcp: RtoMin ActiveOpens PassiveOpens\nTcp: 200 7 9\n";
        assert_eq!(accepted(counts), Some(9));
        assert_eq!(accepted("Ip: Forwarding\nIp: 1\n"), None);
    }
}
