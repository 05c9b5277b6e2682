//! The bitmap of a level's occupied slots.

use alloc::vec;
use alloc::vec::Vec;

/// A set of slots, as a tree of 64-bit words. A bit of an upper word is set if the word below it is not zero.
///
/// Every operation reads at most two words of each tier, which is O(log64 slots). The tree has one tier up to 64 slots,
/// and four at 2^24.
#[derive(Default)]
pub(super) struct Occupancy {
    root: u64,
    /// The words below the root; none up to 64 slots. The first tier has one bit for each slot.
    tiers: Vec<Vec<u64>>,
}

impl Occupancy {
    pub(super) fn new(slots: usize) -> Occupancy {
        let mut tiers = Vec::new();
        let mut width = slots;
        while width > 64 {
            width = width.div_ceil(64);
            tiers.push(vec![0; width]);
        }
        Occupancy { root: 0, tiers }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.root == 0
    }

    /// Adds a slot. Returns whether it was missing.
    #[inline]
    pub(super) fn insert(&mut self, slot: usize) -> bool {
        let mut index = slot;
        for tier in &mut self.tiers {
            let word = &mut tier[index / 64];
            let before = *word;
            *word |= 1 << (index % 64);
            if before != 0 {
                return before != *word;
            }
            index /= 64;
        }
        let before = self.root;
        self.root |= 1 << index;
        !self.tiers.is_empty() || before != self.root
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: usize) {
        let mut index = slot;
        for tier in &mut self.tiers {
            let word = &mut tier[index / 64];
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
        self.root &= !(1 << index);
    }

    #[inline]
    pub(super) fn contains(&self, slot: usize) -> bool {
        let word = self.tiers.first().map_or(self.root, |tier| tier[slot / 64]);
        word >> (slot % 64) & 1 != 0
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
        let mut index = slot;
        for (height, tier) in self.tiers.iter().enumerate() {
            let rest = tier.get(index / 64)? >> (index % 64);
            if rest != 0 {
                return Some(self.descend(height, index + rest.trailing_zeros() as usize));
            }
            index = index / 64 + 1;
        }
        let rest = self.root.checked_shr(index as u32)?;
        (rest != 0).then(|| self.descend(self.tiers.len(), index + rest.trailing_zeros() as usize))
    }

    /// Returns the first slot below bit `index` of the tier at `height`.
    #[inline]
    fn descend(&self, height: usize, index: usize) -> usize {
        self.tiers[..height].iter().rev().fold(index, |index, tier| index * 64 + tier[index].trailing_zeros() as usize)
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
                assert!(occupancy.insert(pair[0]));
                assert_eq!(occupancy.insert(pair[1]), pair[0] != pair[1]);
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
                assert!(occupancy.is_empty() && occupancy.insert(pair[1]));
            }
        }
    }
}
