//! Unit tests of `line`.

use super::*;
use crate::sync::{AtomicPtr, thread};

fn batch<T>(item: Arc<Item<T, ()>>) -> Arc<DueBatch<T, ()>> {
    Arc::new(DueBatch { items: vec![Due { item, tick: 0 }], before: AtomicPtr::default() })
}

fn waiter() -> Waiter {
    Waiter::Task(Waker::noop().clone())
}

#[test]
fn members_find_their_index_again_and_memory_comes_back() {
    let mut line: Line<u32, ()> = Line::new();
    for round in 0..2 {
        let items: Vec<_> = (0..2000).map(|number| Arc::new(Item::new(number))).collect();
        items.iter().for_each(|item| line.enter(item.clone()));
        let (third, rest): (Vec<_>, Vec<_>) = (0..2000).partition(|index| index % 3 == 0);
        for index in third.into_iter().chain(rest.into_iter().rev()) {
            line.unlist(&items[index]);
            assert_eq!(Arc::strong_count(&items[index]), 1, "round {round}: the list has had this item");
        }
        assert_eq!(line.members.capacity(), 0);
    }
}

#[test]
fn one_consumer_is_woken_for_each_value_in_turn() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 3].map(|()| Consumer::default());
    for consumer in &consumers {
        assert!(line.wait(consumer, waiter()).is_none());
    }
    assert!(line.choose(false).is_empty(), "nothing is due");
    let item = Arc::new(Item::new(5));
    line.enter(item.clone());
    line.add_due(batch(item));
    assert_eq!((line.choose(false).len(), line.choose(false).len(), line.waiting.len()), (1, 0, 2));
    assert!(line.withdraw(&consumers[0]).is_none() && consumers[0].ticket() == 0);
    assert_eq!((line.choose(false).len(), line.waiting.len()), (1, 1), "the wake-up is passed on");
    assert_eq!(line.pop().map(|(value, _)| value), Some(5));
    assert!(line.end_wait(&consumers[1]).is_none() && consumers[1].ticket() == 0);
    assert_eq!((line.choose(false).len(), line.choose(true).len(), line.waiting.len()), (0, 1, 0));
}

#[test]
fn a_consumer_that_ignores_its_wake_up_keeps_none_from_the_others() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 2].map(|()| Consumer::default());
    for (consumer, number) in consumers.iter().zip(0..) {
        line.wait(consumer, waiter());
        let item = Arc::new(Item::new(number));
        line.enter(item.clone());
        line.add_due(batch(item));
        assert_eq!((line.choose(false).len(), line.waiting.len()), (1, 0));
    }
    assert!([0, 1].iter().all(|&number| line.pop().is_some_and(|(value, _)| value == number)));
    line.wait(&consumers[1], waiter());
    let item = Arc::new(Item::new(2));
    line.enter(item.clone());
    line.add_due(batch(item));
    assert_eq!(line.choose(false).len(), 1);
}

#[test]
fn removed_items_that_were_due_are_taken_out_of_the_way() {
    let mut line: Line<usize, ()> = Line::new();
    let items: Vec<_> = (0..100).map(|number| Arc::new(Item::new(number))).collect();
    for item in &items {
        line.enter(item.clone());
        line.add_due(batch(item.clone()));
    }
    for item in items.iter().step_by(2) {
        assert!(item.claim().is_some());
        line.remove(item.clone());
    }
    for _ in 0..100 {
        line.removed += 1;
        line.purge();
    }
    assert_eq!((line.ready.len(), line.discarded.len()), (50, 100), "each by the list and by `ready`");
    let popped: Vec<_> = iter::from_fn(|| line.pop()).map(|(value, _)| value).collect();
    assert!(popped.iter().copied().eq((0..100).filter(|number| number % 2 == 1)), "{popped:?}");
}

#[test]
fn a_wake_up_outlasts_a_park_in_between() {
    let consumer = Consumer::default();
    consumer.wake(&thread::current());
    thread::park();
    assert_eq!([(); 2].map(|()| consumer.was_woken()), [true, false]);
}
