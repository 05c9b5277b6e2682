//! Checks that a contender does what the benchmarks measure.

use std::sync::{Arc, mpsc};
use std::task::Wake;
use std::time::{Duration, Instant};

use super::interface::Contender;
use crate::harness::threads::alone;

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(20);

/// Runs all checks.
///
/// # Panics
/// If one of them fails.
pub fn check<C: Contender>() {
    let checks: [fn(&C); 4] = [
        fires_each_timer_once_and_none_early,
        distinguishes_pending_from_fired_timers,
        fires_reset_timers_at_their_new_deadline,
        keeps_pending_timers_when_most_are_cancelled,
    ];
    for check in checks {
        alone(&Arc::new(C::start()), check);
    }
}

/// A target that calls a closure.
struct Call<F>(F);

impl<F: Fn()> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn call<F: Fn()>(f: F) -> Arc<Call<F>> {
    Arc::new(Call(f))
}

/// Returns all values that are sent. A handle may keep its target, which has a sender. So the handles are dropped after
/// `expected` values, which closes the channel.
fn receive<C: Contender, T>(timer: &C, channel: mpsc::Receiver<T>, expected: usize, handles: impl Sized) -> Vec<T> {
    timer.wait(|| {
        let mut received: Vec<_> = channel.iter().take(expected).collect();
        drop(handles);
        received.extend(channel);
        received
    })
}

fn fires_each_timer_once_and_none_early<C: Contender>(timer: &C) {
    let (fired, all_fired) = mpsc::channel();
    let schedule = |millis| {
        let deadline = Instant::now() + Duration::from_millis(millis);
        let fired = fired.clone();
        let target = call(move || fired.send((millis, deadline, Instant::now())).unwrap());
        timer.schedule(Duration::from_millis(millis), target)
    };
    let handles: Vec<_> = (1..=20).rev().map(schedule).collect();
    drop(fired);
    let mut fired = receive(timer, all_fired, 20, handles);
    fired.sort_unstable();
    assert!(fired.iter().map(|(millis, ..)| *millis).eq(1..=20), "{} fires each timer once", C::NAME);
    assert!(fired.iter().all(|(_, deadline, at)| *at + C::EARLY >= *deadline), "{} is early", C::NAME);
}

fn distinguishes_pending_from_fired_timers<C: Contender>(timer: &C) {
    let (fired, has_fired) = mpsc::channel();
    let target = call(move || fired.send(()).unwrap());
    let fires = |delay| timer.schedule(delay, target.clone());
    let (cancelled, mut past) = (fires(SOON), fires(SOON));
    assert_ne!(timer.cancel(cancelled), Some(false), "{} cancels a pending timer", C::NAME);
    timer.wait(|| has_fired.recv()).unwrap();
    assert_ne!(timer.rearm(&mut past, HOUR, &target), Some(true), "{} resets no timer that has fired", C::NAME);
    assert_ne!(timer.cancel(past), Some(true), "{} cancels no timer that has fired", C::NAME);
    assert!(timer.wait(|| has_fired.recv_timeout(2 * SOON)).is_err(), "{} fires no timer that was cancelled", C::NAME);
}

fn fires_reset_timers_at_their_new_deadline<C: Contender>(timer: &C) {
    let (fired, has_fired) = mpsc::channel();
    let start = Instant::now();
    let schedule = |(first, then)| {
        let fired = fired.clone();
        let target = call(move || fired.send((then, Instant::now())).unwrap());
        let mut handle = timer.schedule(first, target.clone());
        assert_ne!(timer.rearm(&mut handle, then, &target), Some(false), "{} resets a pending timer", C::NAME);
        handle
    };
    let handles = [(HOUR, SOON), (SOON / 2, 2 * SOON)].map(schedule);
    drop(fired);
    let fired = receive(timer, has_fired, 2, handles);
    assert_eq!(fired.len(), 2, "{} fires a reset timer once", C::NAME);
    let due = |(delay, at): &(Duration, Instant)| *at + C::EARLY >= start + *delay;
    assert!(fired.iter().all(due), "{} fires a reset timer at its new deadline", C::NAME);
}

fn keeps_pending_timers_when_most_are_cancelled<C: Contender>(timer: &C) {
    let (fired, has_fired) = mpsc::channel();
    let unreachable = call(|| unreachable!("due in an hour"));
    let far: Vec<_> = (0..1000).map(|_| timer.schedule(HOUR, unreachable.clone())).collect();
    let schedule = |_| {
        let fired = fired.clone();
        timer.schedule(2 * SOON, call(move || fired.send(()).unwrap()))
    };
    let near: Vec<_> = (0..100).map(schedule).collect();
    drop(fired);
    let cancelled = far.into_iter().all(|handle| timer.cancel(handle) != Some(false));
    assert!(cancelled, "{} cancels pending timers", C::NAME);
    assert_eq!(receive(timer, has_fired, 100, near).len(), 100, "{} keeps pending timers", C::NAME);
}
