//! How many connections are measured: as many as the load allows.

use std::time::Duration;

use crate::config::Config;

/// Epochs of each server of each service that may come between two decisions: by so many its
/// latency is known to an eighth, if it varies as much as it is long.
const EPOCHS: f64 = 64.0;
/// Epochs a second that may come in any case, and at most: each takes 2 us of a processor.
const EPOCHS_LEAST: f64 = 4_000.0;
const EPOCHS_MOST: f64 = 10_000.0;
/// Epochs come in waves: they are counted for so long, at least.
const WINDOW: Duration = Duration::from_millis(500);

/// Of how many buckets of the table the connections are to be measured, a power of two of `most` or
/// less, if those of `buckets` take `rate` packets a second and `limit` may be measured.
///
/// More than the limit are cut at once. It grows by two, and only if that takes half of the limit
/// at most: who changes often measures nothing, since a connection is measured anew each time.
///
/// ```
/// use fathom_balance::sampling::sampled_buckets;
///
/// assert_eq!(sampled_buckets(65_536, 65_536, 1_000_000.0, 100_000.0), 4_096);
/// assert_eq!(sampled_buckets(4_096, 65_536, 62_500.0, 100_000.0), 4_096);
/// assert_eq!(sampled_buckets(4_096, 65_536, 20_000.0, 100_000.0), 8_192);
/// ```
pub fn sampled_buckets(buckets: u64, most: u64, rate: f64, limit: f64) -> u64 {
    let mut next = buckets.clamp(1, most);
    if rate <= limit / 4.0 {
        return most.min(2 * next);
    }
    let mut expected = rate;
    while expected > limit && next > 1 {
        next /= 2;
        expected /= 2.0;
    }
    next
}

/// How many a second there may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Packets that are measured.
    pub packets: f64,
    /// Epochs that come.
    pub epochs: f64,
}

impl Limits {
    /// What a configuration allows; `None`: anything.
    pub fn of(config: &Config) -> Option<Self> {
        let services = config.services.iter();
        let epochs = services.map(|service| {
            let decisions = 1.0 / service.bounds.interval.as_secs_f64().max(1e-3);
            EPOCHS * service.servers.len() as f64 * decisions
        });
        let epochs = epochs.sum::<f64>().clamp(EPOCHS_LEAST, EPOCHS_MOST);
        let packets = config.measured_packets?.into();
        Some(Self { packets, epochs })
    }
}

/// What was counted up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// When that was, in nanoseconds.
    pub at_ns: u64,
    /// Packets that were measured.
    pub packets: u64,
    /// Epochs that came.
    pub epochs: u64,
}

impl Counted {
    /// What came since, of what may.
    fn load(&self, since: &Self, limits: Limits) -> (f64, f64) {
        let seconds = self.at_ns.saturating_sub(since.at_ns) as f64 / 1e9;
        let part = |now: u64, then: u64, limit: f64| {
            now.saturating_sub(then) as f64 / seconds.max(1e-3) / limit
        };
        (
            part(self.packets, since.packets, limits.packets),
            part(self.epochs, since.epochs, limits.epochs),
        )
    }
}

/// Decides how many connections are measured, from what is counted.
#[derive(Debug)]
pub struct Sampler {
    window_ns: u64,
    /// At the last decision, and where the window begins.
    last: Option<Counted>,
    since: Counted,
}

impl Sampler {
    /// For epochs of this length.
    pub fn new(epoch: Duration) -> Self {
        let window = WINDOW.max(2 * epoch);
        Self {
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            last: None,
            since: Counted::default(),
        }
    }

    /// Of how many buckets of `most` the connections are measured from now on, if those of
    /// `buckets` were. To be asked more often than an epoch is long: that too many packets come is
    /// seen before their epochs end.
    pub fn next(&mut self, buckets: u64, most: u64, limits: Limits, counted: Counted) -> u64 {
        let Some(last) = self.last.replace(counted) else {
            self.since = counted;
            return buckets;
        };
        let (packets, _) = counted.load(&last, limits);
        if packets > 1.0 {
            self.since = counted;
            return sampled_buckets(buckets, most, packets, 1.0);
        }
        if counted.at_ns.saturating_sub(self.since.at_ns) < self.window_ns {
            return buckets;
        }
        let (packets, epochs) = counted.load(&self.since, limits);
        self.since = counted;
        sampled_buckets(buckets, most, packets.max(epochs), 1.0)
    }
}

#[cfg(test)]
#[expect(clippy::cast_sign_loss, reason = "no count is negative")]
mod tests {
    use super::*;

    /// So many flows in a table of 65,536 buckets, each of which sends so many packets a second,
    /// and has epochs of 200 ms from when it is first measured.
    struct Load {
        flows: f64,
        packets: f64,
    }

