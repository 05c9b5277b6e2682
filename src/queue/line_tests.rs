//! Unit tests of `line`.

use super::*;
use crate::sync::Arc;

fn task() -> TaskOrThread {
    TaskOrThread::Task(Waker::noop().clone())
}

/// Makes a value due. Returns the number of tasks that are chosen.
fn add_due(line: &mut Line<u32, ()>, number: u32) -> usize {
    assert!(line.add_due(vec![(Arc::new(Item::new(number, ())), 0)]).is_empty());
    line.choose(false, 1).1
}

#[test]
fn one_consumer_is_woken_for_each_value_in_turn() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 3].map(|()| Consumer::default());
    for consumer in &consumers {
        assert!(line.wait(consumer, task()).is_none());
    }
    assert_eq!(line.choose(false, 1).1, 0, "nothing is due");
    assert_eq!((add_due(&mut line, 5), line.next_chosen().is_some(), line.next_chosen().is_some()), (1, true, false));
    assert!(line.was_chosen(&consumers[0]) && !line.was_chosen(&consumers[1]));
    assert!(line.end_wait(&consumers[0]).is_none() && consumers[0].number() == 0);
    assert_eq!((line.choose(false, 1).1, line.next_chosen().is_some()), (1, true), "the wake-up is passed on");
    assert_eq!(line.pop().map(|(value, ..)| value), Some(5));
    assert!(line.end_wait(&consumers[1]).is_none() && consumers[1].number() == 0);
    assert_eq!((line.choose(false, 1).1, line.choose(true, 0).1), (0, 1));
    assert!(line.next_chosen().is_some() && line.waiting.is_empty());
}

#[test]
fn a_consumer_that_ignores_its_wake_up_keeps_none_from_the_others() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 2].map(|()| Consumer::default());
    for (consumer, number) in consumers.iter().zip(0..) {
        line.wait(consumer, task());
        assert_eq!((add_due(&mut line, number), line.next_chosen().is_some()), (1, true));
    }
    assert!([0, 1].iter().all(|&number| line.pop().is_some_and(|(value, ..)| value == number)));
    line.wait(&consumers[1], task());
    assert_eq!(add_due(&mut line, 2), 1);
}

#[test]
fn a_task_that_was_chosen_and_looks_before_its_waker_is_called_waits_anew() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 2].map(|()| Consumer::default());
    consumers.iter().for_each(|consumer| _ = line.wait(consumer, task()));
    assert_eq!(add_due(&mut line, 0), 1);
    assert_eq!(line.pop().map(|(value, ..)| value), Some(0));
    assert!(line.wait(&consumers[0], task()).is_some(), "its waker is not called any more");
    assert!(line.next_chosen().is_none());
    assert_eq!((add_due(&mut line, 1), line.next_chosen().is_some()), (1, true));
    assert!(line.was_chosen(&consumers[1]) && !line.was_chosen(&consumers[0]), "the other is first in turn now");
}

#[test]
fn an_end_chooses_also_those_whose_wakers_were_not_called() {
    let mut line: Line<u32, ()> = Line::new();
    let consumers = [(); 3].map(|()| Consumer::default());
    consumers.iter().for_each(|consumer| _ = line.wait(consumer, task()));
    assert_eq!(add_due(&mut line, 0) + add_due(&mut line, 1), 2);
    assert_eq!(line.choose(true, 0).1, 3);
    assert_eq!(iter::from_fn(|| line.next_chosen()).count(), 3);
}

#[test]
fn removed_items_that_were_due_leave_nothing_behind() {
    let mut line: Line<u32, ()> = Line::new();
    let items: Vec<_> = (0..100).map(|number| Arc::new(Item::new(number, ()))).collect();
    assert!(items[0].claim().is_some());
    let removed: Vec<_> = items.iter().flat_map(|item| line.add_due(vec![(item.clone(), 0)])).collect();
    assert!(matches!(&removed[..], [(item, 0)] if Arc::ptr_eq(item, &items[0])));
    assert_eq!(line.ready.len(), 99, "without the one that was removed before it was due");
    for item in items.iter().step_by(2).skip(1) {
        assert!(item.claim().is_some());
        line.remove(item);
        assert_eq!(Arc::strong_count(item), 1);
    }
    let popped: Vec<_> = iter::from_fn(|| line.pop()).map(|(value, ..)| value).collect();
    assert!(popped.iter().copied().eq((0..100).filter(|number| number % 2 == 1)), "{popped:?}");
}
