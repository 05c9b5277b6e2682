//! A storm over delay queues: each value comes out in exactly one way, and not before its deadline.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{mem, sync::Arc};

use common::*;
use corewheel::{DelayKey, DelayQueue, Timer};
use fastrand::Rng;

/// The ways in which values came out.
#[derive(Default)]
struct Account {
    pushed: AtomicUsize,
    popped: AtomicUsize,
    removed: AtomicUsize,
    /// Those of `removed` whose timers the shutdown may have ended before.
    removed_late: AtomicUsize,
    refused: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value, which notes how often it came out.
struct Value {
    /// No deadline that the value was given is earlier, in nanoseconds after the start.
    earliest: Arc<AtomicU64>,
    out: Arc<AtomicU32>,
    account: Arc<Account>,
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_eq!(self.out.fetch_add(1, Ordering::SeqCst), 0, "a value comes out once");
        self.account.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

struct Storm {
    start: Instant,
    end: Instant,
    timer: Timer,
    account: Arc<Account>,
    /// Keys that other threads may use.
    keys: Mutex<Vec<(DelayKey<Value>, Arc<AtomicU64>)>>,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Storm {
    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Pushes, resets and removes until the timer refuses a value.
    fn produce(&self, queue: DelayQueue<Value>, mut random: Rng) {
        loop {
            let delay = Duration::from_micros(if random.u64(..20) == 0 { 10_000_000 } else { random.u64(..3000) });
            let earliest = Arc::new(AtomicU64::new(self.nanos(Instant::now() + delay)));
            let value = Value { earliest: earliest.clone(), out: Arc::default(), account: self.account.clone() };
            match queue.push(delay, value) {
                Ok(key) => {
                    self.account.pushed.fetch_add(1, Ordering::SeqCst);
                    if random.u64(..3) > 0 {
                        self.keys.lock().unwrap().push((key, earliest));
                    }
                }
                Err(refused) => {
                    assert!(refused.is_shutdown());
                    drop(refused.into_inner());
                    self.account.refused.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
            let key = {
                let mut keys = self.keys.lock().unwrap();
                let index = random.u64(..keys.len().max(1) as u64) as usize;
                (random.u64(..2) == 0 && index < keys.len()).then(|| keys.swap_remove(index))
            };
            if let Some((key, earliest)) = key {
                if random.u64(..2) == 0 {
                    // Lowered before the reset, which may be to an earlier deadline.
                    let delay = Duration::from_micros(random.u64(..2000));
                    earliest.fetch_min(self.nanos(Instant::now() + delay), Ordering::SeqCst);
                    _ = key.reset(delay);
                    self.keys.lock().unwrap().push((key, earliest));
                } else if let Some(value) = key.remove() {
                    self.account.removed.fetch_add(1, Ordering::SeqCst);
                    self.account.removed_late.fetch_add(self.timer.is_shutdown().into(), Ordering::SeqCst);
                    drop(value);
                }
            }
            if Instant::now() > self.end && random.u64(..100) == 0 {
                assert_eq!(self.timer.shutdown().len(), 0, "values are not in `Unfired`");
            }
        }
    }

    /// Pops in every way until the queue is over.
    fn consume(&self, mut queue: DelayQueue<Value>, mut random: Rng) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            let due = match random.u64(..4) {
                0 => queue.try_pop(),
                1 => queue.pop_timeout(Duration::from_micros(random.u64(..500))),
                2 => match queue.poll_pop(&mut Context::from_waker(&waker)) {
                    Poll::Ready(due) => due,
                    Poll::Pending if random.u64(..2) == 0 => {
                        // The consumer goes away, whether it was woken or not.
                        let clone = queue.clone();
                        drop(mem::replace(&mut queue, clone));
                        None
                    }
                    Poll::Pending => {
                        thread::park_timeout(MS);
                        None
                    }
                },
                _ => match queue.pop() {
                    Some(due) => Some(due),
                    None => return,
                },
            };
            if let Some(due) = due {
                let now = Instant::now();
                assert!(now >= due.deadline, "a value is early");
                assert!(self.nanos(now) >= due.value.earliest.load(Ordering::SeqCst), "a value is early");
                self.account.popped.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Promise: delay queues.
#[test]
fn each_value_comes_out_in_exactly_one_way() {
    for round in 0..6_u64 {
        let timer = Timer::builder().shards(1 + round as usize % 3).tick(Duration::from_micros(200)).build().unwrap();
        let start = Instant::now();
        let storm = Storm {
            start,
            end: start + Duration::from_millis(600),
            timer: timer.clone(),
            account: Arc::default(),
            keys: Mutex::default(),
        };
        let queue = DelayQueue::new(&timer);
        thread::scope(|scope| {
            for number in 0..4 {
                let storm = &storm;
                let producer = queue.clone();
                let consumer = queue.clone();
                scope.spawn(move || storm.produce(producer, Rng::with_seed(1000 * round + number)));
                scope.spawn(move || storm.consume(consumer, Rng::with_seed(1000 * round + 100 + number)));
            }
        });
        let account = &storm.account;
        let get = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let left = get(&account.pushed) - get(&account.popped) - get(&account.removed);
        assert_eq!(queue.len(), left, "what is left was not due");
        assert!(queue.try_pop().is_none());
        let keys = mem::take(&mut *storm.keys.lock().unwrap());
        let by_key = keys.into_iter().filter_map(|(key, _)| key.remove()).count();
        assert_eq!(queue.len(), left - by_key);
        drop(queue);
        let accepted = get(&account.pushed);
        assert_eq!(get(&account.dropped), accepted + get(&account.refused), "every value is dropped once");
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.pending), (accepted as u64, 0));
        assert_eq!(stats.fired, stats.completed);
        let unfired = left..=left + get(&account.removed_late);
        assert!(unfired.contains(&(stats.unfired as usize)), "{} of {unfired:?} unfired", stats.unfired);
        assert!(get(&account.popped) > 1000 && get(&account.removed) > 100 && by_key > 0, "{accepted} values");
        assert_balanced(&timer);
    }
}

/// Promise: delay queues.
#[test]
fn the_memory_of_a_burst_of_values_comes_back() {
    // In a process of its own, whose memory no other test uses.
    const NAME: &str = "the_memory_of_a_burst_of_values_comes_back";
    if !is_child(NAME) {
        let output = child(NAME, "", &[]);
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let burst = |count: u32| (0..count).for_each(|value| _ = queue.push(SEC, [u64::from(value); 8]).unwrap());
    burst(1000);
    clock.advance(SEC);
    while queue.try_pop().is_some() {}
    let before = resident();
    burst(200_000);
    let full = resident() - before;
    clock.advance(SEC);
    while queue.try_pop().is_some() {}
    clock.advance(SEC);
    eventually("the memory comes back", || {
        clock.advance(MS);
        // SAFETY: it returns free memory of the allocator to the system.
        unsafe { libc::malloc_trim(0) };
        resident().saturating_sub(before) < full / 4
    });
    assert!(queue.is_empty());
}
