//! Whether a contender does what is going to be measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::Contender;

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(20);

/// # Panics
/// If it does not.
pub fn check<C: Contender>() {
    fires_each_timer_once_and_none_early::<C>();
    tells_a_pending_timer_from_one_that_has_fired::<C>();
    fires_moved_timers_at_their_new_deadline::<C>();
    keeps_what_is_pending_when_most_are_cancelled::<C>();
}

fn fires_each_timer_once_and_none_early<C: Contender>() {
    let timer = C::start();
    let (fired, all_fired) = mpsc::channel();
    for millis in (0..20).rev() {
        let deadline = Instant::now() + Duration::from_millis(millis);
        let fired = fired.clone();
        timer.schedule(Duration::from_millis(millis), move || {
            assert!(Instant::now() >= deadline, "{} is early", C::NAME);
            fired.send(millis).unwrap();
        });
    }
    drop(fired);
    let mut fired: Vec<u64> = all_fired.iter().collect();
    fired.sort_unstable();
    assert!(fired.into_iter().eq(0..20), "{} fires each timer once", C::NAME);
}

fn tells_a_pending_timer_from_one_that_has_fired<C: Contender>() {
    let timer = C::start();
    let (fired, has_fired) = mpsc::channel();
    let fires = |delay| {
        let fired = fired.clone();
        timer.schedule(delay, move || fired.send(()).unwrap())
    };
    let (cancelled, mut past) = (fires(SOON), fires(SOON));
    assert!(timer.cancel(cancelled), "{} cancels a pending timer", C::NAME);
    has_fired.recv().unwrap();
    assert!(!timer.rearm(&mut past, HOUR), "{} moves no timer that has fired", C::NAME);
    assert!(!timer.cancel(past), "{} cancels no timer that has fired", C::NAME);
    assert!(has_fired.recv_timeout(2 * SOON).is_err(), "{} fires no timer that was cancelled", C::NAME);
}

fn fires_moved_timers_at_their_new_deadline<C: Contender>() {
    let timer = C::start();
    let (fired, has_fired) = mpsc::channel();
    let start = Instant::now();
    for (first, then) in [(HOUR, SOON), (SOON / 2, 2 * SOON)] {
        let fired = fired.clone();
        let mut handle = timer.schedule(first, move || fired.send((then, Instant::now())).unwrap());
        assert!(timer.rearm(&mut handle, then), "{} moves a pending timer", C::NAME);
    }
    drop(fired);
    let fired: Vec<_> = has_fired.iter().collect();
    assert_eq!(fired.len(), 2, "{} fires a moved timer once", C::NAME);
    assert!(fired.iter().all(|(delay, at)| *at >= start + *delay), "{} fires a moved timer when it is due", C::NAME);
}

fn keeps_what_is_pending_when_most_are_cancelled<C: Contender>() {
    let timer = C::start();
    let calls = Arc::new(AtomicUsize::new(0));
    let (fired, has_fired) = mpsc::channel();
    let far: Vec<_> = (0..1000).map(|_| timer.schedule(HOUR, || unreachable!("due in an hour"))).collect();
    for _ in 0..100 {
        let (calls, fired) = (calls.clone(), fired.clone());
        timer.schedule(2 * SOON, move || {
            calls.fetch_add(1, Ordering::Relaxed);
            drop(fired);
        });
    }
    drop(fired);
    assert!(far.into_iter().all(|handle| timer.cancel(handle)), "{} cancels pending timers", C::NAME);
    assert!(has_fired.recv().is_err(), "nothing is sent: the channel closes when all have been called");
    let _: () = has_fired.iter().collect();
    assert_eq!(calls.load(Ordering::Relaxed), 100, "{} keeps what is pending", C::NAME);
}
