//! A hierarchical wheel under one lock, like tokio's timer. It has six levels of 64 slots with intrusive lists of
//! entries. Each entry has an atomic state, so a reset to a later deadline takes no lock.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RecordedCell};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::timers::Timers;

const LEVELS: usize = 6;
const SLOTS: usize = 64;
/// The state of a timer that has ended.
const ENDED: u64 = u64::MAX;

type Link = Option<NonNull<Entry>>;

/// One timer, owned by its handle. It fills a cache line; tokio's is larger than a line.
#[repr(align(64))]
pub struct Entry {
    /// Protected by the lock.
    links: RecordedCell<Links>,
    /// The deadline, or `ENDED`.
    state: AtomicU64,
    /// The deadline by which the entry is linked, not later than that in the state.
    registered_when: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Links {
    previous: Link,
    next: Link,
}

pub struct WheelTimer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    driver: Thread,
}

struct Shared {
    state: Mutex<State>,
    origin: Instant,
}

struct State {
    wheel: Box<Wheel>,
    /// The tick at which the driver wakes without a notification.
    next_wake: Option<u64>,
    closed: bool,
}

/// Its fields are cells, so that every access to one is recorded.
struct Wheel {
    elapsed: RecordedCell<u64>,
    levels: [Level; LEVELS],
}

struct Level {
    occupied: RecordedCell<u64>,
    slots: [RecordedCell<Link>; SLOTS],
}

pub struct Handle(Box<Entry>);

// SAFETY: threads change an entry only under the lock or by its atomic state.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Send for State {}

impl WheelTimer {
    pub fn start() -> Self {
        let level =
            || Level { occupied: RecordedCell::new(0), slots: std::array::from_fn(|_| RecordedCell::new(None)) };
        let levels = std::array::from_fn(|_| level());
        let wheel = Box::new(Wheel { elapsed: RecordedCell::new(0), levels });
        let state = Mutex::new(State { wheel, next_wake: None, closed: false });
        let shared = Arc::new(Shared { state, origin: Instant::now() });
        let driven = shared.clone();
        let thread = thread::spawn(move || driven.drive());
        let driver = thread.thread().clone();
        Self { shared, thread: Some(thread), driver }
    }

    /// Links the entry. Wakes the driver if the deadline is the earliest.
    fn register(&self, entry: &Entry, when: u64) {
        let state = self.shared.lock();
        let when = when.max(state.wheel.elapsed() + 1);
        entry.registered_when.store(when, Ordering::Relaxed);
        entry.state.store(when, Ordering::Relaxed);
        state.wheel.insert(entry.into());
        if state.next_wake.is_none_or(|wake| when < wake) {
            self.driver.unpark();
        }
    }
}

impl Timers for WheelTimer {
    type Handle = Handle;

    fn schedule(&self, delay: Duration) -> Handle {
        let entry = Box::new(Entry {
            links: RecordedCell::new(Links::default()),
            state: AtomicU64::new(ENDED),
            registered_when: AtomicU64::new(0),
        });
        self.register(&entry, self.shared.deadline(delay));
        Handle(entry)
    }

    fn cancel(&self, Handle(entry): Handle) -> bool {
        let state = self.shared.lock();
        let was_pending = entry.state.load(Ordering::Relaxed) != ENDED;
        if was_pending {
            state.wheel.remove((&*entry).into());
            entry.state.store(ENDED, Ordering::Relaxed);
        }
        drop(state);
        was_pending
    }

    fn reset(&self, Handle(entry): &mut Handle, delay: Duration) {
        let when = self.shared.deadline(delay);
        let later = |state: u64| (state <= when).then_some(when);
        if entry.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_err() {
            let state = self.shared.lock();
            if entry.state.load(Ordering::Relaxed) != ENDED {
                state.wheel.remove((&**entry).into());
            }
            drop(state);
            self.register(entry, when);
        }
    }
}

impl Drop for WheelTimer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.driver.unpark();
        self.thread.take().map(JoinHandle::join).expect("dropped once").expect("the thread does not panic");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it has the lock")
    }

    fn now(&self) -> u64 {
        (Instant::now() - self.origin).as_millis() as u64
    }

    fn deadline(&self, delay: Duration) -> u64 {
        (Instant::now() + delay - self.origin).as_nanos().div_ceil(1_000_000) as u64
    }

    fn drive(&self) {
        loop {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            state.wheel.advance(self.now());
            let next = state.wheel.next_expiration();
            state.next_wake = next;
            drop(state);
            match next {
                None => thread::park(),
                Some(next) => {
                    let tick = self.origin + Duration::from_millis(next);
                    thread::park_timeout(tick.saturating_duration_since(Instant::now()));
                }
            }
        }
    }
}

