//! How far apart an application's packet and its probe leave: made by fathom in the kernel, and by
//! a cloner in user space.

mod application;
mod cloner;
mod departures;
mod prober;

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, ensure};
use fathom_lab::summary::Row;
use fathom_lab::{Namespace, wait_until};

use cloner::Cloner;
use departures::{Departures, Gaps};
use prober::Prober;

const RATES: [u32; 3] = [32_000, 64_000, 100_000];
const MOST_MEDIAN_US: f64 = 2.0;
const MOST_P99_US: f64 = 25.0;
/// How many times larger the cloner's variance is, at least.
const LEAST_RATIO: f64 = 50.0;

const INTERFACE: &str = "veth0";
/// Nobody is there: what arrives is dropped without an answer.
const DESTINATION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 7, 2), 9);
const PATIENCE: Duration = Duration::from_secs(5);
/// The processors of the application and of the cloner.
const PROCESSORS: [usize; 2] = [0, 1];

/// Who makes probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Fathom,
    Cloner,
}

/// What the delays of a contender were, us.
#[derive(Debug, Clone, Copy)]
struct Delays {
    median_us: f64,
    p99_us: f64,
    most_us: f64,
    variance_us2: f64,
}

/// Both in turns, ABBA, `pairs` turns of each at each rate.
pub(crate) fn measure(pairs: u32, window: Duration) -> anyhow::Result<Vec<Row>> {
    let (sender, receiver) = (Namespace::new("sender")?, Namespace::new("receiver")?);
    sender.connect(INTERFACE, &receiver, INTERFACE)?;
    receiver.run(&format!(
        "ip link set {INTERFACE} address 02:00:00:00:00:02"
    ))?;
    sender.add_address(INTERFACE, "198.18.7.1/30")?;
    sender.run(&format!("tc qdisc add dev {INTERFACE} clsact"))?;
    sender.run(&format!(
        "ip neighbour add {} lladdr 02:00:00:00:00:02 dev {INTERFACE}",
        DESTINATION.ip()
    ))?;
    println!(
        "{:>8} {:8} {:>7} {:>8} {:>9} {:>9} {:>9} {:>12} {:>9}",
        "packets", "who", "probes", "missing", "p50 us", "p99 us", "max us", "var us^2", "stolen"
    );
    RATES
        .into_iter()
        .map(|rate| compare(&sender, rate, pairs, window))
        .collect()
}

fn compare(sender: &Namespace, rate: u32, pairs: u32, window: Duration) -> anyhow::Result<Row> {
    let (mut fathom, mut cloner) = (Gaps::default(), Gaps::default());
    let mut stolen = [Duration::ZERO; 2];
    for pair in 0..pairs {
        let mut order = [Contender::Fathom, Contender::Cloner];
        if pair % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            let before = stolen_time()?;
            let gaps = sender.enter(|| turn(contender, rate, window))??;
            stolen[contender as usize] += stolen_time()?.saturating_sub(before);
            match contender {
                Contender::Fathom => fathom.append(gaps),
                Contender::Cloner => cloner.append(gaps),
            }
        }
    }
    let before = fathom.gaps_ns.iter().filter(|gap_ns| **gap_ns < 0).count();
    let (own, other) = (Delays::of(&fathom.gaps_ns), Delays::of(&cloner.gaps_ns));
    print(rate, "fathom", &fathom, &own, stolen[0]);
    print(rate, "cloner", &cloner, &other, stolen[1]);
    println!("         {before} of fathom's probes left before their packet");
    Ok(row(rate, &fathom, &own, &other))
}

/// In the sender's namespace.
fn turn(contender: Contender, rate: u32, window: Duration) -> anyhow::Result<Gaps> {
    let departures = Departures::watch(*DESTINATION.ip())?;
    fathom_lab::stay_on(PROCESSORS[0]).context("stay on a processor")?;
    let count = (u64::from(rate) * window.as_millis() as u64 / 1000) as u32;
    let reached = match contender {
        Contender::Fathom => {
            let prober = Prober::attach(INTERFACE)?;
            let reached = application::send(DESTINATION, rate, count, || prober.ask())?;
            let sent = prober.finish()?;
            ensure!(
                departures.count()? as u64 == 2 * sent,
                "not every packet that was to have a probe has one"
            );
            reached
        }
        Contender::Cloner => {
            let cloner = Cloner::start(INTERFACE, PROCESSORS[1])?;
            let reached = application::send(DESTINATION, rate, count, || {})?;
            let all = 2 * (count / application::SAMPLED) as usize;
            // What it lost is counted as missing.
            let _ = wait_until(PATIENCE, "the cloner", || {
                departures.count().is_ok_and(|count| count >= all)
            });
            cloner.finish()?;
            reached
        }
    };
    if reached < 0.98 * f64::from(rate) {
        println!("         {contender:?}: the application sent only {reached:.0} packets a second");
    }
    departures.gaps()
}

impl Delays {
    fn of(gaps_ns: &[i64]) -> Self {
        let mut delays_us: Vec<f64> = gaps_ns
            .iter()
            .map(|gap_ns| gap_ns.unsigned_abs() as f64 / 1e3)
            .collect();
        delays_us.sort_by(f64::total_cmp);
        let count = delays_us.len() as f64;
        let at = |percent: usize| {
            let place = delays_us.len() * percent / 100;
            delays_us.get(place).copied().unwrap_or(f64::NAN)
        };
        let mean_us = delays_us.iter().sum::<f64>() / count;
        let squares = delays_us
            .iter()
            .map(|delay_us| (delay_us - mean_us).powi(2));
        Self {
            median_us: at(50),
            p99_us: at(99),
            most_us: delays_us.last().copied().unwrap_or(f64::NAN),
            variance_us2: squares.sum::<f64>() / count,
        }
    }
}

fn print(rate: u32, who: &str, gaps: &Gaps, delays: &Delays, stolen: Duration) {
    println!(
        "{rate:>8} {who:8} {:>7} {:>8} {:>9.2} {:>9.2} {:>9.1} {:>12.2} {:>6} ms",
        gaps.gaps_ns.len(),
        gaps.missing,
        delays.median_us,
        delays.p99_us,
        delays.most_us,
        delays.variance_us2,
        stolen.as_millis()
    );
}

fn row(rate: u32, fathom: &Gaps, own: &Delays, other: &Delays) -> Row {
    let ratio = other.variance_us2 / own.variance_us2;
    Row {
        what: format!(
            "`hops`, from a packet to its probe, {rate} UDP packets of 60 bytes a second, every 100th cloned"
        ),
        target: format!(
            "median below {MOST_MEDIAN_US} us, 99 % below {MOST_P99_US} us, variance at most 1/{LEAST_RATIO} of a cloner's in user space"
        ),
        measured: format!(
            "median {:.2} us, 99 % {:.2}, most {:.1}, variance {:.2} us^2; cloner {:.1} us, {:.0}, {:.0} and {:.0} us^2: 1/{ratio:.0}",
            own.median_us,
            own.p99_us,
            own.most_us,
            own.variance_us2,
            other.median_us,
            other.p99_us,
            other.most_us,
            other.variance_us2
        ),
        is_reached: Some(
            own.median_us < MOST_MEDIAN_US
                && own.p99_us < MOST_P99_US
                && ratio >= LEAST_RATIO
                && fathom.missing == 0,
        ),
    }
}

/// What the hypervisor took from all processors, since the start.
fn stolen_time() -> anyhow::Result<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let text = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let ticks = text.split_whitespace().nth(8);
    let ticks: u64 = ticks.context("there is no steal")?.parse()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}
