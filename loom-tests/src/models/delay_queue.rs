//! Explores how a value travels from its producer to one consumer of a delay queue.
//!
//! Invariant: each value comes out once, a value that is due wakes a consumer, and a closed queue ends when all its values
//! have come out.
//!
//! Promise: delay queues.

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::sync::Notify;

use super::explore;
use crate::engine::deliveries::{Deliveries, Delivery};
use crate::queue::hand_over::{Expiry, HandOver};
use crate::queue::line::{Consumer, Item, TaskOrThread};
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering};

/// A value that loom sees: it reports one that is never dropped, or twice.
type Value = Arc<u32>;
type Queue = Arc<HandOver<Value, ()>>;

/// A thread that sleeps until its waker is called. A wake-up that is lost is a deadlock, which loom reports.
struct Sleeper(Notify);

// SAFETY: loom's `Notify` is shared by the threads of a model.
unsafe impl Send for Sleeper {}
// SAFETY: as above.
unsafe impl Sync for Sleeper {}

impl Wake for Sleeper {
    fn wake(self: StdArc<Self>) {
        self.0.notify();
    }
}

impl Sleeper {
    fn new() -> StdArc<Self> {
        StdArc::new(Self(Notify::new()))
    }

    fn task(self: &StdArc<Self>) -> TaskOrThread {
        TaskOrThread::Task(Waker::from(self.clone()))
    }
}

fn queue() -> Queue {
    Arc::new(HandOver::new(|act, waker| act(waker)))
}

fn enter(queue: &Queue, value: u32) -> (Arc<Item<Value, ()>>, Expiry<Value, ()>) {
    let (item, expiry) = Expiry::enter(queue, Arc::new(value), ()).expect("the queue is open");
    queue.list(item.clone());
    (item, expiry)
}

/// Makes items of one queue due together, as a driver does in one turn.
fn deliver<const N: usize>(expiries: [(Expiry<Value, ()>, u64); N]) {
    drop(publish(expiries));
}

/// As [`deliver`], but calls no waker yet.
fn publish<const N: usize>(expiries: [(Expiry<Value, ()>, u64); N]) -> Vec<Box<dyn Delivery>> {
    let mut deliveries = Deliveries::default();
    expiries.into_iter().for_each(|(expiry, tick)| expiry.deliver(tick, &mut deliveries));
    deliveries.publish()
}

/// Takes what is due, without waiting.
fn try_pop(queue: &Queue) -> Option<u32> {
    match queue.poll(&Consumer::default(), None) {
        Poll::Ready(popped) => popped.map(|(value, ..)| *value),
        Poll::Pending => None,
    }
}

/// Sleeps until a value is due, or the queue is over.
fn pop(queue: &Queue) -> Option<(u32, u64)> {
    wait(queue, &Consumer::default(), &Sleeper::new())
}

fn wait(queue: &Queue, consumer: &Consumer, sleeper: &StdArc<Sleeper>) -> Option<(u32, u64)> {
    loop {
        match queue.poll(consumer, Some(sleeper.task())) {
            Poll::Ready(popped) => return popped.map(|(value, (_, tick))| (*value, tick)),
            Poll::Pending => sleeper.0.wait(),
        }
    }
}

/// As [`pop`], but as a thread that is blocked.
fn block_and_pop(queue: &Queue) -> Option<(u32, u64)> {
    let consumer = Consumer::default();
    let thread = Thread(Arc::new(Notify::new()));
    loop {
        match queue.poll(&consumer, Some(TaskOrThread::Thread(thread.clone()))) {
            Poll::Ready(popped) => return popped.map(|(value, (_, tick))| (*value, tick)),
            Poll::Pending => thread.0.wait(),
        }
    }
}

/// One of a removal, an expiry with a pop, and the drop of the queue receives the value.
#[test]
fn remove_against_expiry_against_pop() {
    explore(|| {
        let queue = queue();
        let (item, expiry) = enter(&queue, 7);
        let remover = {
            let (queue, item) = (queue.clone(), item.clone());
            thread::spawn(move || queue.remove(&item, true).map(|value| *value))
        };
        let driver = thread::spawn(move || deliver([(expiry, 5)]));
        let popped = try_pop(&queue);
        let removed = remover.join().unwrap();
        driver.join().unwrap();
        let dropped = queue.drain().next().map(|(value, _)| *value);
        assert_eq!([removed, popped, dropped].iter().flatten().collect::<Vec<_>>(), [&7]);
        assert_eq!((queue.len(), item.is_claimed()), (0, true));
    });
}

