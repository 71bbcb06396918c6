//! The balancer as it runs: what is measured, checked and said goes to the fleet, and what comes of
//! it into the tables.

mod checks;
mod commands;
mod status;

use std::time::{Duration, Instant};

use fathom_record::Time;

use crate::Error;
use crate::config::Config;
use crate::datapath::{Datapath, Obstacle, remove};
use crate::fleet::Fleet;
use crate::health::Checker;
use crate::journal::Journal;
use crate::record::{BalanceHealth, BalanceWeight};
use checks::{CheckDue, open_check_routes};
pub use commands::CommandResult;

/// Routes to servers are asked for as often, and twice a second while one is missing.
const RESOLVE: Duration = Duration::from_secs(5);
const RESOLVE_MISSING: Duration = Duration::from_millis(500);
/// So long a start waits for the first answers of neighbours.
const FIRST_RESOLVE: Duration = Duration::from_secs(2);

/// Something to be told.
#[derive(Debug, Clone)]
pub enum Event {
    /// How a server of a service stands: something has changed, or it is time.
    Weight(BalanceWeight),
    /// A server is there again, or is there no more.
    Health(BalanceHealth),
    /// For people.
    Message(String),
}

/// A balancer that runs. Dropped, it leaves the tables as they are: packets go on by the last
/// weights.
pub struct Balancer {
    fleet: Fleet,
    datapath: Datapath,
    checker: Checker,
    checks: Vec<CheckDue>,
    /// Counts configurations: findings of an earlier one are of no use.
    generation: u32,
    /// When each service is decided next.
    due: Vec<Duration>,
    resolve_due: Duration,
    journal: Journal,
    obstacles: Vec<Option<Obstacle>>,
    /// What is in the way of checks of each service.
    check_obstacles: Vec<Option<Obstacle>>,
    begun: Instant,
}

impl Balancer {
    /// Begins to forward, or continues where another process ended. Each server is reported when
    /// something has changed, and every `interval`.
    ///
    /// # Errors
    /// [`Error`] when the system does not allow it; what was forwarded before still is.
    pub fn start(config: &Config, interval: Duration) -> Result<Self, Error> {
        let was_there = config.pins.is_dir();
        let started = Self::open(config, interval);
        if started.is_err() && !was_there {
            // Half of a beginning is of no use to anybody; that it cannot be removed is not what
            // matters here.
            let _ = remove(&config.pins);
        }
        started
    }

    fn open(config: &Config, interval: Duration) -> Result<Self, Error> {
        let mut datapath = Datapath::open(config)?;
        let mut fleet = Fleet::new(config.clone());
        for (server, value) in datapath.overrides()?.into_iter().enumerate() {
            fleet.set_override(server, value);
        }
        for service in 0..config.services.len() {
            fleet.recall(service, &datapath.entries(service), Duration::ZERO);
        }
        let checks = config.services.iter().map(|service| service.servers.len());
        let checker = Checker::start(checks.sum())
            .map_err(|error| Error::kernel("start threads for health checks", error))?;
        let obstacles = patiently(|| datapath.resolve(config))?;
        let check_obstacles = open_check_routes(&mut datapath, config)?;
        let mut balancer = Self {
            checks: Vec::new(),
            due: config
                .services
                .iter()
                .map(|service| service.bounds.interval)
                .collect(),
            generation: 0,
            resolve_due: Duration::ZERO,
            journal: Journal::new(interval, Duration::ZERO),
            obstacles: Vec::new(),
            check_obstacles,
            begun: Instant::now(),
            fleet,
            datapath,
            checker,
        };
        balancer.take_obstacles(obstacles, &mut |_| {});
        balancer.begin_checks();
        balancer.redistribute();
        balancer.datapath.publish(config)?;
        Ok(balancer)
    }

    /// Was it forwarding before this process began?
    pub fn has_taken_over(&self) -> bool {
        self.datapath.has_taken_over()
    }

    /// What it is configured to do.
    pub fn config(&self) -> &Config {
        self.fleet.config()
    }

    /// Takes another configuration; connections that are there keep their servers.
    ///
    /// # Errors
    /// [`Error`] when the system does not allow it; then the one before holds.
    pub fn reload(&mut self, config: &Config) -> Result<(), Error> {
        let before = self.fleet.config().clone();
        if (&config.pins, &config.socket) != (&before.pins, &before.socket) {
            return Err(Error::Unsupported {
                needs: "pins and socket stay as they are while a balancer runs".to_owned(),
                found: "the configuration names others".to_owned(),
                remedy: "end the process, run `fathom balance stop` with the configuration before, and start anew".to_owned(),
            });
        }
        if let Err(error) = self.datapath.reload(config) {
            // The numbers of before are needed again; they were given once and are there.
            self.datapath.reload(&before)?;
            return Err(error);
        }
        self.fleet.reload(config.clone());
        self.journal.reload(self.fleet.decisions());
        for (server, value) in self.datapath.overrides()?.into_iter().enumerate() {
            self.fleet.set_override(server, value);
        }
        let now = self.now();
        self.due = config
            .services
            .iter()
            .map(|service| now + service.bounds.interval)
            .collect();
        let obstacles = patiently(|| self.datapath.resolve(config))?;
        self.take_obstacles(obstacles, &mut |_| {});
        self.check_obstacles = open_check_routes(&mut self.datapath, config)?;
        self.begin_checks();
        self.redistribute();
        self.datapath.publish(config)
    }

