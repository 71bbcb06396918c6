//! What must be known before the program is loaded: its constants, and how large new tables are.

use std::time::Duration;

use fathom_measure::kernel::tick_ns;
use fathom_measure::response::{EpochReader, Settings};
use fathom_measure::secret;

use super::object::{self, Program, Sizes};
use super::pins::Pins;
use super::plan::Entry;
use crate::Error;
use crate::config::{Config, MOST};
use crate::native::{
    BALANCE_BUCKET_SLOTS, BALANCE_QUIC_ID_MAX, BALANCE_RING_LANES, BALANCE_TIME_SHIFT,
    balance_config,
};

/// A gap between datagrams that is longer may be the client's silence.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(180);
/// Connections that were silent for so long may lose their slot to new ones; after FIN or RST, not
/// confirmed, and of datagrams.
const IDLE: [Duration; 4] = [
    Duration::from_secs(300),
    Duration::from_secs(10),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// These times in units of the table.
pub(super) fn idle_units() -> [u32; 4] {
    IDLE.map(|time| (time.as_nanos() >> BALANCE_TIME_SHIFT) as u32 + 1)
}

/// Loads the program with what is configured; a table that is there keeps its size, and its secret.
pub(super) fn load(pins: &Pins, config: &Config) -> Result<(Program, EpochReader), Error> {
    let previous = object::previous_config(pins);
    let buckets = object::entries(pins, "balance_buckets");
    let buckets =
        buckets.unwrap_or_else(|| (config.connections / BALANCE_BUCKET_SLOTS).next_power_of_two());
    let measured = (buckets / config.measured_in).max(1);
    let room = object::entries(pins, "balance_measured");
    if room.is_some_and(|room| room < measured * BALANCE_BUCKET_SLOTS) {
        return Err(Error::NoRoom {
            what: "measurements of so many connections",
        });
    }
    let seed = previous.map_or_else(secret, |previous| previous.seed);
    let settings = Settings {
        epoch: config.epoch,
        timeout: config.timeout,
        // Of datagrams it is not seen whether a client waits, or is silent.
        datagram_timeout: config.timeout.min(DATAGRAM_TIMEOUT),
        ..Settings::live()
    };
    let epoch_reader = EpochReader::new(&settings, seed)?;
    let program = Program::load(
        pins,
        &sizes(config, buckets, measured),
        &constants(config, buckets, seed),
        epoch_reader.config(),
    )?;
    Ok((program, epoch_reader))
}

/// Does the kernel take the program, with all that can be configured? Its verifier leaves out what
/// the constants turn off.
///
/// # Errors
/// [`Error`] with what the kernel, or privileges, lack.
pub fn check_program() -> Result<(), Error> {
    let all = balance_config {
        has_all_ports: 1,
        has_networks: 1,
        quic_id_lengths: [BALANCE_QUIC_ID_MAX as u8; 8],
        ..constants(&Config::default(), 1, secret())
    };
    let epoch_reader = EpochReader::new(&Settings::live(), all.seed)?;
    object::check(&all, epoch_reader.config())
}

/// With room for twice of what is configured.
fn sizes(config: &Config, buckets: u32, measured: u32) -> Sizes {
    let elements = config
        .services
        .iter()
        .map(|service| service.ring.div_ceil(BALANCE_RING_LANES));
    let room = |count: usize, least: u32| {
        (2 * count.min(MOST) as u32 + 1)
            .max(least)
            .next_power_of_two()
    };
    Sizes {
        buckets,
        measured,
        services: room(config.services.len(), 64),
        servers: room(config.servers.len(), 256),
        ring_elements: (2 * elements.sum::<u32>()).max(4 * 16_385),
    }
}

fn constants(config: &Config, buckets: u32, seed: u64) -> balance_config {
    let [idle, closing, opening, datagram_idle] = idle_units();
    let mut constants = balance_config {
        seed,
        bucket_mask: buckets - 1,
        idle,
        closing,
        opening,
        datagram_idle,
        has_settled: 1,
        has_all_ports: u8::from(config.services.iter().any(|service| service.port.is_none())),
        has_networks: u8::from(
            config
                .services
                .iter()
                .any(|service| !Entry::of(service).is_single()),
        ),
        is_measuring: 1,
        // 0: not known.
        tick_ns: u32::try_from(tick_ns()).unwrap_or(0),
        ..balance_config::default()
    };
    for id in config
        .servers
        .iter()
        .filter_map(|server| server.quic_id.as_ref())
    {
        let length = id.bytes.len().min(BALANCE_QUIC_ID_MAX as usize) as u8;
        if let Some(own) = constants.quic_id_lengths.get_mut(usize::from(id.config)) {
            *own = length;
        }
    }
    constants
}