/// Two values that become due while their keys remove them and a consumer looks for them.
#[test]
fn two_values_are_removed_or_popped_once() {
    explore(|| {
        let queue = queue();
        let (first, expiry) = enter(&queue, 1);
        deliver([(expiry, 5)]);
        let other = {
            let queue = queue.clone();
            thread::spawn(move || {
                let (second, expiry) = enter(&queue, 2);
                deliver([(expiry, 6)]);
                (queue.remove(&first, true).is_some(), second)
            })
        };
        let popped = [try_pop(&queue), try_pop(&queue)];
        let (removed, second) = other.join().unwrap();
        let rest = [try_pop(&queue), try_pop(&queue)];
        let out: Vec<_> = popped.into_iter().chain(rest).flatten().collect();
        assert_eq!(out, if removed { vec![2] } else { vec![1, 2] });
        assert_eq!(Arc::strong_count(&second), 1, "it is listed nowhere any more");
        assert_eq!(queue.len(), 0);
    });
}

/// A value that becomes due wakes the consumer that sleeps, or the consumer sees it.
#[test]
fn expiry_against_a_sleeping_consumer() {
    explore(|| {
        let queue = queue();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || deliver([(enter(&queue, 7).1, 5)]))
        };
        assert_eq!(pop(&queue), Some((7, 5)));
        producer.join().unwrap();
        assert_eq!(queue.len(), 0);
    });
}

/// Two values that become due, in one turn or in two, and two consumers: neither sleeps while a value is due.
#[test]
fn two_expiries_against_two_consumers() {
    for in_one_turn in [false, true] {
        explore(move || two_expiries(in_one_turn));
    }
}

fn two_expiries(in_one_turn: bool) {
    let queue = queue();
    let expiries = [enter(&queue, 1).1, enter(&queue, 2).1];
    let consumer = {
        let queue = queue.clone();
        thread::spawn(move || block_and_pop(&queue))
    };
    if in_one_turn {
        deliver(expiries.map(|expiry| (expiry, 5)));
    } else {
        expiries.into_iter().for_each(|expiry| deliver([(expiry, 5)]));
    }
    let mut out = [pop(&queue), consumer.join().unwrap()].map(|popped| popped.expect("it is not over").0);
    out.sort_unstable();
    assert_eq!(out, [1, 2]);
}

/// A consumer that is woken, or about to be, withdraws: the next in turn receives the value.
#[test]
fn a_consumer_that_withdraws_against_expiry() {
    explore(|| {
        let queue = queue();
        let (_, expiry) = enter(&queue, 7);
        let consumers = [(); 2].map(|()| (Consumer::default(), Sleeper::new()));
        for (consumer, sleeper) in &consumers {
            assert!(queue.poll(consumer, Some(sleeper.task())).is_pending());
        }
        let driver = thread::spawn(move || deliver([(expiry, 5)]));
        let [(first, _), (second, sleeper)] = consumers;
        queue.withdraw(&first);
        // It sleeps until it is woken: it does not look before.
        sleeper.0.wait();
        assert_eq!(wait(&queue, &second, &sleeper), Some((7, 5)));
        driver.join().unwrap();
    });
}

/// A driver has chosen a task and does not come to its waker, as one before it blocks: the thread that ends the queue wakes
/// the task.
#[test]
fn close_against_a_waker_that_is_not_called() {
    explore(|| {
        let queue = queue();
        let [expiry, unused] = [1, 2].map(|value| enter(&queue, value).1);
        let consumer = Consumer::default();
        let sleeper = Sleeper::new();
        assert!(queue.poll(&consumer, Some(sleeper.task())).is_pending());
        let driver = thread::spawn(move || publish([(expiry, 5)]));
        queue.wake(queue.close());
        let delivery = driver.join().unwrap();
        drop(unused);
        // It sleeps until it is woken: it does not look before.
        sleeper.0.wait();
        assert_eq!(wait(&queue, &consumer, &sleeper), Some((1, 5)));
        assert_eq!(wait(&queue, &consumer, &sleeper), None);
        drop(delivery);
    });
}

