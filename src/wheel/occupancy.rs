//! The bitmap of a level's occupied slots.

use core::iter;

use smallvec::{SmallVec, smallvec};

/// A set of slots, as a tree of 64-bit words: a bit says whether a slot is occupied, or a word of the tier below is not
/// zero.
///
/// Every operation reads at most two words of each tier, which is O(log64 slots). The tree has one tier up to 64 slots,
/// and five at 2^25. Up to 128 slots, it lies in its level.
#[derive(Default)]
pub(super) struct Occupancy {
    root: u64,
    /// The tiers below the root, the finest first.
    tiers: SmallVec<[SmallVec<[u64; 2]>; 1]>,
}

impl Occupancy {
    pub(super) fn new(slots: usize) -> Occupancy {
        let words = |bits: &usize| Some(bits.div_ceil(64)).filter(|&words| words > 1);
        let tiers = iter::successors(words(&slots), words).map(|words| smallvec![0; words]).collect();
        Occupancy { root: 0, tiers }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.root == 0
    }

    pub(super) fn insert(&mut self, slot: usize) {
        let mut bit = slot;
        for tier in &mut self.tiers {
            tier[bit / 64] |= 1 << (bit % 64);
            bit /= 64;
        }
        self.root |= 1 << bit;
    }

    pub(super) fn remove(&mut self, slot: usize) {
        let mut bit = slot;
        for tier in &mut self.tiers {
            tier[bit / 64] &= !(1 << (bit % 64));
            if tier[bit / 64] != 0 {
                return;
            }
            bit /= 64;
        }
        self.root &= !(1 << bit);
    }

    pub(super) fn clear(&mut self) {
        self.root = 0;
        self.tiers.iter_mut().for_each(|tier| tier.fill(0));
    }

    /// Returns the first occupied slot from `slot` on, around the ring.
    #[inline]
    pub(super) fn next_from(&self, slot: usize) -> Option<usize> {
        self.at_or_after(slot).or_else(|| self.at_or_after(0))
    }

    #[inline]
    fn at_or_after(&self, slot: usize) -> Option<usize> {
        let next = |word: u64, bit: usize| {
            Some(word >> (bit % 64)).filter(|&rest| rest != 0).map(|rest| bit + rest.trailing_zeros() as usize)
        };
        let mut from = slot;
        for (height, tier) in self.tiers.iter().enumerate() {
            if let Some(bit) = tier.get(from / 64).and_then(|&word| next(word, from)) {
                return Some(self.first_below(height, bit));
            }
            from = from / 64 + 1;
        }
        let bit = if from < 64 { next(self.root, from) } else { None };
        Some(self.first_below(self.tiers.len(), bit?))
    }

    /// Returns the first occupied slot below a bit of the tier of this height.
    #[inline]
    fn first_below(&self, height: usize, bit: usize) -> usize {
        let down = self.tiers[..height].iter().rev();
        down.fold(bit, |bit, tier| bit * 64 + tier[bit].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Occupancy;

    /// Returns slots at the edges of the words of each tier.
    fn edges(slots: usize) -> Vec<usize> {
        [0, 1, 62, 63, 64, 65, 127, 128, 4095, 4096, 4097, 262_143, 262_144, slots - 1]
            .into_iter()
            .filter(|slot| *slot < slots)
            .collect()
    }

    #[test]
    fn finds_the_next_occupied_slot_around_the_ring() {
        for slots in [2, 3, 63, 64, 65, 100, 4096, 4097, 262_145, 1 << 24] {
            let edges = edges(slots);
            for pair in edges.iter().flat_map(|a| edges.iter().map(move |b| [*a, *b])) {
                let mut occupancy = Occupancy::new(slots);
                assert_eq!(occupancy.next_from(0), None);
                if slots > 4097 && pair[0] != slots - 1 {
                    continue;
                }
                pair.into_iter().for_each(|slot| occupancy.insert(slot));
                for from in edges.iter().copied() {
                    let distance = |slot: &usize| (slot + slots - from) % slots;
                    let nearest = pair.into_iter().min_by_key(distance);
                    assert_eq!(occupancy.next_from(from), nearest, "{slots} slots from {from}");
                }
                occupancy.remove(pair[0]);
                let left = (pair[0] != pair[1]).then_some(pair[1]);
                assert_eq!(occupancy.next_from(pair[0]), left);
                assert_eq!(occupancy.is_empty(), left.is_none());
                occupancy.clear();
                assert!(occupancy.is_empty());
                occupancy.insert(pair[1]);
                assert_eq!(occupancy.next_from(0), Some(pair[1]));
            }
        }
    }
}
