//! Unit tests of `hand_over`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

fn queue<B>() -> Arc<HandOver<u32, B>> {
    Arc::new(HandOver::new(|act, waker| act(waker)))
}

/// Lists an item, whose timer the test ends.
fn item<B>(queue: &Arc<HandOver<u32, B>>, value: u32, beside: B) -> Arc<Item<u32, B>> {
    let (item, mut expiry) = Expiry::enter(queue, value, beside).expect("the queue is open");
    expiry.item = None;
    queue.list(item.clone());
    item
}

#[test]
fn a_value_that_is_removed_leaves_nothing_while_a_consumer_has_its_lock() {
    let queue = queue();
    let _line = lock(&queue.line);
    for value in 0..1000 {
        let item = item(&queue, value, ());
        assert_eq!(queue.remove(&item, false), Some(value));
        assert_eq!((Arc::strong_count(&item), queue.len()), (1, 0));
    }
}

#[test]
fn items_find_their_index_again_and_memory_comes_back() {
    let queue = queue();
    let items: Vec<_> = (0..9000).map(|number| Arc::new(Item::new(number, ()))).collect();
    for _ in 0..2 {
        items.iter().for_each(|item| queue.list(item.clone()));
        let (third, rest): (Vec<_>, Vec<_>) = (1..9000).partition(|index| index % 3 == 0);
        for (index, left) in third.into_iter().chain(rest.into_iter().rev()).zip((1..9000).rev()) {
            // It is unlisted once.
            (0..2).for_each(|_| queue.unlist(&items[index]));
            assert_eq!((Arc::strong_count(&items[index]), queue.len()), (1, left));
        }
        assert!(lock(&queue.members).capacity() <= RETAINED, "beside one that is left");
        let drained = mem::take(&mut *lock(&queue.members));
        assert!(matches!(&drained[..], [left] if Arc::ptr_eq(left, &items[0])));
        queue.unlist(&items[0]);
        assert_eq!((Arc::strong_count(&items[0]), queue.len()), (2, 0), "a drain has it");
    }
}

/// Beside a value: its drop sends whether the consumers' lock is free.
struct Looks(Arc<HandOver<u32, Looks>>, mpsc::Sender<bool>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.1.send(self.0.line.try_lock().is_ok()).unwrap();
    }
}

#[test]
fn a_value_that_is_removed_before_the_driver_adds_it_is_dropped_without_the_lock() {
    let queue = queue();
    let (sender, receiver) = mpsc::channel();
    let item = item(&queue, 7, Looks(queue.clone(), sender));
    assert_eq!(queue.remove(&item, true), Some(7));
    assert_eq!((queue.add_due(vec![(item, 0)]), receiver.recv()), (0, Ok(true)));
}

#[test]
fn a_driver_waits_for_no_producer() {
    let queue = queue();
    let item = item(&queue, 7, ());
    let members = lock(&queue.members);
    thread::scope(|scope| {
        let driver = scope.spawn(|| queue.add_due(vec![(item, 0)]));
        let waits = (0..500).all(|_| {
            thread::sleep(Duration::from_millis(10));
            !driver.is_finished()
        });
        drop(members);
        assert!(!waits);
    });
    assert!(matches!(queue.poll(&Consumer::default(), None), Poll::Ready(Some((7, ..)))));
}

#[test]
fn a_value_that_is_removed_when_it_is_due_leaves_nothing() {
    let queue = queue();
    let item = item(&queue, 7, ());
    queue.add_due(vec![(item.clone(), 0)]);
    assert_eq!((queue.remove(&item, true), Arc::strong_count(&item)), (Some(7), 1));
}

#[test]
fn items_that_are_delivered_together_come_out_in_order() {
    let queues = [(); 2].map(|()| queue());
    let mut deliveries = Deliveries::default();
    for (value, queue) in [(1, 0), (4, 1), (2, 0), (3, 0)] {
        Expiry::enter(&queues[queue], value, ()).unwrap().1.deliver(value.into(), &mut deliveries);
    }
    let pop = |queue: usize| match queues[queue].poll(&Consumer::default(), None) {
        Poll::Ready(Some((value, (_, tick)))) => Some((value, tick)),
        _ => None,
    };
    assert_eq!(pop(0), None, "not yet");
    deliveries.publish();
    assert_eq!([(); 4].map(|()| pop(0)), [Some((1, 1)), Some((2, 2)), Some((3, 3)), None]);
    assert_eq!([(); 2].map(|()| pop(1)), [Some((4, 4)), None]);
}
