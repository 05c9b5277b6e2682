//! Replaces `std::thread` by logical threads.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64 as UnrecordedU64, Ordering};
use std::sync::{Arc as Unrecorded, Mutex};

pub use std::thread::*;

use super::schedule;
use super::sync::Arc;
use super::sync::atomic::AtomicU32;
use super::sync::futex;
use super::time::Duration;

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = u32::MAX;

thread_local! {
    static CURRENT: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug)]
pub struct Thread(Arc<Inner>);

/// As in the standard library: the name, the number, and the word at which the thread parks.
#[derive(Debug)]
struct Inner {
    name: Option<String>,
    id: ThreadId,
    parker: AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(u64);

impl Thread {
    fn new(name: Option<String>) -> Self {
        static NEXT: UnrecordedU64 = UnrecordedU64::new(0);
        let id = ThreadId(NEXT.fetch_add(1, Ordering::Relaxed));
        Self(Arc::new(Inner { name, id, parker: AtomicU32::new(EMPTY) }))
    }

    pub fn id(&self) -> ThreadId {
        self.0.id
    }

    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    pub fn unpark(&self) {
        let parker = &self.0.parker;
        if parker.swap(NOTIFIED, Ordering::Release) == PARKED {
            futex::wake(parker, false);
        }
    }
}

pub fn current() -> Thread {
    let name = || std::thread::current().name().map(str::to_owned);
    let this = CURRENT.try_with(|current| current.borrow_mut().get_or_insert_with(|| Thread::new(name())).clone());
    // The thread is ending.
    this.unwrap_or_else(|_| Thread::new(name()))
}

pub fn park() {
    park_until(None);
}

pub fn park_timeout(timeout: Duration) {
    park_until(Some(timeout));
}

fn park_until(timeout: Option<Duration>) {
    let thread = current();
    let parker = &thread.0.parker;
    // Empty becomes parked, notified becomes empty.
    if parker.fetch_sub(1, Ordering::Acquire) == NOTIFIED {
        return;
    }
    futex::wait(parker, PARKED, timeout);
    parker.swap(EMPTY, Ordering::Acquire);
}

pub fn yield_now() {
    schedule::yield_now();
}

pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("the system starts a thread")
}

#[derive(Debug)]
pub struct Builder {
    builder: std::thread::Builder,
    name: Option<String>,
}

impl Builder {
    #[expect(clippy::new_without_default, reason = "as in the standard library")]
    pub fn new() -> Self {
        Self { builder: std::thread::Builder::new(), name: None }
    }

    pub fn name(self, name: String) -> Self {
        Self { builder: self.builder.name(name.clone()), name: Some(name) }
    }

    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        let result = Unrecorded::new(Mutex::new(None));
        let thread = Thread::new(self.name);
        let number = schedule::spawn(self.builder, {
            let (result, thread) = (result.clone(), thread.clone());
            move || {
                CURRENT.set(Some(thread));
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
                *result.lock().expect("no thread panics while it has the lock") = Some(outcome);
            }
        })?;
        Ok(JoinHandle { number, thread, result })
    }
}

#[derive(Debug)]
pub struct JoinHandle<T> {
    number: usize,
    thread: Thread,
    result: Unrecorded<Mutex<Option<Result<T>>>>,
}

impl<T> JoinHandle<T> {
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    pub fn join(self) -> Result<T> {
        schedule::join(self.number);
        self.result.lock().expect("as above").take().expect("a thread that has ended has a result")
    }
}
