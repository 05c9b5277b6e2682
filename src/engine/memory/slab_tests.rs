//! Unit tests of `slab`.

use std::collections::HashSet;

use super::*;

#[test]
fn an_entry_is_one_cache_line() {
    assert_eq!(size_of::<Entry>(), 64);
}

#[test]
fn every_index_has_an_entry_of_its_own() {
    for page in [1, 4, 16] {
        let slab = Slab::with_page(page).unwrap();
        let mut next = 0;
        let mut entries = HashSet::new();
        for _ in 0..50 {
            assert_eq!(slab.alloc_new_page(), Ok(next));
            for index in slab.entries(slab.blocks_of(next)) {
                assert!(entries.insert(ptr::from_ref(slab.get(index))));
            }
            next += page;
        }
        assert_eq!(slab.close().count(), (next * BLOCK) as usize);
        assert!(slab.close().all(|entry| entries.remove(&ptr::from_ref(entry))));
        assert_eq!(slab.alloc_new_page(), Err(AllocError::Closed));
    }
}

#[test]
fn a_closed_slab_has_no_entry_of_a_retired_page() {
    for page in [1, 4, 16] {
        let slab = Slab::with_page(page).unwrap();
        (0..40).for_each(|_| _ = slab.alloc_new_page().unwrap());
        let (first, last) = (7 * page, 33 * page);
        // SAFETY: we own the entries, because this thread has allocated their pages. They are free.
        unsafe { slab.retire(slab.pages(first..last).collect()) };
        assert_eq!(slab.len(), 14 * (page * BLOCK) as usize);
        let again = slab.alloc_retired_page().unwrap().unwrap();
        assert!((first..last).contains(&again));
        assert_eq!(slab.close().count(), slab.len());
        assert_eq!(slab.alloc_retired_page(), Err(AllocError::Closed));
        // SAFETY: as above.
        unsafe { slab.retire(slab.pages(0..page).collect()) };
        assert_eq!(slab.len(), 16 * (page * BLOCK) as usize, "the page that was refused is not retired either");
    }
}

#[test]
fn a_scan_has_every_entry_but_those_of_retired_pages() {
    for page in [1, 4, 16] {
        let slab = Slab::with_page(page).unwrap();
        assert_eq!(slab.in_memory().count(), 0);
        (0..40).for_each(|_| _ = slab.alloc_new_page().unwrap());
        assert_eq!(slab.in_memory().count(), (40 * page * BLOCK) as usize);
        // SAFETY: we own the pages, because this thread has allocated them.
        unsafe { slab.retire(slab.pages(7 * page..33 * page).collect()) };
        assert_eq!(slab.in_memory().count(), (14 * page * BLOCK) as usize);
        slab.alloc_retired_page().unwrap().unwrap();
        assert_eq!(slab.in_memory().count(), slab.len());
    }
}

/// The driver claims a page block by block. A thread may have adopted a later block meanwhile.
#[test]
fn a_page_that_is_claimed_in_part_is_given_back() {
    let slab = Slab::with_page(4).unwrap();
    slab.alloc_new_page().unwrap();
    for index in (0..4 * BLOCK).filter(|&index| index != 2 * BLOCK) {
        // SAFETY: we own the entries, because this thread has allocated their page. They are free, and no driver runs.
        unsafe { slab.set_aside_any(index) };
    }
    let mut back = Vec::new();
    assert!(!slab.claim_page(0, |index| back.push(index)));
    assert_eq!(back, (0..2 * BLOCK).collect::<Vec<_>>());
    assert_eq!(slab.count_aside(0), 2 * BLOCK - 1);
}

#[test]
fn no_more_entries_are_allocated_than_an_index_can_name() {
    let slab = Slab::new().unwrap();
    slab.counts.blocks.store((1 << 26) - (SMALLEST_SEGMENT / BLOCK), Ordering::Relaxed);
    assert_eq!(slab.alloc_new_page(), Err(AllocError::NoMemory));
}

#[test]
fn segments_follow_each_other_without_a_gap() {
    let mut first = 0;
    for number in 0..SEGMENTS {
        let last = first + size(number) - 1;
        assert_eq!(locate(first), (number, 0));
        assert_eq!(locate(last), (number, size(number) as usize - 1));
        first = last.wrapping_add(1);
    }
    assert_eq!(first, u32::MAX - SMALLEST_SEGMENT + 1, "all that 32 bits can name");
}
