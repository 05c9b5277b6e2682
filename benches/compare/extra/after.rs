//! A queue made of `crossbeam-channel`'s `after`: a channel for each value.
//!
//! - A producer keeps its channels in a list of its own, under a lock that only the consumer and keys on other threads
//!   contend for. A removal takes the channel out and drops it.
//! - The consumer looks at all channels every millisecond, by `try_recv`. A `Select` over them would have to be built
//!   again, of all channels, for each push and each removal.
//! - It has no order among the values, and it cannot sleep while no value is due. A look takes the longer, the more
//!   values there are. A channel cannot be reset: a new one replaces it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after};
use thread_local::ThreadLocal;

use super::beside::Beside;
use crate::contender::Contender;

/// Interval between two looks of the consumer.
const LOOK: Duration = Duration::from_millis(1);

pub struct AfterQueue {
    shared: Arc<Shared>,
    consumer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    producers: ThreadLocal<Arc<Mutex<Channels>>>,
    closed: AtomicBool,
}

/// The channels of a producer.
#[derive(Default)]
struct Channels {
    places: Vec<Option<Value>>,
    free: Vec<usize>,
    /// The number of the last value.
    last: u64,
}

struct Value {
    number: u64,
    due: Receiver<Instant>,
    waker: Waker,
}

pub struct AfterKey {
    channels: Arc<Mutex<Channels>>,
    place: usize,
    number: u64,
}

impl Contender for AfterQueue {
    const NAME: &'static str = "crossbeam-after";
    type Handle = AfterKey;

    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let looks = shared.clone();
        let consume = move || {
            while !looks.closed.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                looks.producers.iter().for_each(|channels| {
                    let due = channels.lock().unwrap().take_due();
                    due.into_iter().for_each(|value| value.waker.wake());
                });
            }
        };
        Self { shared, consumer: Some(thread::spawn(consume)) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> AfterKey {
        let due = after(delay);
        let waker = Waker::from(target);
        let channels = self.shared.producers.get_or_default();
        let (place, number) = channels.lock().unwrap().put(due, waker);
        AfterKey { channels: channels.clone(), place, number }
    }

    fn cancel(&self, key: AfterKey) -> Option<bool> {
        let value = key.channels.lock().unwrap().take(key.place, |value| value.number == key.number);
        Some(value.is_some())
    }

    fn rearm(&self, key: &mut AfterKey, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        let mut channels = key.channels.lock().unwrap();
        let value = channels.places[key.place].as_mut().filter(|value| value.number == key.number);
        Some(value.map(|value| value.due = after(delay)).is_some())
    }
}

impl Beside for AfterQueue {
    fn call_back(&self, _: Duration, _: Arc<impl Wake + Send + Sync + 'static>) -> bool {
        false
    }
}

impl Drop for AfterQueue {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        self.consumer.take().map(JoinHandle::join).expect("it is joined once").expect("the consumer ends");
    }
}

impl Channels {
    fn put(&mut self, due: Receiver<Instant>, waker: Waker) -> (usize, u64) {
        self.last += 1;
        let number = self.last;
        let value = Value { number, due, waker };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(value);
                place
            }
            None => {
                self.places.push(Some(value));
                self.places.len() - 1
            }
        };
        (place, number)
    }

    /// Takes the value at a place, if there is one that `is_it` accepts.
    fn take(&mut self, place: usize, is_it: impl FnOnce(&Value) -> bool) -> Option<Value> {
        let value = self.places[place].take_if(|value| is_it(value))?;
        self.free.push(place);
        Some(value)
    }

    fn take_due(&mut self) -> Vec<Value> {
        let is_due = |value: &Value| value.due.try_recv().is_ok();
        (0..self.places.len()).filter_map(|place| self.take(place, is_due)).collect()
    }
}
