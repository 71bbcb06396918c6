//! A server: one queue, a few that work it off.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{REQUEST_BYTES, RESPONSE_BYTES};
use crate::random::Sequence;
use crate::traffic::loops::sharpen_timers;
use crate::traffic::tcp::{self, read_whole};
use crate::{Namespace, Result, Stop};

/// How fast a server works.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Requests that are worked on at the same time.
    pub workers: usize,
    /// A request takes an exponential time of this mean.
    pub mean: Duration,
    /// From so long after the start on, all takes so many times as long; in order of time.
    pub slowdowns: Vec<(Duration, f64)>,
    /// Of the times.
    pub seed: u64,
}

impl Pace {
    /// Always the same.
    pub fn steady(workers: usize, mean: Duration, seed: u64) -> Self {
        Self {
            workers,
            mean,
            slowdowns: Vec::new(),
            seed,
        }
    }

    fn factor(&self, since_start: Duration) -> f64 {
        let past = self.slowdowns.iter().rev();
        past.clone()
            .find(|(from, _)| *from <= since_start)
            .map_or(1.0, |(_, factor)| *factor)
    }
}

/// It ends when dropped.
#[derive(Debug)]
pub struct Server {
    queue: Arc<Mutex<Queue>>,
    _connections: tcp::Server,
}

impl Server {
    /// Listens at `address` in `namespace`.
    ///
    /// # Errors
    /// [`crate::Error::Runtime`] when the address is taken or missing.
    pub fn start(namespace: &Namespace, address: SocketAddr, pace: Pace) -> Result<Self> {
        let queue = Arc::new(Mutex::new(Queue::new(pace, Instant::now())));
        let own = Arc::clone(&queue);
        let serve = move |stream, stop: &Stop| serve(&own, stream, stop);
        Ok(Self {
            _connections: tcp::Server::with(namespace, address, serve)?,
            queue,
        })
    }

    /// Requests that it has taken so far.
    pub fn taken(&self) -> u64 {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .taken
    }
}

/// Who is free when.
#[derive(Debug)]
struct Queue {
    pace: Pace,
    start: Instant,
    random: Sequence,
    /// When each worker has done all that it was given.
    free: Vec<Instant>,
    taken: u64,
}

impl Queue {
    fn new(pace: Pace, start: Instant) -> Self {
        Self {
            random: Sequence::new(pace.seed),
            free: vec![start; pace.workers.max(1)],
            pace,
            start,
            taken: 0,
        }
    }

    /// When a request that comes now is done.
    fn take(&mut self, now: Instant) -> Instant {
        self.taken += 1;
        let Some(free) = self.free.iter_mut().min() else {
            return now;
        };
        let begin = (*free).max(now);
        let factor = self
            .pace
            .factor(begin.saturating_duration_since(self.start));
        let mean = self.pace.mean.as_secs_f64() * factor;
        *free = begin + Duration::from_secs_f64(self.random.exponential(mean));
        *free
    }
}

fn serve(queue: &Mutex<Queue>, mut stream: TcpStream, stop: &Stop) -> io::Result<()> {
    sharpen_timers();
    let mut request = [0; REQUEST_BYTES];
    while read_whole(&mut stream, &mut request, stop)? {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let done = queue.take(Instant::now());
        drop(queue);
        stop.sleep_until(done);
        stream.write_all(&[0xa5; RESPONSE_BYTES])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn requests_wait_for_the_first_who_is_free() {
        let start = Instant::now();
        let mut queue = Queue::new(Pace::steady(2, 10 * MILLISECOND, 3), start);
        let ends = (0..100).map(|_| queue.take(start)).collect::<Vec<_>>();
        let last = ends.iter().max().unwrap().duration_since(start);
        // A hundred of 10 ms by two.
        assert!((300..700).contains(&last.as_millis()), "{last:?}");
        let idle = queue.take(start + Duration::from_secs(9));
        assert!(idle > start + Duration::from_secs(9));
    }

    #[test]
    fn slowdowns_come_and_go() {
        let mut pace = Pace::steady(1, MILLISECOND, 1);
        pace.slowdowns = vec![(10 * MILLISECOND, 10.0), (20 * MILLISECOND, 1.0)];
        let factors = [0, 10, 19, 20].map(|at| pace.factor(at * MILLISECOND));
        let expected = [1.0, 10.0, 10.0, 1.0];
        assert!(
            factors
                .iter()
                .zip(expected)
                .all(|(factor, expected)| (factor - expected).abs() < 0.01),
            "{factors:?}"
        );
    }
}