impl Wheel {
    fn elapsed(&self) -> u64 {
        // SAFETY: we own the wheel, because it is behind the lock. The same holds below.
        self.elapsed.with(|elapsed| unsafe { *elapsed })
    }

    /// Returns the level and the slot for a deadline.
    fn slot(&self, when: u64) -> (usize, usize) {
        let differs = (self.elapsed() ^ when) | (SLOTS as u64 - 1);
        let level = ((63 - differs.leading_zeros() as usize) / 6).min(LEVELS - 1);
        (level, (when >> (6 * level)) as usize % SLOTS)
    }

    fn insert(&self, entry: NonNull<Entry>) {
        // SAFETY: the handle keeps the entry alive until its removal.
        let when = unsafe { entry.as_ref() }.registered_when.load(Ordering::Relaxed);
        let (level, slot) = self.slot(when);
        let Level { occupied, slots } = &self.levels[level];
        // SAFETY: as above, and by the lock.
        unsafe {
            let next = slots[slot].with(|head| *head);
            entry.as_ref().links.with_mut(|links| *links = Links { previous: None, next });
            if let Some(next) = next {
                next.as_ref().links.with_mut(|links| (*links).previous = Some(entry));
            }
            slots[slot].with_mut(|head| *head = Some(entry));
            occupied.with_mut(|occupied| *occupied |= 1 << slot);
        }
    }

    fn remove(&self, entry: NonNull<Entry>) {
        // SAFETY: as above.
        unsafe {
            let Links { previous, next } = entry.as_ref().links.with(|links| *links);
            if let Some(next) = next {
                next.as_ref().links.with_mut(|links| (*links).previous = previous);
            }
            match previous {
                Some(previous) => previous.as_ref().links.with_mut(|links| (*links).next = next),
                None => {
                    let when = entry.as_ref().registered_when.load(Ordering::Relaxed);
                    let (level, slot) = self.slot(when);
                    self.levels[level].slots[slot].with_mut(|head| *head = next);
                    if next.is_none() {
                        self.levels[level].occupied.with_mut(|occupied| *occupied &= !(1 << slot));
                    }
                }
            }
        }
    }

    /// Returns the first occupied slot: its level, its index, and the tick at which it begins.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        self.levels.iter().enumerate().find_map(|(level, Level { occupied, .. })| {
            // SAFETY: as above.
            let occupied = occupied.with(|occupied| unsafe { *occupied });
            let elapsed = self.elapsed();
            let now = (elapsed >> (6 * level)) as u32 % SLOTS as u32;
            let ahead = u64::from(occupied.rotate_right(now).trailing_zeros());
            let begins = ((elapsed >> (6 * level)) + ahead) << (6 * level);
            (occupied != 0).then(|| (level, (u64::from(now) + ahead) as usize % SLOTS, begins))
        })
    }

    fn next_expiration(&self) -> Option<u64> {
        self.next_slot().map(|(_, _, begins)| begins)
    }

    /// Expires the timers that are due by `now`, and cascades the others.
    fn advance(&self, now: u64) {
        while let Some((level, slot, begins)) = self.next_slot()
            && begins <= now
        {
            let begins = begins.max(self.elapsed());
            let Level { occupied, slots } = &self.levels[level];
            // SAFETY: as above.
            let mut next = unsafe {
                occupied.with_mut(|occupied| *occupied &= !(1 << slot));
                let next = slots[slot].with(|head| *head);
                slots[slot].with_mut(|head| *head = None);
                self.elapsed.with_mut(|elapsed| *elapsed = begins);
                next
            };
            while let Some(entry) = next {
                // SAFETY: as above.
                let this = unsafe { entry.as_ref() };
                // SAFETY: as above.
                next = this.links.with(|links| unsafe { (*links).next });
                let due = |when: u64| (when <= begins).then_some(ENDED);
                // If the timer is due, the callback would run here.
                if let Err(later) = this.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, due) {
                    this.registered_when.store(later, Ordering::Relaxed);
                    self.insert(entry);
                }
            }
        }
        if self.elapsed() < now {
            // SAFETY: as above.
            self.elapsed.with_mut(|elapsed| unsafe { *elapsed = now });
        }
    }
}
