//! Unit tests of `driver`: of the memory that it trims.

use super::*;
use crate::engine::entry::{CLOSED, Callback, RUNNING};
use crate::engine::wakeup::DriverWakeup;

const TIMERS: u32 = 200_000;

/// A core whose pages have a given number of blocks, its driver's half, and a thread's cache.
struct Fixture {
    core: Core,
    driver: ShardDriver,
    cache: Cache,
}

fn levels() -> Levels {
    Levels::new(0, &[64], 2).unwrap()
}

impl Fixture {
    fn new(page: u32) -> Self {
        let core = Core::new(Slab::with_page(page).unwrap(), u64::MAX, 1 << 10, DriverWakeup::alone());
        Self { core, driver: ShardDriver::new(levels()), cache: Cache::new() }
    }

    fn schedule(&mut self) -> u32 {
        let index = self.core.free_entry(&mut self.cache).ok().unwrap();
        let entry = self.core.slab.get(index);
        // SAFETY: we own the entry, because it came from the cache. The cell has room for a closure that owns nothing.
        let notice = unsafe {
            entry.write_callback(|data| Callback::write_once::<_, ()>(data, &|| ()));
            entry.arm_written(CallbackKind::Once, 1000, 0).unwrap()
        };
        self.core.notify_driver(index, notice, 1000, 0);
        index
    }

    fn cancel(&mut self, index: u32) {
        let entry = self.core.slab.get(index);
        entry.cancel().unwrap();
        // SAFETY: the timer was ended above, and does not run.
        unsafe { entry.drop_callback() };
        assert!(!entry.release().has(ARMED | RUNNING | DISPATCHED | CLOSED));
        self.core.recycle(&mut self.cache, index);
    }

    /// Drives until the driver would sleep.
    fn drive(&mut self) {
        loop {
            self.driver.advance_round(&self.core, || 0);
            if !self.driver.in_round && !self.driver.do_chores(&self.core) {
                break;
            }
        }
        assert!(!self.driver.has_chores(&self.core) && self.driver.expired.is_empty());
    }
}

/// Memory that no timer needs goes back, for every size of a page. Memory that a few timers keep goes back when
/// they end.
#[test]
fn pages_of_every_size_go_back() {
    for page in [1, 4, 16] {
        let mut fixture = Fixture::new(page);
        // What is always retained, the caches, and the pages that are about to be used.
        let least = 4096 + 8 * page as usize * 64;
        let mut timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
        fixture.drive();
        assert!(fixture.core.slab.len() >= TIMERS as usize);
        // One of 128 survives.
        let mut survivors = Vec::new();
        for (number, index) in timers.drain(..).enumerate() {
            if number % 128 == 77 { survivors.push(index) } else { fixture.cancel(index) }
        }
        fixture.drive();
        // Each survivor keeps its page: half of the pages of one block have a survivor, and all larger pages.
        let pinned = TIMERS as usize / if page == 1 { 2 } else { 1 };
        let kept = fixture.core.slab.len();
        assert!(kept <= pinned + least, "{kept} entries for {pinned} in pages of {page}");
        // Each survivor is replaced before it ends.
        for survivor in &mut survivors {
            let next = fixture.schedule();
            fixture.cancel(std::mem::replace(survivor, next));
            let brief = fixture.schedule();
            fixture.cancel(brief);
        }
        fixture.drive();
        let kept = fixture.core.slab.len();
        assert!(kept <= 2 * survivors.len() + least, "{kept} entries, {} survivors", survivors.len());
        survivors.drain(..).for_each(|index| fixture.cancel(index));
        let Fixture { core, cache, .. } = &mut fixture;
        core.drain_cache(cache);
        fixture.drive();
        let kept = fixture.core.slab.len();
        assert!(kept <= least, "{kept} entries, no survivor");
    }
}

/// Entries that a thread frees after the driver has set aside those of the depot, but before their block is marked, go
/// back as well.
#[test]
fn entries_freed_during_a_trim_go_back() {
    let mut fixture = Fixture::new(1);
    let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
    fixture.drive();
    // The late entries are too few to start another trim.
    let (late, early): (Vec<_>, Vec<_>) = (0..timers.len()).partition(|number| number % 256 == 0);
    early.iter().for_each(|&number| fixture.cancel(timers[number]));
    for numbers in late.chunks(2) {
        numbers.iter().for_each(|&number| fixture.cancel(timers[number]));
        fixture.driver.reclaim(&fixture.core);
    }
    let Fixture { core, cache, .. } = &mut fixture;
    core.drain_cache(cache);
    fixture.drive();
    let kept = fixture.core.slab.len();
    assert!(kept <= 8192, "{kept} entries are kept for no timer");
}

