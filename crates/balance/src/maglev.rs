//! Weights to a ring: which server a flow's hash leads to. After Maglev (Eisenbud et al., NSDI
//! 2016, section 3.4): each server has an order of preference over all entries of the ring, and in
//! turn each takes the first that is free. Weights decide how often a server has its turn.

/// A server of a ring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share<'a> {
    /// What it is known by; its entries follow from it, so it stays the same as long as the server
    /// does.
    pub name: &'a str,
    /// Its part of the ring is to the whole as this is to the sum; not negative. 0: no entry.
    pub weight: f64,
}

/// For each entry of the ring the index of its server, or `None` when no server has weight. `size`
/// is a prime; at most 65,535 servers.
///
/// Each server has as many entries as its weight says, but for one or two. Turns are given out as
/// seats of a parliament by Sainte-Laguë's method: the k-th turn of a server comes at the time (k +
/// 1/2) / weight. So the order of all others' turns stays the same when one server goes or its
/// weight changes, and with it most of their entries.
pub fn ring(size: u32, shares: &[Share<'_>]) -> Option<Vec<u16>> {
    let turns = turns(size, shares)?;
    let mut permutations: Vec<_> = shares
        .iter()
        .map(|share| Permutation::of(share.name, size))
        .collect();
    let mut ring = vec![0; size as usize];
    let mut is_taken = vec![0_u64; (size as usize).div_ceil(64)];
    for server in turns {
        let permutation = &mut permutations[usize::from(server)];
        let entry = loop {
            let entry = permutation.next();
            let (word, bit) = (entry as usize / 64, 1 << (entry % 64));
            if is_taken[word] & bit == 0 {
                is_taken[word] |= bit;
                break entry;
            }
        };
        ring[entry as usize] = server;
    }
    Some(ring)
}

/// Whose turn it is, for each entry of the ring.
fn turns(size: u32, shares: &[Share<'_>]) -> Option<Vec<u16>> {
    let sum: f64 = shares.iter().map(|share| share.weight).sum();
    if sum <= 0.0 || !sum.is_finite() {
        return None;
    }
    let mut turns = Vec::with_capacity(size as usize + 2 * shares.len());
    for (server, share) in (0_u16..).zip(shares) {
        if share.weight <= 0.0 {
            continue;
        }
        let quota = share.weight / sum * f64::from(size);
        // Who is first among equals must not depend on the other servers: by name.
        let tie = hash(share.name, 2);
        let own = (0..entries(quota) + 2).map(|turn| {
            let when = (f64::from(turn) + 0.5) / share.weight;
            (when.to_bits(), tie, server)
        });
        turns.extend(own);
    }
    // Times are positive: their bits are in the order of the numbers.
    turns.sort_unstable();
    turns.truncate(size as usize);
    Some(turns.into_iter().map(|(.., server)| server).collect())
}

#[expect(clippy::cast_sign_loss, reason = "no quota is negative")]
fn entries(quota: f64) -> u32 {
    quota as u32
}

/// A server's order of preference over the entries of a ring: all of them, each once, since the
/// size is a prime.
#[derive(Debug, Clone, Copy)]
struct Permutation {
    entry: u32,
    skip: u32,
    size: u32,
}

impl Permutation {
    fn of(name: &str, size: u32) -> Self {
        let below = |number: u64, bound: u32| (number % u64::from(bound)) as u32;
        Self {
            entry: below(hash(name, 0), size),
            skip: below(hash(name, 1), size - 1) + 1,
            size,
        }
    }

    fn next(&mut self) -> u32 {
        let entry = self.entry;
        let next = entry + self.skip;
        self.entry = if next >= self.size {
            next - self.size
        } else {
            next
        };
        entry
    }
}

/// FNV-1a, and a finish that lets each bit of the name change each bit of the hash. The same
/// everywhere and always: balancers beside each other have the same ring.
fn hash(name: &str, purpose: u8) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    let bytes = name.bytes().chain([purpose]);
    let mut hash = bytes.fold(start, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for multiplier in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(multiplier);
    }
    hash ^ (hash >> 33)
}

/// Is it a prime? A ring of another size would leave entries that some server never reaches.
pub fn is_prime(number: u32) -> bool {
    let has_factor = || (2..=number.isqrt()).any(|factor| number.is_multiple_of(factor));
    number >= 2 && !has_factor()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;

    const SIZE: u32 = 65_537;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("192.0.2.{index}")).collect()
    }

    fn shares<'a>(names: &'a [String], weight: impl Fn(usize) -> f64) -> Vec<Share<'a>> {
        let share = |(index, name): (usize, &'a String)| Share {
            name,
            weight: weight(index),
        };
        names.iter().enumerate().map(share).collect()
    }

    fn counts(ring: &[u16], servers: usize) -> Vec<u32> {
        let mut counts = vec![0; servers];
        for server in ring {
            counts[usize::from(*server)] += 1;
        }
        counts
    }

    /// The part of the entries that belonged to another server than `changed` and do so no more, in
    /// percent.
    fn moved(before: &[u16], after: &[u16], changed: u16) -> f64 {
        let others = before.iter().zip(after);
        let others: Vec<_> = others.filter(|(server, _)| **server != changed).collect();
        let moved = others.iter().filter(|(before, after)| before != after);
        moved.count() as f64 * 100.0 / others.len() as f64
    }

    #[test]
    fn others_keep_their_flows_when_one_of_a_hundred_goes() {
        let names = names(100);
        let before = ring(SIZE, &shares(&names, |_| 1.0)).unwrap();
        let mut worst: f64 = 0.0;
        for gone in 0..100 {
            let after = ring(SIZE, &shares(&names, |index| f64::from(index != gone))).unwrap();
            assert!(!after.contains(&(gone as u16)));
            worst = worst.max(moved(&before, &after, gone as u16));
        }
        println!("removing one of 100 servers moves at most {worst:.2} % of the other flows");
        assert!(worst <= 1.5, "{worst}");
    }

    #[test]
    fn others_keep_their_flows_when_a_weight_changes() {
        let names = names(4);
        let before = ring(SIZE, &shares(&names, |_| 1.0)).unwrap();
        for (weight, bound) in [(0.9, 3.0), (0.5, 10.0)] {
            let with = |index| if index == 2 { weight } else { 1.0 };
            let after = ring(SIZE, &shares(&names, with)).unwrap();
            let moved = moved(&before, &after, 2);
            println!("weight 1 to {weight} of one of 4: {moved:.2} % of the other flows move");
            assert!(moved <= bound, "{moved}");
        }
    }

    #[test]
    fn weights_are_honoured() {
        let names = names(100);
        let weight = |index: usize| 0.1 + (index % 10) as f64;
        let ring = ring(SIZE, &shares(&names, weight)).unwrap();
        let sum: f64 = (0..100).map(weight).sum();
        for (index, count) in counts(&ring, 100).into_iter().enumerate() {
            let due = weight(index) / sum * f64::from(SIZE);
            let off = (f64::from(count) / due - 1.0).abs();
            assert!(
                off <= 0.02 || (f64::from(count) - due).abs() <= 1.0,
                "{index}: {count}, {due}"
            );
        }
    }

    #[test]
    fn a_ring_is_built_in_milliseconds() {
        let names = names(100);
        let shares = shares(&names, |index| 1.0 + index as f64 / 7.0);
        let begin = Instant::now();
        let rings = 5;
        for _ in 0..rings {
            assert!(ring(SIZE, &shares).is_some());
        }
        let each = begin.elapsed() / rings;
        println!("a ring of {SIZE} entries and 100 servers: {each:?}");
        // Unoptimised builds on a busy machine too.
        assert!(each.as_millis() < 200, "{each:?}");
    }

    #[test]
    fn without_weight_there_is_no_ring() {
        assert_eq!(ring(1021, &[]), None);
        let names = names(2);
        assert_eq!(ring(1021, &shares(&names, |_| 0.0)), None);
        let all_to_one = ring(1021, &shares(&names, |index| index as f64)).unwrap();
        assert!(all_to_one.iter().all(|server| *server == 1));
    }

    #[test]
    fn sizes_are_primes() {
        let sizes = [1021, 2039, 4093, 8191, 16_381, 32_749, 65_537];
        assert!(sizes.into_iter().all(is_prime));
        for composite in [0, 1, 4, 65_536, 65_535] {
            assert!(!is_prime(composite));
        }
    }

    proptest! {
        #[test]
        fn every_server_has_the_places_that_its_weight_says(weights in prop::collection::vec(0.0..10.0_f64, 1..40)) {
            let names = names(weights.len());
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum > 0.01);
            let ring = ring(8191, &shares(&names, |index| weights[index])).unwrap();
            for (index, count) in counts(&ring, weights.len()).into_iter().enumerate() {
                let due = weights[index] / sum * 8191.0;
                prop_assert!((f64::from(count) - due).abs() <= 2.0, "{count} entries, {due} due");
            }
        }

        #[test]
        fn the_order_of_servers_does_not_matter(weights in prop::collection::vec(0.1..10.0_f64, 2..20)) {
            let names = names(weights.len());
            let shares = shares(&names, |index| weights[index]);
            let reversed: Vec<_> = shares.iter().rev().copied().collect();
            let forward = ring(1021, &shares).unwrap();
            let backward = ring(1021, &reversed).unwrap();
            let last = weights.len() as u16 - 1;
            prop_assert!(forward.iter().zip(&backward).all(|(one, other)| *one == last - *other));
        }
    }
}
