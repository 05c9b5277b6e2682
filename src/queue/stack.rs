//! Lock-free lists of nodes on their way to the thread that holds the queue's lock.
//!
//! A Treiber stack through a link of the nodes. A push is one compare-exchange, retried only if another push came first.
//! All nodes are taken at once by one swap, so there is no ABA. A node has one link for each stack, and enters each stack
//! at most once.

use std::marker::PhantomData;
use std::ptr;

use crate::sync::{Arc, AtomicPtr, Ordering};

/// A node of stacks: it has a link for each stack that it may enter.
pub(super) trait Linked: Sized {
    /// Names a stack.
    type Link: Copy;

    fn link(&self, link: Self::Link) -> &AtomicPtr<Self>;
}

pub(super) struct Stack<N: Linked> {
    /// The node pushed last. The stack owns a count of each of its nodes.
    head: AtomicPtr<N>,
    link: N::Link,
    owns: PhantomData<Arc<N>>,
}

impl<N: Linked> Stack<N> {
    pub(super) fn new(link: N::Link) -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), link, owns: PhantomData }
    }

    /// Adds a node that has not been on this stack before. Lock-free.
    pub(super) fn push(&self, node: Arc<N>) {
        let node = Arc::into_raw(node).cast_mut();
        // SAFETY: we own the count of the node until the exchange below, because `into_raw` leaves it to us.
        let link = unsafe { &*node }.link(self.link);
        // Release: publishes the node and its link; pairs with `take_all`. Relaxed for the link itself: published by this.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            link.store(head, Ordering::Relaxed);
            Some(node)
        });
    }

    /// Takes all nodes, and returns them in the order in which they were pushed. Wait-free.
    pub(super) fn take_all(&self) -> Taken<N> {
        // A swap would take the line away from the threads that push. What this load misses, the caller sees after its next
        // fence, or the thread that pushed it sees the caller: see the head of `hand_over`.
        if self.is_empty() {
            return Taken { next: ptr::null_mut(), link: self.link, owns: PhantomData };
        }
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

impl<N: Linked> Drop for Stack<N> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Nodes that were taken from a stack.
pub(super) struct Taken<N: Linked> {
    next: *mut N,
    link: N::Link,
    owns: PhantomData<Arc<N>>,
}

impl<N: Linked> Iterator for Taken<N> {
    type Item = Arc<N>;

    fn next(&mut self) -> Option<Arc<N>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: we own a count of this node, because the list owns one of each of its nodes, and leaves this one here.
        let node = unsafe { Arc::from_raw(self.next.cast_const()) };
        // Relaxed: acquired with the head of the list.
        self.next = node.link(self.link).load(Ordering::Relaxed);
        Some(node)
    }
}

impl<N: Linked> Drop for Taken<N> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