/// What a thread's cache has of sparse blocks is set aside when the cache is drained, when it overflows, and when the
/// thread frees an entry of such a block. In the depot, each entry would keep its page.
#[test]
fn caches_give_no_entry_of_a_sparse_block_to_the_pool() {
    for drains in [true, false] {
        let mut fixture = Fixture::new(1);
        let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
        fixture.drive();
        // Two of each block survive: one is cancelled before the blocks are sparse, and fills the cache.
        for (number, &index) in timers.iter().enumerate() {
            if !matches!(number % 64, 5 | 6) {
                fixture.cancel(index);
            }
        }
        let Fixture { core, cache, .. } = &mut fixture;
        core.drain_cache(cache);
        (0..20).for_each(|block| fixture.cancel(timers[block * 64 + 5]));
        fixture.drive();
        assert!(fixture.core.slab.len_outside_sparse() < 4096, "all are sparse");
        let pooled = fixture.core.depot.len();
        let Fixture { core, cache, .. } = &mut fixture;
        if drains {
            core.drain_cache(cache);
        } else {
            fixture.cancel(timers[30 * 64 + 5]);
        }
        assert_eq!(fixture.core.depot.len(), pooled);
        (0..20).for_each(|block| fixture.cancel(timers[block * 64 + 6]));
        assert_eq!(fixture.core.slab.free_blocks(), 20);
    }
}

/// All entries that are set aside in a block that is not sparse go to the depot, however many magazines they are.
#[test]
fn a_whole_block_goes_back_to_the_pool() {
    let fixture = Fixture::new(1);
    let core = &fixture.core;
    let mut last = 0;
    core.slab.alloc(|index| last = index).unwrap();
    for index in 1..64 {
        // SAFETY: we own the entries, because this thread has allocated them. They are free, and no driver runs.
        unsafe { core.slab.set_aside_any(index) };
    }
    // SAFETY: as above.
    unsafe { core.set_aside(last) };
    assert_eq!((last, core.depot.len()), (0, 64));
}

/// Entries in the intake keep the driver from retiring their pages. It tries again when it has taken the intake.
#[test]
fn a_trim_that_the_intake_has_blocked_continues() {
    let mut fixture = Fixture::new(1);
    let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
    timers.into_iter().for_each(|index| fixture.cancel(index));
    let Fixture { core, driver, cache } = &mut fixture;
    core.drain_cache(cache);
    while driver.reclaim(core) {}
    assert!(core.slab.len() >= TIMERS as usize && !driver.has_chores(core), "all are in the intake");
    fixture.drive();
    assert_eq!(fixture.core.slab.len(), 0);
}

/// While a thread is stopped in the middle of a pop, the depot seems longer than it is.
#[test]
fn a_pop_that_is_not_counted_yet_causes_one_scan() {
    let mut fixture = Fixture::new(1);
    fixture.core = Core::new(Slab::new().unwrap(), u64::MAX, 1, DriverWakeup::alone());
    let timers: Vec<_> = (0..64).map(|_| fixture.schedule()).collect();
    fixture.drive();
    timers.into_iter().for_each(|index| fixture.cancel(index));
    let Fixture { core, driver, cache } = &mut fixture;
    core.drain_cache(cache);
    let mut turns = Vec::new();
    core.depot.pop(&core.slab, |_| turns.push((0..1000).take_while(|_| driver.reclaim(core)).count()));
    assert!(turns.iter().all(|&turns| turns < 1000), "{turns:?}");
}

/// A driver that has marked all it can does not scan again.
#[test]
fn pages_that_are_all_in_use_are_scanned_once() {
    let mut fixture = Fixture::new(1);
    let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
    fixture.drive();
    for (number, &index) in timers.iter().enumerate() {
        if number % 8 != 0 {
            fixture.cancel(index);
        }
    }
    fixture.drive();
    assert_eq!(fixture.core.slab.len(), TIMERS.next_multiple_of(64) as usize, "no block is free");
    assert!(fixture.core.slab.len_outside_sparse() < 4096, "all are sparse");
    assert!(!fixture.driver.reclaim(&fixture.core));
}
