//! `fathom profile` and those who read what it prints: late, not at all, no more; and disks that
//! are full.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_lab::{Namespace, Process, wait_until};
use fathom_tests::{Record, binary};
use nix::libc;
use nix::sys::signal::Signal;

const PATIENCE: Duration = Duration::from_secs(20);
/// After a signal, whoever reads or does not.
const PROMPT: Duration = Duration::from_secs(4);
/// A pipe holds 64 KiB, in pages that may not be full.
const FULL_PIPE_BYTES: libc::c_int = 48 << 10;

/// A measurement of the connections to a port on loopback, where nothing else is.
struct Host {
    namespace: Namespace,
    listener: TcpListener,
    port: u16,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let namespace = Namespace::new("host").unwrap();
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = namespace.enter(listen).unwrap().unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            namespace,
            listener,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.error_file()).unwrap()
    }

    fn error_file(&self) -> PathBuf {
        self.folder.path().join("errors")
    }

    /// Starts it with these options, and waits until it is attached. What it prints is in the pipe.
    fn measure(&self, options: &[&str]) -> (Process, PipeReader) {
        let (reader, stdout) = std::io::pipe().unwrap();
        let mut command = self.namespace.command(binary().unwrap().to_str().unwrap());
        command
            .args(["profile", "--verbose", "--format", "json", "--port"])
            .arg(self.port.to_string())
            .args(options)
            .stdout(stdout)
            .stderr(File::create(self.error_file()).unwrap());
        let mut process = Process::start(&mut command).unwrap();
        wait_until(PATIENCE, "fathom to attach its probes", || {
            self.errors().contains("probes: ") || process.status().unwrap().is_some()
        })
        .unwrap();
        assert_eq!(process.status().unwrap(), None, "{}", self.errors());
        (process, reader)
    }

    /// Connections that are opened and closed one after the other, until there are so many or
    /// enough.
    fn connect(&self, count: usize, mut is_enough: impl FnMut() -> bool + Send) {
        let connect = || {
            for _ in 0..count {
                let client = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
                drop(client);
                drop(self.listener.accept().unwrap());
                if is_enough() {
                    break;
                }
            }
        };
        self.namespace.enter(connect).unwrap();
    }
}

/// How many bytes wait in it.
fn waiting_bytes(pipe: &PipeReader) -> libc::c_int {
    let mut bytes = 0;
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the kernel writes an integer where the pointer leads.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(result, 0);
    bytes
}

/// More moments than the kernel's ring has room for happen while nobody reads.
#[fathom_lab::test]
fn a_reader_that_pauses_loses_nothing() {
    const CONNECTIONS: usize = 8_000;
    let host = Host::new();
    let (mut process, pipe) = host.measure(&[]);
    let start = Instant::now();
    host.connect(CONNECTIONS, || false);
    println!("{CONNECTIONS} connections in {:?}", start.elapsed());
    process.signal(Signal::SIGINT).unwrap();
    let lines = BufReader::new(pipe).lines();
    let records = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let last =
        records.filter(|record| matches!(record, Record::Profile(profile) if profile.is_last()));
    assert_eq!(last.count(), 2 * CONNECTIONS, "{}", host.errors());
    let status = process.wait_with_deadline(PROMPT).unwrap();
    assert!(status.success(), "{}", host.errors());
    assert!(!host.errors().contains("lost"), "{}", host.errors());
}

#[fathom_lab::test]
fn a_reader_that_does_not_read_does_not_hold_it() {
    let host = Host::new();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (mut process, pipe) = host.measure(&[]);
        host.connect(1_000, || false);
        wait_until(PATIENCE, "a full pipe", || {
            waiting_bytes(&pipe) >= FULL_PIPE_BYTES
        })
        .unwrap();
        process.signal(signal).unwrap();
        let status = process.wait_with_deadline(PROMPT).unwrap();
        let errors = host.errors();
        assert_eq!(status.code(), Some(1), "{errors}");
        assert!(errors.contains(" profiles in "), "{errors}");
        let told = format!(
            "cannot write to standard output: {} bytes were written, ",
            waiting_bytes(&pipe)
        );
        assert!(errors.contains(&told), "{errors}");
    }
}

#[fathom_lab::test]
fn a_reader_that_has_read_enough_ends_it() {
    let host = Host::new();
    let (mut process, pipe) = host.measure(&[]);
    drop(pipe);
    host.connect(100_000, || process.status().unwrap().is_some());
    let status = process.wait_with_deadline(PROMPT).unwrap();
    assert!(status.success(), "{}", host.errors());
}

#[fathom_lab::test]
fn a_full_disk_ends_it() {
    let host = Host::new();
    let (mut process, _pipe) = host.measure(&["--output", "/dev/full"]);
    host.connect(100_000, || process.status().unwrap().is_some());
    let status = process.wait_with_deadline(PROMPT).unwrap();
    let errors = host.errors();
    assert_eq!(status.code(), Some(1), "{errors}");
    let told = "fathom: cannot write to /dev/full: 0 bytes were written, ";
    assert!(errors.contains(told), "{errors}");
    assert!(errors.contains("Free some space"), "{errors}");
}
