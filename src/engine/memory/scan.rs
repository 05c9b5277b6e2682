//! A look at all entries of a slab, while other threads use them.

use super::slab::{RETIRED, Slab};
use crate::engine::entry::Entry;
use crate::sync::Ordering;

impl Slab {
    /// Returns every entry in memory. Leaves retired frames out, whose pages it need not touch.
    ///
    /// An entry that another thread allocates or retires meanwhile may be in the result or not. Its state can be read
    /// either way: a retired entry is free.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = &Entry> {
        // Acquire: pairs with the transitions of `retire` and `alloc_retired_frame`. A frame that this thread has
        // allocated, or one whose allocation it knows of, is not left out.
        let in_memory = |&first: &u32| self.block(first).0.state.load(Ordering::Acquire) & RETIRED == 0;
        self.frames(0..self.blocks())
            .filter(in_memory)
            .flat_map(|first| self.frame_entries(first * crate::sync::BLOCK))
            .map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::BLOCK;

    #[test]
    fn a_scan_has_every_entry_but_those_of_retired_frames() {
        for frame in [1, 4, 16] {
            let slab = Slab::with_frame(frame);
            assert_eq!(slab.in_memory().count(), 0);
            (0..40).for_each(|_| _ = slab.alloc_new_frame().unwrap());
            assert_eq!(slab.in_memory().count(), (40 * frame * BLOCK) as usize);
            // SAFETY: we own the frames, because this thread has allocated them.
            unsafe { slab.retire(7 * frame..33 * frame) };
            assert_eq!(slab.in_memory().count(), (14 * frame * BLOCK) as usize);
            slab.alloc_retired_frame().unwrap().unwrap();
            assert_eq!(slab.in_memory().count(), slab.len());
        }
    }
}
