//! A lock-free stack of nodes that its threads share by `Arc`, linked by the nodes themselves.
//!
//! It is a Treiber stack. [`push`](Stack::push) is one compare-exchange, retried only if another push came first:
//! lock-free. [`take_all`](Stack::take_all) is one swap: wait-free. No node is popped alone, and a node enters a stack at
//! most once, so there is no ABA.
//!
//! The lists of a delay queue and of the registry are such stacks. It is in this room because `queue` and `shard` both
//! import it. The stack of `engine` links indices of 32 bits instead, because an entry has no room for a pointer.

use std::marker::PhantomData;
use std::ptr;

use crate::sync::{Arc, AtomicPtr, Ordering};

pub(crate) struct Stack<N> {
    /// The node pushed last. The stack owns a count of each of its nodes.
    head: AtomicPtr<N>,
    /// Returns the link of a node to the one that was pushed before it. A node has one for each stack that it may enter.
    link: fn(&N) -> &AtomicPtr<N>,
    owns: PhantomData<Arc<N>>,
}

impl<N> Stack<N> {
    pub(crate) fn new(link: fn(&N) -> &AtomicPtr<N>) -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), link, owns: PhantomData }
    }

    /// Adds a node that has not been on this stack before.
    pub(crate) fn push(&self, node: Arc<N>) {
        let node = Arc::into_raw(node).cast_mut();
        // SAFETY: we own the count of the node until the exchange below, because `into_raw` leaves it to us.
        let link = (self.link)(unsafe { &*node });
        // Release: publishes the node and its link; pairs with `take_all` and `head`. Relaxed for the link itself:
        // published by this. Loom models `delay_queue` and `registry`.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            link.store(head, Ordering::Relaxed);
            Some(node)
        });
    }

    /// Takes all nodes, and returns them in the order in which they were pushed.
    pub(crate) fn take_all(&self) -> Taken<N> {
        let mut taken = Taken { next: ptr::null_mut(), link: self.link, owns: PhantomData };
        // A swap would take the line away from the threads that push. What this load misses, the caller sees after its next
        // fence, or the thread that pushed it sees the caller: see the head of `hand_over`.
        if self.is_empty() {
            return taken;
        }
        // Acquire: pairs with every push, as later pushes continue the release sequence of earlier ones.
        let mut next = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: we own the counts of the whole list, because the swap took it.
            let link = (self.link)(unsafe { &*next });
            let pushed_before = link.load(Ordering::Relaxed);
            link.store(taken.next, Ordering::Relaxed);
            taken.next = next;
            next = pushed_before;
        }
        taken
    }

    /// Returns the node pushed last, or null.
    pub(crate) fn head(&self) -> *mut N {
        // Acquire: pairs with every push, as above.
        self.head.load(Ordering::Acquire)
    }

    /// Returns whether there is nothing to take. The caller orders this by a fence.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: see `HandOver::settle`.
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<N> Drop for Stack<N> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Nodes that were taken from a stack.
pub(crate) struct Taken<N> {
    next: *mut N,
    link: fn(&N) -> &AtomicPtr<N>,
    owns: PhantomData<Arc<N>>,
}

impl<N> Iterator for Taken<N> {
    type Item = Arc<N>;

    fn next(&mut self) -> Option<Arc<N>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: we own a count of this node, because the list owns one of each of its nodes, and leaves this one here.
        let node = unsafe { Arc::from_raw(self.next.cast_const()) };
        // Relaxed: acquired with the head of the list.
        self.next = (self.link)(&node).load(Ordering::Relaxed);
        Some(node)
    }
}

impl<N> Drop for Taken<N> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
