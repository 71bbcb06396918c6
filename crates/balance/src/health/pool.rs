//! Threads that make checks, so that a server that does not answer keeps no other waiting.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Failure, Target, check};

/// As many checks at the same time, at most: a server that does not answer keeps one busy for each
/// of its services until the timeout.
const THREADS: usize = 64;

/// What a check found.
#[derive(Debug)]
pub struct Finding {
    /// As it was given.
    pub ticket: u64,
    /// What came of it.
    pub result: Result<(), Failure>,
}

/// Makes checks in the background.
pub struct Checker {
    jobs: Sender<(u64, Target)>,
    findings: Receiver<Finding>,
}

impl Checker {
    /// Starts so many threads as are of use for this number of checks. They end when this is
    /// dropped, after the check that they are at.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(checks: usize) -> std::io::Result<Self> {
        let (jobs, queue) = channel::<(u64, Target)>();
        let queue = Arc::new(Mutex::new(queue));
        let (found, findings) = channel();
        for number in 0..checks.clamp(1, THREADS) {
            let (queue, found) = (Arc::clone(&queue), found.clone());
            let thread = thread::Builder::new().name(format!("check {number}"));
            thread.spawn(move || work(&queue, &found))?;
        }
        Ok(Self { jobs, findings })
    }

    /// Has a check made; its finding comes with this ticket.
    pub fn ask(&self, ticket: u64, target: Target) {
        // The threads live as long as this does.
        let _ = self.jobs.send((ticket, target));
    }

    /// What was found since the last call.
    pub fn findings(&self) -> impl Iterator<Item = Finding> {
        self.findings.try_iter()
    }

    /// Waits for the next finding, at most so long.
    pub fn wait(&self, timeout: Duration) -> Option<Finding> {
        self.findings.recv_timeout(timeout).ok()
    }
}

fn work(queue: &Mutex<Receiver<(u64, Target)>>, found: &Sender<Finding>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((ticket, target)) = job else {
            return;
        };
        let result = check(&target);
        if found.send(Finding { ticket, result }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use crate::config::Check;

    use super::*;

    #[test]
    fn each_check_has_its_finding() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let checker = Checker::start(3).unwrap();
        for ticket in 0..20 {
            checker.ask(
                ticket,
                Target {
                    mark: None,
                    address: listener.local_addr().unwrap(),
                    check: Check::Tcp,
                    timeout: Duration::from_secs(5),
                },
            );
        }
        let mut tickets: Vec<_> = (0..20)
            .map(|_| checker.wait(Duration::from_secs(10)).expect("a finding"))
            .map(|finding| {
                finding.result.unwrap();
                finding.ticket
            })
            .collect();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..20).collect::<Vec<_>>());
    }
}
