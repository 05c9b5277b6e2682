//! The bitmap of a level's occupied slots.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A set of slots, as a tree of 64-bit words: a set of the words that are not zero lies above more than one word.
///
/// Every operation reads at most two words of each tier, which is O(log64 slots). The tree has one tier up to 64 slots,
/// and five at 2^25.
#[derive(Default)]
pub(super) struct Occupancy {
    /// One bit for each slot.
    words: Vec<u64>,
    above: Option<Box<Occupancy>>,
}

impl Occupancy {
    pub(super) fn new(slots: usize) -> Occupancy {
        let words = slots.div_ceil(64);
        Occupancy { words: vec![0; words], above: (words > 1).then(|| Box::new(Occupancy::new(words))) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match &self.above {
            Some(above) => above.is_empty(),
            None => self.words.first().is_none_or(|&word| word == 0),
        }
    }

    pub(super) fn insert(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        if let Some(above) = &mut self.above {
            above.insert(slot / 64);
        }
    }

    pub(super) fn remove(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            if let Some(above) = &mut self.above {
                above.remove(slot / 64);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        if let Some(above) = &mut self.above {
            above.clear();
        }
    }

    /// Returns the first occupied slot from `slot` on, around the ring.
    #[inline]
    pub(super) fn next_from(&self, slot: usize) -> Option<usize> {
        self.at_or_after(slot).or_else(|| self.at_or_after(0))
    }

    #[inline]
    fn at_or_after(&self, slot: usize) -> Option<usize> {
        let rest = self.words.get(slot / 64)? >> (slot % 64);
        if rest != 0 {
            return Some(slot + rest.trailing_zeros() as usize);
        }
        let word = self.above.as_ref()?.at_or_after(slot / 64 + 1)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
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
