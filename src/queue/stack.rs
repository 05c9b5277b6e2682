//! Lock-free lists of items on their way to the thread that holds the queue's lock.
//!
//! A Treiber stack through a link of the items. A push is one compare-exchange, retried only if another push came first.
//! All items are taken at once by one swap, so there is no ABA. An item has one link for each stack, and enters each
//! stack at most once.

use std::marker::PhantomData;
use std::ptr;

use super::item::{Item, Link};
use crate::sync::{Arc, AtomicPtr, Ordering};

pub(super) struct Stack<T, H> {
    /// The item pushed last. The stack owns a count of each of its items.
    head: AtomicPtr<Item<T, H>>,
    link: Link,
    owns: PhantomData<Arc<Item<T, H>>>,
}

impl<T, H> Stack<T, H> {
    pub(super) fn new(link: Link) -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), link, owns: PhantomData }
    }

    /// Adds an item that has not been on this stack before. Lock-free.
    pub(super) fn push(&self, item: Arc<Item<T, H>>) {
        let item = Arc::into_raw(item).cast_mut();
        // SAFETY: we own the count of the item until the exchange below, because `into_raw` leaves it to us.
        let link = unsafe { &*item }.link(self.link);
        // Release: publishes the item and its link; pairs with `take_all`. Relaxed for the link itself: published by this.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            link.store(head, Ordering::Relaxed);
            Some(item)
        });
    }

    /// Takes all items, and returns them in the order in which they were pushed. Wait-free.
    pub(super) fn take_all(&self) -> Taken<T, H> {
        // Acquire: pairs with every push, as later pushes continue the release sequence of earlier ones.
        let mut next = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut first = ptr::null_mut();
        while !next.is_null() {
            // SAFETY: we own the counts of the whole list, because the swap took it.
            let link = unsafe { &*next }.link(self.link);
            let pushed_before = link.load(Ordering::Relaxed);
            link.store(first, Ordering::Relaxed);
            first = next;
            next = pushed_before;
        }
        Taken { next: first, link: self.link, owns: PhantomData }
    }

    /// Returns whether there is nothing to take. The caller orders this by a fence.
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: see `HandOver::settle`.
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<T, H> Drop for Stack<T, H> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Items that were taken from a stack.
pub(super) struct Taken<T, H> {
    next: *mut Item<T, H>,
    link: Link,
    owns: PhantomData<Arc<Item<T, H>>>,
}

impl<T, H> Iterator for Taken<T, H> {
    type Item = Arc<Item<T, H>>;

    fn next(&mut self) -> Option<Arc<Item<T, H>>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: we own a count of this item, because the list owns one of each of its items, and leaves this one here.
        let item = unsafe { Arc::from_raw(self.next.cast_const()) };
        // Relaxed: acquired with the head of the list.
        self.next = item.link(self.link).load(Ordering::Relaxed);
        Some(item)
    }
}

impl<T, H> Drop for Taken<T, H> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
