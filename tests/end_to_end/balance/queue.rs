//! Servers that are queues, with service times that change, and clients that come whether or not they are served: what policies are compared with.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_lab::{Namespace, Worker};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::stage::{Connection, SERVICE, Stage};

/// Requests that a server works on at the same time.
const WORKERS: usize = 4;
/// Of a request at speed 1, on average.
const WORK: Duration = Duration::from_millis(8);
/// Requests of a connection.
const REQUESTS: u32 = 20;
/// Between an answer and the next request, on average.
const THINK: Duration = Duration::from_millis(20);
/// What a server may be: a third of the time it is faster than the average, a third slower, by much.
const SPEEDS: [f64; 6] = [1.3, 1.3, 1.0, 1.0, 0.5, 0.2];
/// For how long it stays so, on average.
const HOLD: Duration = Duration::from_secs(4);

/// Seeded: the same run for the same seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - part).ln())
    }
}

/// The speed of a server over time: until then, this.
#[derive(Debug, Clone)]
struct Speeds(Vec<(Instant, f64)>);

impl Speeds {
    fn new(seed: u64, length: Duration) -> Self {
        let mut random = Random(seed);
        let begin = Instant::now();
        let (mut until, mut speeds) = (begin, Vec::new());
        while until < begin + length {
            until += random.exponential(HOLD);
            let level = SPEEDS[(random.next() % SPEEDS.len() as u64) as usize];
            speeds.push((until, level));
        }
        Self(speeds)
    }

    fn at(&self, time: Instant) -> f64 {
        self.0
            .iter()
            .find(|(until, _)| time < *until)
            .map_or(1.0, |(_, speed)| *speed)
    }
}

/// A server that is a queue.
pub(crate) struct Queue {
    speeds: Arc<Mutex<Speeds>>,
    worker: Worker<Result<()>>,
}

impl Queue {
    pub(crate) fn start(namespace: &Namespace, number: u8) -> Result<Self> {
        let any = SocketAddr::from(([0, 0, 0, 0], SERVICE.port()));
        let listener = namespace.enter(|| TcpListener::bind(any))??;
        listener.set_nonblocking(true)?;
        let speeds = Arc::new(Mutex::new(Speeds(Vec::new())));
        let own = Arc::clone(&speeds);
        let worker = Worker::start("queue", move |stop| {
            let mut serving = Serving {
                listener,
                number,
                connections: Vec::new(),
                queue: VecDeque::new(),
                busy: BinaryHeap::new(),
                random: Random(number.into()),
            };
            while !stop.is_set() {
                let speed = own
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .at(Instant::now());
                serving.once(speed)?;
            }
            Ok(())
        })?;
        Ok(Self { speeds, worker })
    }

    /// From now on its speed changes as this seed says.
    pub(crate) fn begin(&self, seed: u64, length: Duration) {
        *self.speeds.lock().unwrap_or_else(PoisonError::into_inner) = Speeds::new(seed, length);
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.worker.finish()
    }
}

struct Serving {
    listener: TcpListener,
    number: u8,
    connections: Vec<Option<TcpStream>>,
    queue: VecDeque<usize>,
    busy: BinaryHeap<Reverse<(Instant, usize)>>,
    random: Random,
}

impl Serving {
    fn once(&mut self, speed: f64) -> Result<()> {
        let now = Instant::now();
        while let Some(Reverse((at, connection))) = self.busy.peek().copied() {
            if at > now {
                break;
            }
            self.busy.pop();
            if let Some(stream) = &mut self.connections[connection] {
                // Whoever has gone away is found at the next read.
                let _ = stream.write_all(&[self.number]);
            }
        }
        while self.busy.len() < WORKERS
            && let Some(connection) = self.queue.pop_front()
        {
            let work = self.random.exponential(WORK).div_f64(speed);
            self.busy.push(Reverse((now + work, connection)));
        }
        for ready in self.wait()? {
            let Some(index) = ready.checked_sub(1) else {
                self.accept()?;
                continue;
            };
            let read = self.connections[index]
                .as_mut()
                .map(|stream| stream.read(&mut [0; 16]));
            match read {
                Some(Ok(1..)) => self.queue.push_back(index),
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
                _ => self.connections[index] = None,
            }
        }
        Ok(())
    }

    /// The numbers of those that something has come for, 0 being the listener; returns when a request is done, too.
    fn wait(&self) -> Result<Vec<usize>> {
        let open = self.connections.iter().enumerate();
        let mut numbers = vec![0];
        let mut places = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        for (number, stream) in open.filter_map(|(index, it)| Some((index + 1, it.as_ref()?))) {
            numbers.push(number);
            places.push(PollFd::new(stream.as_fd(), PollFlags::POLLIN));
        }
        let next = self
            .busy
            .peek()
            .map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        let wait = next
            .unwrap_or(Duration::from_millis(20))
            .min(Duration::from_millis(20));
        ppoll(&mut places, Some(TimeSpec::from_duration(wait)), None)?;
        let ready = numbers
            .iter()
            .zip(&places)
            .filter(|(_, place)| place.any().unwrap_or(false));
        Ok(ready.map(|(number, _)| *number).collect())
    }

    fn accept(&mut self) -> Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            match self.connections.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(stream),
                None => self.connections.push(Some(stream)),
            }
        }
        Ok(())
    }
}

/// What clients waited, of those requests that were sent after the first seconds.
pub(crate) struct Waits {
    waits: Vec<Duration>,
    pub(crate) failed: u32,
}

impl Waits {
    pub(crate) fn p99(&mut self) -> Duration {
        self.waits.sort_unstable();
        self.waits[self.waits.len() * 99 / 100]
    }

    pub(crate) fn count(&self) -> usize {
        self.waits.len()
    }
}

/// Clients that come at this part of what four servers at speed 1 can do, as this seed says, for so long; `settle` is left out at the begin.
pub(crate) fn load(
    stage: &Stage,
    load: f64,
    seed: u64,
    settle: Duration,
    length: Duration,
) -> Waits {
    let capacity = 4.0 * WORKERS as f64 / WORK.as_secs_f64();
    let pause = Duration::from_secs_f64(f64::from(REQUESTS) / (load * capacity));
    let mut random = Random(seed);
    let begin = Instant::now();
    let waits = Mutex::new(Waits {
        waits: Vec::new(),
        failed: 0,
    });
    std::thread::scope(|scope| {
        let mut at = begin;
        while at < begin + length {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let own = Random(random.next());
            let waits = &waits;
            scope.spawn(move || {
                let waited = stage.client.enter(|| talk(own, begin + settle));
                let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
                match waited {
                    Ok(Ok(waited)) => waits.waits.extend(waited),
                    _ => waits.failed += 1,
                }
            });
            at += random.exponential(pause);
        }
    });
    waits.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A connection from its begin to its end. What it waited, of the requests from `from` on.
fn talk(mut random: Random, from: Instant) -> Result<Vec<Duration>> {
    let mut connection = Connection::silent(SERVICE)?;
    let mut waits = Vec::new();
    for _ in 0..REQUESTS {
        let sent = Instant::now();
        connection.ask()?;
        if sent >= from {
            waits.push(sent.elapsed());
        }
        std::thread::sleep(random.exponential(THINK));
    }
    Ok(waits)
}
