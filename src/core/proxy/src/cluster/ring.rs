//! Consistent hashing: a ring on which every host has places, as Envoy builds it.

use std::sync::Arc;

use super::{Host, Hosts};

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// XXH64 with seed 0.
pub(crate) fn xx_hash(bytes: &[u8]) -> u64 {
    xx_hash_from(0, bytes)
}

/// XXH64 with a seed.
pub(crate) fn xx_hash_from(seed: u64, bytes: &[u8]) -> u64 {
    let [p1, p2, p3, p4, p5] = PRIMES;
    let round =
        |lane: u64, word: u64| lane.wrapping_add(word.wrapping_mul(p2)).rotate_left(31).wrapping_mul(p1);
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut hash = if blocks.is_empty() {
        seed.wrapping_add(p5)
    } else {
        let mut lanes =
            [seed.wrapping_add(p1).wrapping_add(p2), seed.wrapping_add(p2), seed, seed.wrapping_sub(p1)];
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        let [a, b, c, d] = lanes;
        let mut hash = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(p1).wrapping_add(p4);
        }
        hash
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash = (hash ^ round(0, u64::from_le_bytes(*word))).rotate_left(27).wrapping_mul(p1).wrapping_add(p4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        let word = u64::from(u32::from_le_bytes(*half)).wrapping_mul(p1);
        hash = (hash ^ word).rotate_left(23).wrapping_mul(p2).wrapping_add(p3);
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(p3);
    hash ^ (hash >> 32)
}

/// Places of a ring that a worker builds by itself: that takes about a millisecond.
const MAX_SMALL: f64 = 16384.0;

/// The ring of the hosts of a generation.
#[derive(Debug, Default)]
pub(super) struct HostRing {
    pub(super) generation: u64,
    hosts: Hosts,
    ring: Ring,
}

impl HostRing {
    /// As [`Ring::new`].
    pub(super) fn new(generation: u64, hosts: &Hosts, sizes: (u64, u64)) -> Self {
        Self { generation, hosts: Arc::clone(hosts), ring: Ring::new(hosts, sizes) }
    }

    /// The host of a hash; `None` without hosts.
    pub(super) fn host(&self, hash: u64) -> Option<Arc<Host>> {
        self.hosts.get(self.ring.find(hash)).map(Arc::clone)
    }
}

/// Whether a ring takes long to build.
pub(super) fn is_large(hosts: &Hosts, sizes: (u64, u64)) -> bool {
    Ring::scale(hosts, sizes) > MAX_SMALL
}

/// A ring: hashes in order, each with the index of a host.
#[derive(Debug, Default)]
pub(super) struct Ring(Vec<(u64, u32)>);

impl Ring {
    /// A ring of hosts, each with places in proportion to its weight. Cost: O(n log n) of the places.
    pub(super) fn new(hosts: &Hosts, sizes: (u64, u64)) -> Self {
        let share = shares(hosts);
        let scale = Self::scale(hosts, sizes);
        let mut places = Vec::with_capacity(scale.ceil() as usize);
        let (mut current, mut target) = (0.0, 0.0);
        let mut key = String::new();
        for (index, host) in (0..).zip(hosts.iter()) {
            target += scale * share(host.weight);
            let address = host.address.to_string();
            let mut number = 0_u64;
            while current < target {
                key.clear();
                key.push_str(&address);
                key.push('_');
                key.push_str(&number.to_string());
                places.push((xx_hash(key.as_bytes()), index));
                number += 1;
                current += 1.0;
            }
        }
        places.sort_unstable();
        Self(places)
    }

    /// The number of places: as few as give the lightest host a whole number of them.
    fn scale(hosts: &Hosts, (min, max): (u64, u64)) -> f64 {
        let share = shares(hosts);
        let least = hosts.iter().map(|host| share(host.weight)).fold(1.0, f64::min);
        ((least * min as f64).ceil() / least).min(max as f64)
    }

    /// The index of the host of a hash.
    pub(super) fn find(&self, hash: u64) -> usize {
        let place = self.0.partition_point(|(known, _)| *known < hash);
        let found = self.0.get(place).or(self.0.first());
        found.map_or(0, |(_, index)| usize::try_from(*index).unwrap_or(0))
    }
}

/// The share of a weight.
fn shares(hosts: &Hosts) -> impl Fn(u32) -> f64 + use<> {
    let sum: f64 = hosts.iter().map(|host| f64::from(host.weight)).sum();
    move |weight| f64::from(weight) / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::RING_SIZES;

    #[test]
    fn hashes_are_those_of_the_reference() {
        // From the description of the algorithm, and xxhsum(1).
        assert_eq!(xx_hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xx_hash(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xx_hash(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xx_hash(b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
    }

    #[test]
    fn hosts_have_places_by_weight_and_most_keys_stay_when_one_leaves() {
        let hosts = |weights: &[u32]| -> Hosts {
            let host =
                |(port, weight): (u16, &u32)| Arc::new(Host::new(([127, 0, 0, 1], port).into(), "", *weight));
            (1000..).zip(weights).map(host).collect()
        };
        let ring = Ring::new(&hosts(&[1, 3]), RING_SIZES);
        assert_eq!(ring.0.len(), 1024);
        assert_eq!(ring.0.iter().filter(|(_, index)| *index == 0).count(), 256);
        // 512 places for each host.
        let ring_of =
            |weights: &[u32]| Ring::new(&hosts(weights), (512 * weights.len() as u64, RING_SIZES.1));
        let (all, fewer) = (ring_of(&[1, 1, 1]), ring_of(&[1, 1]));
        let keys: Vec<u64> = (0..1000_u32).map(|key| xx_hash(&key.to_le_bytes())).collect();
        let stays = keys.iter().filter(|key| all.find(**key) < 2);
        assert!(
            stays.clone().count() > 500 && stays.clone().count() < 800,
            "two of three: {}",
            stays.clone().count()
        );
        assert!(stays.clone().all(|key| all.find(*key) == fewer.find(*key)), "keys of hosts that stay do");
        assert_eq!(ring.find(u64::MAX), ring.find(0), "the ring is closed");
    }
}
