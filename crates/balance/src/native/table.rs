//! The table of connections, in the programs' own C: what a flood does to it, how full it gets, and
//! that no flow takes what another one uses.

use std::collections::HashMap;

use proptest::prelude::*;

use super::bindings::{
    BALANCE_COUNT_REPLACED_OPENING, BALANCE_NO_SLOT, balance_cpu, fathom_balance_begins_anew,
    fathom_balance_keep, fathom_balance_look_up, fathom_balance_touch,
};
use super::{BALANCE_IS_CLOSING, BALANCE_IS_CONFIRMED, balance_bucket, balance_config};

const IDLE: u32 = 1800;
const CLOSING: u32 = 8;
const OPENING: u32 = 8;
const DATAGRAM_IDLE: u32 = 40;

struct Table {
    buckets: Vec<balance_bucket>,
    config: balance_config,
    /// What was counted, by name.
    cpu: balance_cpu,
    now: u32,
}

#[expect(unsafe_code, reason = "calls the shared C")]
impl Table {
    fn new(buckets: u32) -> Self {
        Self {
            buckets: vec![balance_bucket::default(); buckets as usize],
            config: balance_config {
                bucket_mask: buckets - 1,
                idle: IDLE,
                closing: CLOSING,
                opening: OPENING,
                datagram_idle: DATAGRAM_IDLE,
                ..balance_config::default()
            },
            cpu: balance_cpu::default(),
            now: 10_000,
        }
    }

    fn slots(&self) -> usize {
        self.buckets.len() * 4
    }

    fn look_up(&mut self, hash: u64) -> Option<u32> {
        // SAFETY: the mask keeps the index within the buckets, and nothing is kept.
        let slot = unsafe {
            fathom_balance_look_up(self.buckets.as_mut_ptr(), hash, &raw const self.config)
        };
        (slot != BALANCE_NO_SLOT).then_some(slot)
    }

    fn server_of(&mut self, hash: u64) -> Option<u16> {
        let slot = self.look_up(hash)?;
        Some(self.buckets[slot as usize / 4].connections[slot as usize % 4].server())
    }

    /// Opens a new flow. Returns whether it has a slot.
    fn open(&mut self, hash: u64, server: u16) -> bool {
        // SAFETY: as above.
        let slot = unsafe {
            fathom_balance_keep(
                self.buckets.as_mut_ptr(),
                hash,
                server,
                self.now,
                &raw const self.config,
                &raw mut self.cpu,
            )
        };
        slot != BALANCE_NO_SLOT
    }

    fn touch(&mut self, hash: u64, is_over: bool) {
        if let Some(slot) = self.look_up(hash) {
            // SAFETY: the slot is one of the table's.
            unsafe {
                fathom_balance_touch(self.buckets.as_mut_ptr(), slot, self.now, is_over.into());
            }
        }
    }

    fn begins_anew(&mut self, hash: u64, is_syn: bool) -> bool {
        let slot = self.look_up(hash).unwrap();
        // SAFETY: the slot is one of the table's.
        unsafe {
            let buckets = self.buckets.as_ptr();
            fathom_balance_begins_anew(
                buckets,
                slot,
                is_syn.into(),
                self.now,
                &raw const self.config,
            ) != 0
        }
    }

    /// Opens and confirms a flow. Returns whether it has a slot.
    fn establish(&mut self, hash: u64, server: u16) -> bool {
        let has_slot = self.open(hash, server);
        self.touch(hash, false);
        has_slot
    }
}

/// Hashes of flows, by the generator called `SplitMix64`.
fn hashes(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |number: u64| {
        let mut value = (seed + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    })
}

#[test]
fn a_flood_drives_no_established_connection_out() {
    let mut table = Table::new(4096);
    let established: Vec<u64> = hashes(1).take(table.slots() * 7 / 10).collect();
    let kept: Vec<u64> = established
        .into_iter()
        .filter(|hash| table.establish(*hash, (hash % 100 + 1) as u16))
        .collect();
    for (number, hash) in hashes(1 << 40).take(1_000_000).enumerate() {
        if number % 10_000 == 0 {
            table.now += 1;
        }
        table.open(hash, 9999);
    }
    for hash in &kept {
        assert_eq!(table.server_of(*hash), Some((hash % 100 + 1) as u16));
    }
    let flooded = table.buckets.iter().map(|bucket| {
        let of_flood = bucket.connections.iter().filter(|own| own.server() == 9999);
        of_flood.count()
    });
    let most = flooded.max().unwrap();
    println!(
        "{} connections stay through a million SYNs, which have {most} slot of each bucket, and of \
         which {} took one that had only opened",
        kept.len(),
        table.cpu.counters[BALANCE_COUNT_REPLACED_OPENING as usize]
    );
    assert_eq!(most, 1);
}

#[test]
fn how_full_it_gets_before_a_connection_has_no_place() {
    let mut table = Table::new(65_536);
    let slots = table.slots();
    let (mut first, mut refused, mut in_second) = (None, 0, 0);
    let mut at: Vec<(usize, f64, f64)> = Vec::new();
    for (number, hash) in hashes(7).take(slots).enumerate() {
        if table.establish(hash, 1) {
            let slot = table.look_up(hash).unwrap();
            in_second +=
                usize::from(u64::from(slot / 4) != hash & u64::from(table.config.bucket_mask));
        } else {
            first = first.or(Some(number));
            refused += 1;
        }
        let percent = (number + 1) * 100 / slots;
        if [50, 70, 80, 90, 95].contains(&percent)
            && at.last().is_none_or(|(last, ..)| *last != percent)
        {
            at.push((
                percent,
                refused as f64 / (number + 1) as f64,
                in_second as f64 / number as f64,
            ));
        }
    }
    let first = first.unwrap() as f64 / slots as f64;
    println!(
        "the first connection without a slot comes at {:.1} % of {slots}",
        first * 100.0
    );
    for (percent, refused, second) in &at {
        println!(
            "{percent} % offered: {:.3} % have no slot, {:.1} % are in their second bucket",
            refused * 100.0,
            second * 100.0
        );
    }
    assert!(first > 0.6, "{first}");
    assert!(at[3].1 < 0.02, "{at:?}");
}