    const MOST: u64 = 65_536;
    const LIMITS: Limits = Limits {
        packets: 1e5,
        epochs: 4_000.0,
    };

    impl Load {
        /// For so long, with 20 scans a second. Returns the rates of packets and epochs in the last
        /// second, and the most epochs between two scans.
        fn run(&self, seconds: u64) -> (f64, f64, f64) {
            let (mut sampler, mut buckets) = (Sampler::new(Duration::from_millis(200)), MOST);
            let mut counted = Counted::default();
            // The part of the flows that is measured without a break since each of the last scans.
            let mut since = Vec::new();
            let (mut before, mut peak) = (Counted::default(), 0.0_f64);
            for scan in 0..20 * seconds {
                let part = buckets as f64 / MOST as f64;
                since.push(part);
                let now = since.len() - 1;
                // Who began 4, 8, 12 scans before ends an epoch: all that are new since then at
                // once.
                let mut epochs = 0.0;
                for begun in (0..now)
                    .rev()
                    .filter(|begun| (now - begun).is_multiple_of(4))
                {
                    let earlier = if begun == 0 { 0.0 } else { since[begun - 1] };
                    epochs += (since[begun].min(part) - earlier).max(0.0) * self.flows;
                }
                for earlier in &mut since {
                    *earlier = earlier.min(part);
                }
                peak = peak.max(epochs);
                counted.at_ns += 50_000_000;
                counted.packets += (part * self.flows * self.packets / 20.0) as u64;
                counted.epochs += epochs as u64;
                if scan == 20 * (seconds - 1) {
                    before = counted;
                }
                buckets = sampler.next(buckets, MOST, LIMITS, counted);
            }
            let per_second = |now: u64, then: u64| (now - then) as f64 * 20.0 / 19.0;
            (
                per_second(counted.packets, before.packets),
                per_second(counted.epochs, before.epochs),
                peak,
            )
        }
    }

    #[test]
    fn epochs_are_bounded_however_many_connections_there_are() {
        // 2.5 million packets a second from the first moment on.
        let (packets, epochs, peak) = Load {
            flows: 65_536.0,
            packets: 38.0,
        }
        .run(10);
        assert!(packets <= LIMITS.packets, "{packets}");
        assert!(
            (1_000.0..=1.1 * LIMITS.epochs).contains(&epochs),
            "{epochs}"
        );
        // The ring has room for 3,500.
        assert!(peak <= 2_500.0, "{peak}");
    }

    #[test]
    fn what_is_within_the_limits_is_measured_whole() {
        let (packets, epochs, _) = Load {
            flows: 150.0,
            packets: 100.0,
        }
        .run(10);
        assert!((14_000.0..=16_000.0).contains(&packets), "{packets}");
        // Four or five waves of 150.
        assert!((600.0..=850.0).contains(&epochs), "{epochs}");
    }

    #[test]
    fn servers_and_decisions_say_how_many_epochs_are_enough() {
        let config = |servers: usize| {
            let server =
                |n: usize| format!("[[server]]\nname = \"s{n}\"\naddress = \"10.0.0.{n}\"\n");
            let servers: String = (1..=servers).map(server).collect();
            let service = "[[service]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\n";
            Config::parse(&format!("{servers}{service}")).unwrap()
        };
        let epochs = |servers| Limits::of(&config(servers)).unwrap().epochs;
        let epochs = [1, 20, 100].map(|servers| epochs(servers) as u64);
        assert_eq!(epochs, [4_000, 6_400, 10_000]);
        let all = Config {
            measured_packets: None,
            ..config(1)
        };
        assert_eq!(Limits::of(&all), None);
    }

    #[test]
    fn it_settles_within_the_limit() {
        for packets in [1e3, 1e5, 3e5, 1e6, 1e7] {
            let (most, mut buckets) = (65_536, 1);
            let rate = |buckets: u64| packets * buckets as f64 / most as f64;
            for _ in 0..20 {
                buckets = sampled_buckets(buckets, most, rate(buckets), 1e5);
            }
            assert_eq!(
                buckets,
                sampled_buckets(buckets, most, rate(buckets), 1e5),
                "{packets}"
            );
            assert!(rate(buckets) <= 1e5, "{packets}");
            assert!(buckets == most || rate(buckets) > 1e5 / 4.0, "{packets}");
        }
    }

    #[test]
    fn one_bucket_is_measured_whatever_comes() {
        assert_eq!(sampled_buckets(16, 16, 1e9, 1.0), 1);
        assert_eq!(sampled_buckets(0, 16, 0.0, 1.0), 2);
        assert_eq!(sampled_buckets(1 << 20, 16, 3.0, 4.0), 16);
    }
}
