//! Clients that come by chance, ask some things one after the other, and leave.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::{REQUEST_BYTES, RESPONSE_BYTES};
use crate::random::Sequence;
use crate::traffic::loops::sharpen_timers;
use crate::{Namespace, Result};

/// Clients that are there at the same time at most; those that come then are counted as failed.
const SESSIONS_MAXIMUM: usize = 2_000;

/// Who comes when, and asks how much.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// Clients a second, on average (Poisson).
    pub per_second: f64,
    /// Requests of each, one after the other, over one connection.
    pub requests: u32,
    /// Pause between an answer and the next request.
    pub pause: Duration,
    /// On top of that clients think, for an exponential time with this mean.
    pub think: Duration,
    /// A request goes in so many pieces.
    pub pieces: usize,
    /// Pause between two pieces.
    pub pace: Duration,
    /// For so long clients come.
    pub duration: Duration,
    /// How long connecting or an answer may take.
    pub patience: Duration,
    /// Of the arrivals, and of how long clients think.
    pub seed: u64,
}

/// What clients saw.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// For each request: when its last piece was sent, since the start, and how long its answer
    /// took. The first of a connection, if it is one piece, includes connecting.
    pub requests: Vec<(Duration, Duration)>,
    /// Connections that could not be made or broke, by what was said.
    pub failures: Vec<String>,
}

impl Outcome {
    /// The latency that so much of all requests did not exceed; zero without any.
    pub fn quantile(&self, part: f64) -> Duration {
        let mut all = self
            .requests
            .iter()
            .map(|(_, latency)| *latency)
            .collect::<Vec<_>>();
        all.sort_unstable();
        #[expect(clippy::cast_sign_loss, reason = "parts are positive")]
        let place = (all.len() as f64 * part) as usize;
        all.get(place.min(all.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

impl Arrivals {
    /// Lets them come to `server`, from `namespace`, and waits for all to end.
    ///
    /// # Errors
    /// [`crate::Error::Runtime`] when the namespace cannot be entered.
    pub fn run(&self, namespace: &Namespace, server: SocketAddr) -> Result<Outcome> {
        namespace.enter(|| self.run_here(server))
    }

    fn run_here(&self, server: SocketAddr) -> Outcome {
        sharpen_timers();
        let (mut random, start) = (Sequence::new(self.seed), Instant::now());
        let mut thoughts = Sequence::new(!self.seed);
        let (told, seen) = channel();
        let mut outcome = Outcome::default();
        std::thread::scope(|scope| {
            let mut next = start;
            let mut sessions = Vec::new();
            loop {
                next += Duration::from_secs_f64(random.exponential(1.0 / self.per_second));
                if next >= start + self.duration {
                    break;
                }
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                sessions.retain(|session: &std::thread::ScopedJoinHandle<'_, ()>| {
                    !session.is_finished()
                });
                if sessions.len() >= SESSIONS_MAXIMUM {
                    outcome
                        .failures
                        .push("too many clients at a time".to_owned());
                    continue;
                }
                let (told, thinking) = (told.clone(), Sequence::new(thoughts.bits()));
                sessions.push(scope.spawn(move || self.session(server, start, thinking, &told)));
            }
        });
        drop(told);
        for result in seen {
            match result {
                Ok(request) => outcome.requests.push(request),
                Err(error) => outcome.failures.push(error.to_string()),
            }
        }
        outcome
    }

    fn session(
        &self,
        server: SocketAddr,
        start: Instant,
        thinking: Sequence,
        told: &Sender<io::Result<(Duration, Duration)>>,
    ) {
        sharpen_timers();
        if let Err(error) = self.ask(server, start, thinking, told) {
            let _ = told.send(Err(error));
        }
    }

    fn ask(
        &self,
        server: SocketAddr,
        start: Instant,
        mut thinking: Sequence,
        told: &Sender<io::Result<(Duration, Duration)>>,
    ) -> io::Result<()> {
        let mut begun = Instant::now();
        let mut stream = TcpStream::connect_timeout(&server, self.patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        for number in 0..self.requests {
            if number > 0 {
                let think = thinking.exponential(self.think.as_secs_f64());
                std::thread::sleep(self.pause + Duration::from_secs_f64(think));
                begun = Instant::now();
            }
            let request = [0x5a; REQUEST_BYTES];
            for (piece, bytes) in request
                .chunks(REQUEST_BYTES.div_ceil(self.pieces))
                .enumerate()
            {
                if piece > 0 {
                    std::thread::sleep(self.pace);
                    begun = Instant::now();
                }
                stream.write_all(bytes)?;
            }
            stream.read_exact(&mut [0; RESPONSE_BYTES])?;
            let _ = told.send(Ok((begun.duration_since(start), begun.elapsed())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Switch;
    use crate::traffic::farm::{Pace, Server};

    #[test]
    fn clients_wait_as_long_as_the_server_works() {
        if let Some(why) = crate::obstacle() {
            println!("skipped: {why}");
            return;
        }
        let switch = Switch::new(&["client", "server"]).unwrap();
        let address = SocketAddr::new(Switch::address(1).into(), 80);
        let pace = Pace::steady(4, Duration::from_millis(4), 1);
        let server = Server::start(&switch.hosts[1], address, pace).unwrap();
        let arrivals = Arrivals {
            per_second: 20.0,
            requests: 10,
            pause: Duration::ZERO,
            think: Duration::ZERO,
            pieces: 1,
            pace: Duration::ZERO,
            duration: Duration::from_secs(2),
            patience: Duration::from_secs(10),
            seed: 1,
        };
        let outcome = arrivals.run(&switch.hosts[0], address).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!(outcome.requests.len() as u64, server.taken());
        assert!(outcome.requests.len() > 100, "{}", outcome.requests.len());
        let median = outcome.quantile(0.5);
        assert!(
            (Duration::from_millis(1)..Duration::from_millis(20)).contains(&median),
            "{median:?}"
        );
    }
}