#[test]
fn who_is_silent_or_closed_makes_room_and_who_is_not_does_not() {
    let mut table = Table::new(1);
    let flows: Vec<u64> = hashes(3).take(4).collect();
    for (number, hash) in flows.iter().enumerate() {
        assert!(table.establish(*hash, number as u16 + 1));
    }
    let new = hashes(99).next().unwrap();
    assert!(!table.open(new, 9));
    table.touch(flows[2], true);
    assert!(!table.open(new, 9));
    table.now += CLOSING + 1;
    assert!(table.establish(new, 9));
    assert_eq!(table.server_of(flows[2]), None);
    table.now += IDLE - CLOSING - 5;
    for hash in [flows[0], flows[3], new] {
        table.touch(hash, false);
    }
    table.now += 10;
    let newer = hashes(100).next().unwrap();
    assert!(table.establish(newer, 10));
    assert_eq!(table.server_of(flows[1]), None);
    assert_eq!(table.server_of(new), Some(9));
}

/// Each processor reads the time before it comes to the connection: another may have written a
/// later one there.
#[test]
fn who_comes_with_an_older_time_finds_no_old_connection() {
    let mut table = Table::new(1);
    let flows: Vec<u64> = hashes(3).take(4).collect();
    for (number, hash) in flows.iter().enumerate() {
        assert!(table.establish(*hash, number as u16 + 1));
    }
    table.now -= 1;
    for hash in &flows {
        assert!(!table.begins_anew(*hash, true));
        assert!(!table.begins_anew(*hash, false));
    }
    assert!(!table.open(hashes(99).next().unwrap(), 9));
}

/// What may happen to one of a few flows.
#[derive(Debug, Clone, Copy)]
enum Event {
    Syn(usize),
    Data(usize),
    End(usize),
    Wait(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0..60_usize).prop_map(Event::Syn),
        6 => (0..60_usize).prop_map(Event::Data),
        1 => (0..60_usize).prop_map(Event::End),
        1 => prop_oneof![0..20_u32, 0..4000_u32].prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 1..400)
}

proptest! {
    /// In a table with too little room: a flow that is found has the server it was given, no two
    /// are at one slot, and who sends within the limits keeps its slot whatever others do.
    #[test]
    fn no_flow_takes_what_another_uses(events in events(), seed in 0..u64::MAX / 2) {
        let mut table = Table::new(4);
        let flows: Vec<u64> = hashes(seed).take(60).collect();
        let mut servers: HashMap<u64, u16> = HashMap::new();
        let mut next = 0;
        for event in events {
            let before = established(&table);
            match event {
                Event::Wait(units) => table.now += units,
                Event::Data(flow) => table.touch(flows[flow], false),
                Event::End(flow) => table.touch(flows[flow], true),
                Event::Syn(flow) => {
                    let hash = flows[flow];
                    if table.look_up(hash).is_none() {
                        next += 1;
                        if table.open(hash, next) {
                            servers.insert(hash, next);
                        } else {
                            prop_assert_eq!(table.look_up(hash), None);
                        }
                    } else if table.begins_anew(hash, true) {
                        let is_kept = before.contains(&word_of(&mut table, hash));
                        prop_assert!(!is_kept || may_begin_anew(&mut table, hash));
                    }
                }
            }
            let mut slots = Vec::new();
            for hash in &flows {
                if let Some(slot) = table.look_up(*hash) {
                    prop_assert!(!slots.contains(&slot));
                    slots.push(slot);
                    prop_assert_eq!(table.server_of(*hash), servers.get(hash).copied());
                }
            }
            let after: Vec<u64> = words(&table).collect();
            for word in before {
                prop_assert!(after.contains(&word), "an established connection lost its slot");
            }
        }
    }
}

fn words(table: &Table) -> impl Iterator<Item = u64> {
    table
        .buckets
        .iter()
        .flat_map(|bucket| bucket.connections.iter().map(|own| own.word))
}

fn word_of(table: &mut Table, hash: u64) -> u64 {
    let slot = table.look_up(hash).unwrap() as usize;
    table.buckets[slot / 4].connections[slot % 4].word
}

/// It ended, or was silent for as long as one that ended keeps its slot.
fn may_begin_anew(table: &mut Table, hash: u64) -> bool {
    let slot = table.look_up(hash).unwrap() as usize;
    let own = &table.buckets[slot / 4].connections[slot % 4];
    u32::from(own.flags) & BALANCE_IS_CLOSING != 0 || table.now - own.used > CLOSING
}

/// The words of connections that must keep their slots now.
fn established(table: &Table) -> Vec<u64> {
    let all = table.buckets.iter().flat_map(|bucket| &bucket.connections);
    let established = all.filter(|own| {
        let flags = u32::from(own.flags);
        let limit = if flags & BALANCE_IS_CLOSING == 0 {
            IDLE
        } else {
            CLOSING
        };
        own.word != 0 && flags & BALANCE_IS_CONFIRMED != 0 && table.now - own.used <= limit
    });
    established.map(|own| own.word).collect()
}

#[test]
fn an_empty_table_has_room() {
    let mut table = Table::new(2);
    assert!(table.open(0, 1));
    assert_eq!(table.server_of(0), Some(1));
}
