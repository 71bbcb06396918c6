//! Whether every connection has its last profile.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_benches::lines::value;
use fathom_lab::{Namespace, Worker};
use nix::sys::socket::{setsockopt, sockopt};

use super::profiling::{Invocation, lost};
use super::short::{SERVER, ShortConnections, Threads};

/// What fathom may write before it has to wait for the reader.
const BACKLOG_BYTES: usize = 8 << 20;
/// States that a connection does not leave.
const LAST_STATES: [&str; 4] = ["FINISHED", "BROKEN", "UNREACHABLE", "DESYNC"];

/// What came of a run.
pub(super) struct Completeness {
    /// Connections that the client opened; each has two ends on this host.
    pub(super) connections: u64,
    pub(super) elapsed: Duration,
    pub(super) closings: Closings,
    /// What fathom counted, by name.
    pub(super) counts: Vec<(String, u64)>,
}

/// What it printed about how connections end.
#[derive(Debug, Default)]
pub(super) struct Closings {
    /// Ends of connections with a last profile.
    seen: HashSet<u64>,
    /// Last profiles of an end that had one already.
    pub(super) repeated: u64,
    /// Last profiles whose beginning was lost.
    pub(super) without_beginning: u64,
    /// Profiles of other states.
    pub(super) others: u64,
    /// Last profiles that say that the connection did not end well, which none did, by state and
    /// reason.
    pub(super) wrong: BTreeMap<String, u64>,
}

impl Completeness {
    /// Connections a second.
    pub(super) fn rate(&self) -> f64 {
        self.connections as f64 / self.elapsed.as_secs_f64()
    }

    /// Ends of connections without a last profile.
    pub(super) fn missing(&self) -> u64 {
        (2 * self.connections).saturating_sub(self.closings.seen.len() as u64)
    }

    /// What fathom says that it lost.
    pub(super) fn lost(&self) -> u64 {
        lost(&self.counts)
    }
}

impl Closings {
    /// Ends with a last profile, and a right one.
    pub(super) fn ends(&self) -> usize {
        self.seen.len()
    }

    fn read(stream: UnixStream) -> anyhow::Result<Self> {
        let mut reader = BufReader::with_capacity(1 << 20, stream);
        let mut closings = Self::default();
        let mut line = String::new();
        while reader
            .read_line(&mut line)
            .context("read what fathom prints")?
            != 0
        {
            closings.add(&line);
            line.clear();
        }
        Ok(closings)
    }

    fn add(&mut self, line: &str) {
        let is_profile = line.starts_with(r#"{"kind":"profile","#);
        let number = |name| value(line, name).and_then(|number| number.parse::<u64>().ok());
        let is_ours = ["source_port", "destination_port"]
            .iter()
            .any(|name| number(name) == Some(SERVER.port().into()));
        let (Some(end_state), Some(connection)) = (value(line, "end_state"), number("connection"))
        else {
            return;
        };
        if !is_profile || !is_ours {
            return;
        }
        if !LAST_STATES.contains(&end_state) {
            self.others += 1;
            return;
        }
        if end_state != "FINISHED" {
            let reason = value(line, "reason").unwrap_or_default();
            *self
                .wrong
                .entry(format!("{end_state}, {reason}"))
                .or_default() += 1;
            return;
        }
        self.repeated += u64::from(!self.seen.insert(connection));
        self.without_beginning += u64::from(value(line, "start_state") != Some("ESTABLISHED"));
    }
}

/// As many short connections as this machine opens, all of them while fathom profiles.
pub(super) fn measure(
    namespace: &Namespace,
    invocation: &Invocation,
    length: Duration,
) -> anyhow::Result<Completeness> {
    // Not a file: it would be of gigabytes, and the disk would hold fathom up. Not a pipe: that
    // takes a few lines at a time.
    let (read, written) = UnixStream::pair().context("make a pair of sockets")?;
    setsockopt(&written, sockopt::SndBufForce, &BACKLOG_BYTES).context("make room for lines")?;
    let fathom = invocation.start(namespace, OwnedFd::from(written))?;
    let reader = Worker::start("reader", move |_| Closings::read(read))?;
    let begin = Instant::now();
    let traffic = ShortConnections::start(namespace, Threads::Two)?;
    thread::sleep(length);
    let connections = traffic.finish()?;
    let elapsed = begin.elapsed();
    let counts = fathom.stop()?;
    Ok(Completeness {
        connections,
        elapsed,
        closings: reader.join()?,
        counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_profiles_are_counted_once() {
        let line = |connection: u64, start: &str, end: &str| {
            format!(
                r#"{{"kind":"profile","source_port":8080,"destination_port":1,"start_state":"{start}","end_state":"{end}","connection":{connection}}}"#
            )
        };
        let mut closings = Closings::default();
        closings.add(&line(1, "NEW", "ESTABLISHED"));
        closings.add(&line(1, "ESTABLISHED", "FINISHED"));
        closings.add(&line(2, "DESYNC", "BROKEN"));
        closings.add(&line(2, "ESTABLISHED", "FINISHED"));
        closings.add(&line(3, "ESTABLISHED", "FINISHED").replace("8080", "80"));
        closings.add(r#"{"kind":"count","name":"x","count":7}"#);
        closings.add(&line(4, "DESYNC", "FINISHED"));
        closings.add(&line(4, "ESTABLISHED", "FINISHED"));
        assert_eq!(closings.ends(), 3);
        assert_eq!((closings.others, closings.repeated), (1, 1));
        assert_eq!(closings.without_beginning, 1);
        assert_eq!(closings.wrong["BROKEN, "], 1);
    }
}
