//! Delay queues: this crate's, and that of `tokio-util` behind a mutex. A value is a waker, which the one consumer calls.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corewheel::{DelayKey, DelayQueue, Timer};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::time::delay_queue::{DelayQueue as TokioQueue, Key};

use super::beside::Beside;
use crate::contender::Contender;

/// This crate's queue. The consumer is a thread that blocks.
pub struct CoreQueue {
    timer: Timer,
    queue: DelayQueue<Waker>,
    consumer: Option<JoinHandle<()>>,
}

impl Contender for CoreQueue {
    const NAME: &'static str = "corewheel-queue";
    type Handle = DelayKey<Waker>;

    fn start() -> Self {
        let timer = Timer::new().expect("the timer starts");
        let queue = DelayQueue::new(&timer);
        let values: DelayQueue<Waker> = queue.clone();
        let consume = move || {
            while let Some(due) = values.pop() {
                due.value.wake()
            }
        };
        Self { timer, queue, consumer: Some(thread::spawn(consume)) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Self::Handle {
        self.queue.push(delay, Waker::from(target)).expect("the timer is open")
    }

    fn cancel(&self, key: Self::Handle) -> Option<bool> {
        Some(key.remove().is_some())
    }

    fn rearm(
        &self,
        key: &mut Self::Handle,
        delay: Duration,
        _: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        Some(key.reset(delay))
    }
}

impl Beside for CoreQueue {
    fn call_back(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> bool {
        self.timer.schedule(delay, move || target.wake()).expect("the timer is open");
        true
    }
}

impl Drop for CoreQueue {
    fn drop(&mut self) {
        self.timer.shutdown();
        self.consumer.take().map(JoinHandle::join).expect("it is joined once").expect("the consumer ends");
    }
}

/// The queue of `tokio-util`, shared by a mutex as its users share it. The consumer is a task on a runtime of its own.
pub struct TokioUtilQueue {
    queue: Arc<Mutex<TokioQueue<Value>>>,
    runtime: Handle,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// A waker, and whether the value has left the queue: a key that is used after that panics.
struct Value {
    waker: Waker,
    is_out: Arc<AtomicBool>,
}

pub struct TokioKey {
    key: Key,
    is_out: Arc<AtomicBool>,
}

impl Contender for TokioUtilQueue {
    const NAME: &'static str = "tokio-util-queue";
    type Handle = TokioKey;

    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("the runtime starts");
        let handle = runtime.handle().clone();
        let queue = Arc::new(Mutex::new(TokioQueue::<Value>::new()));
        let values = queue.clone();
        let (end, ended) = oneshot::channel();
        let next = move |context: &mut Context<'_>| {
            let mut values = values.lock().unwrap();
            // An empty queue keeps the waker, too.
            let Poll::Ready(Some(due)) = values.poll_expired(context) else { return Poll::Pending };
            let value = due.into_inner();
            value.is_out.store(true, Ordering::Relaxed);
            Poll::Ready(value.waker)
        };
        let consume = async move {
            let mut next = next;
            let consumer = tokio::spawn(async move {
                loop {
                    poll_fn(&mut next).await.wake();
                }
            });
            // It ends when the sender is dropped.
            _ = ended.await;
            consumer.abort();
        };
        let consumer = thread::spawn(move || runtime.block_on(consume));
        Self { queue, runtime: handle, end: Some((end, consumer)) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> TokioKey {
        let is_out = Arc::new(AtomicBool::new(false));
        let value = Value { waker: Waker::from(target), is_out: is_out.clone() };
        let key = self.queue.lock().unwrap().insert(value, delay);
        TokioKey { key, is_out }
    }

    fn cancel(&self, handle: TokioKey) -> Option<bool> {
        let mut queue = self.queue.lock().unwrap();
        Some(!handle.is_out.load(Ordering::Relaxed) && queue.try_remove(&handle.key).is_some())
    }

    fn rearm(
        &self,
        handle: &mut TokioKey,
        delay: Duration,
        _: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        let mut queue = self.queue.lock().unwrap();
        let is_in = !handle.is_out.load(Ordering::Relaxed);
        if is_in {
            queue.reset(&handle.key, delay);
        }
        Some(is_in)
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let runtime = self.runtime.clone();
        thread::spawn(move || {
            let _context = runtime.enter();
            work();
        });
    }
}

impl Beside for TokioUtilQueue {
    fn call_back(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> bool {
        let deadline = Instant::now() + delay;
        self.runtime.spawn(async move {
            sleep_until(deadline).await;
            target.wake();
        });
        true
    }
}

impl Drop for TokioUtilQueue {
    fn drop(&mut self) {
        let (end, consumer) = self.end.take().expect("it is dropped once");
        drop(end);
        consumer.join().expect("the consumer ends");
    }
}