/// What was due before the end comes out; then the consumer that sleeps is woken, and learns that the queue is over.
#[test]
fn shutdown_against_pop() {
    for (delivers, closes_first) in [(true, false), (true, true), (false, false), (false, true)] {
        explore(move || {
            let queue = queue();
            let (item, expiry) = enter(&queue, 7);
            let ends = {
                let queue = queue.clone();
                thread::spawn(move || {
                    let close = |now| {
                        if now {
                            queue.wake(queue.close());
                        }
                    };
                    close(closes_first);
                    if delivers {
                        deliver([(expiry, 5)])
                    } else {
                        drop(expiry)
                    }
                    close(!closes_first);
                })
            };
            assert_eq!(pop(&queue).is_some(), delivers, "it is over when nothing can become due");
            if delivers {
                assert_eq!(pop(&queue), None);
            }
            ends.join().unwrap();
            assert_eq!(queue.remove(&item, true).is_some(), !delivers, "what was not due stays");
        });
    }
}

/// A shutdown begins to close the queue, and ends its last timer. The queue's user closes it, too. The consumer is woken
/// once, at the end of the shutdown's close.
#[test]
fn close_against_a_close_that_has_begun() {
    explore(|| {
        let has_begun = Arc::new(AtomicBool::new(false));
        let called = Arc::new(AtomicU32::new(0));
        let apply = {
            let (has_begun, called) = (has_begun.clone(), called.clone());
            move |act: fn(Waker), waker| {
                assert!(!has_begun.fetch_and(true, Ordering::SeqCst), "not before the end of the close");
                called.fetch_add(1, Ordering::SeqCst);
                act(waker);
            }
        };
        let queue: Queue = Arc::new(HandOver::new(apply));
        let (_, expiry) = enter(&queue, 7);
        assert!(queue.poll(&Consumer::default(), Some(Sleeper::new().task())).is_pending());
        let closes = queue.clone();
        let user = thread::spawn(move || closes.wake(closes.close()));
        queue.begin_close();
        has_begun.store(true, Ordering::SeqCst);
        drop(expiry);
        has_begun.store(false, Ordering::SeqCst);
        queue.wake(queue.end_close());
        user.join().unwrap();
        assert_eq!(called.load(Ordering::SeqCst), 1);
        assert!(matches!(queue.poll(&Consumer::default(), None), Poll::Ready(None)));
    });
}

/// A push that is accepted comes before the close, so its value comes out before consumers learn that the queue is over.
#[test]
fn push_against_close() {
    explore(|| {
        let queue = queue();
        let pushes = queue.clone();
        let producer = thread::spawn(move || match Expiry::enter(&pushes, Arc::new(7), ()) {
            Ok((item, expiry)) => {
                deliver([(expiry, 5)]);
                pushes.list(item);
                true
            }
            Err(value) => *value != 7,
        });
        let closes = queue.clone();
        let closer = thread::spawn(move || closes.wake(closes.close()));
        let popped = pop(&queue);
        assert_eq!(producer.join().unwrap(), popped.is_some());
        closer.join().unwrap();
        assert_eq!((pop(&queue), queue.len()), (None, 0));
    });
}

/// Each value is drained or removed, once, also while a removal is under way.
#[test]
fn drain_against_remove() {
    explore(|| {
        let queue = queue();
        let [(first, unused), (_, due)] = [1, 2].map(|value| enter(&queue, value));
        let remover = {
            let queue = queue.clone();
            thread::spawn(move || queue.remove(&first, true).map(|value| *value))
        };
        let driver = thread::spawn(move || deliver([(due, 5)]));
        let drain = || queue.drain().map(|(value, _)| *value);
        let mut drained: Vec<_> = drain().collect();
        let (_, later) = enter(&queue, 3);
        drained.extend(remover.join().unwrap());
        drained.extend(drain());
        drained.sort_unstable();
        assert_eq!(drained, [1, 2, 3]);
        driver.join().unwrap();
        drop((unused, later));
        assert_eq!((try_pop(&queue), queue.len()), (None, 0));
    });
}

/// A value may come out before its push has listed it.
#[test]
fn list_against_pop() {
    explore(|| {
        let queue = queue();
        let (item, due) = Expiry::enter(&queue, Arc::new(7), ()).expect("the queue is open");
        deliver([(due, 5)]);
        let pushes = (queue.clone(), item.clone());
        let push = thread::spawn(move || pushes.0.list(pushes.1));
        assert_eq!(try_pop(&queue), Some(7));
        push.join().unwrap();
        assert_eq!((queue.len(), Arc::strong_count(&item)), (0, 1));
    });
}