    /// Waits at most so long, and does what is due.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn poll(&mut self, timeout: Duration, report: &mut impl FnMut(Event)) -> Result<(), Error> {
        if let Some(one_in) = self.datapath.poll(timeout)? {
            report(Event::Message(match one_in {
                1 => "all connections are measured again".to_owned(),
                _ => format!(
                    "one connection in {one_in} is measured now: as many as the load allows"
                ),
            }));
        }
        let now = self.now();
        self.check(now, report);
        if now >= self.resolve_due {
            let config = self.fleet.config().clone();
            for text in self.datapath.follow_interfaces(&config)? {
                report(Event::Message(text));
            }
            let obstacles = self.datapath.resolve(&config)?;
            let check_obstacles = self.datapath.open_check_routes(&config)?;
            self.take_check_obstacles(check_obstacles, report);
            if self.take_obstacles(obstacles, report) {
                self.redistribute();
            }
        }
        self.decide(now, report)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends the intervals that are over: from epochs to measurements, decisions and rings.
    fn decide(&mut self, now: Duration, report: &mut impl FnMut(Event)) -> Result<(), Error> {
        let over: Vec<_> = (0..self.due.len())
            .filter(|service| now >= self.due[*service])
            .collect();
        let Some(shortest) = over.iter().map(|service| self.interval(*service)).min() else {
            return Ok(());
        };
        self.datapath.scan(shortest)?;
        for service in over {
            // Those that were missed are over too.
            self.due[service] = now + self.interval(service);
            let servers = &self.fleet.config().services[service].servers;
            let measured = self.datapath.measure(service, servers);
            if let Some(decision) = self.fleet.decide(service, &measured, now) {
                self.datapath.apply(&decision);
                self.journal.take(&decision);
            }
        }
        let decisions = self.fleet.decisions();
        for line in self.journal.lines(decisions, now, Time::now()) {
            report(Event::Weight(line));
        }
        Ok(())
    }

    fn interval(&self, service: usize) -> Duration {
        self.fleet.config().services[service].bounds.interval
    }

    /// Something else than measurements has changed.
    fn redistribute(&mut self) {
        let now = self.now();
        for service in 0..self.due.len() {
            if let Some(decision) = self.fleet.redistribute(service, now) {
                self.datapath.apply(&decision);
            }
        }
    }

    /// How all servers of all services stand, and what was measured of each since it was last told
    /// of: the last that is told.
    pub fn last_lines(&mut self) -> Vec<BalanceWeight> {
        let now = self.now();
        self.journal
            .last_lines(self.fleet.decisions(), now, Time::now())
    }

    /// Returns whether a server can be reached again, or no more.
    fn take_obstacles(
        &mut self,
        obstacles: Vec<Option<Obstacle>>,
        report: &mut impl FnMut(Event),
    ) -> bool {
        let mut has_changed = false;
        for (server, obstacle) in obstacles.iter().enumerate() {
            if !self.fleet.reached(server, obstacle.is_none()) {
                continue;
            }
            has_changed = true;
            let name = self
                .fleet
                .config()
                .servers
                .get(server)
                .map_or("", |server| &server.name);
            report(Event::Message(match obstacle {
                Some(obstacle) => format!("server {name} cannot be reached: {obstacle}"),
                None => format!("server {name} can be reached"),
            }));
        }
        let is_missing = obstacles.iter().any(Option::is_some);
        self.resolve_due = self.now() + if is_missing { RESOLVE_MISSING } else { RESOLVE };
        self.obstacles = obstacles;
        has_changed
    }

    /// What cannot be reached, or checked through the tunnel, now, for people.
    pub fn problems(&self) -> Vec<String> {
        let servers = self.fleet.config().servers.iter().zip(&self.obstacles);
        let problem = |(server, obstacle): (&crate::config::Server, &Option<Obstacle>)| {
            let obstacle = obstacle.as_ref()?;
            Some(format!(
                "server {} cannot be reached: {obstacle}",
                server.name
            ))
        };
        let services = 0..self.fleet.config().services.len();
        let checks = services.filter_map(|service| self.check_problem(service));
        servers.filter_map(problem).chain(checks).collect()
    }

    /// Ends forwarding, and takes everything away.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        let pins = self.fleet.config().pins.clone();
        drop(self);
        remove(&pins).map(drop)
    }
}

/// Asks again and again, for a while, as long as a neighbour has not answered: that takes a moment.
fn patiently(
    mut ask: impl FnMut() -> Result<Vec<Option<Obstacle>>, Error>,
) -> Result<Vec<Option<Obstacle>>, Error> {
    let deadline = Instant::now() + FIRST_RESOLVE;
    loop {
        let obstacles = ask()?;
        let may_come = obstacles
            .iter()
            .any(|obstacle| matches!(obstacle, Some(Obstacle::Unresolved(_))));
        if !may_come || Instant::now() >= deadline {
            return Ok(obstacles);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
