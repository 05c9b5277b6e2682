//! `Builder::build_global`. One test, because a process has one global timer.
#![cfg(feature = "std")]

mod common;

use std::{ptr, thread};

use common::*;
use corewheel::time::{sleep, timeout};
use corewheel::{BuildError, Timer};
use futures::FutureExt;

#[test]
fn the_global_timer_is_built_once_and_is_what_tokios_names_use() {
    let (builder, _) = on_manual_clock();
    assert!(matches!(builder.shards(0).build_global(), Err(BuildError::NoShards)), "another call may succeed");

    let (_, clock) = on_manual_clock();
    let build = || Timer::builder().clock(clock.clone()).shards(3).thread_name("global").build_global();
    let built = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let timers: Vec<&Timer> = built.iter().filter_map(|built| built.as_ref().ok().copied()).collect();
    assert!(built.iter().all(|built| matches!(built, Ok(_) | Err(BuildError::GlobalExists))), "{built:?}");
    let [timer] = timers[..] else { panic!("{built:?}") };
    assert!(ptr::eq(timer, Timer::global()));
    assert_eq!(timer.stats().shards().len(), 3);

    let mut hour = sleep(HOUR);
    assert_eq!(hour.deadline(), clock.now() + HOUR);
    assert!((&mut hour).now_or_never().is_none());
    let mut late = timeout(2 * HOUR, std::future::pending::<()>());
    assert!((&mut late).now_or_never().is_none());
    clock.advance(HOUR);
    assert!(hour.now_or_never().is_some() && (&mut late).now_or_never().is_none());
    clock.advance(HOUR);
    assert!(late.now_or_never().is_some_and(|late| late.is_err()));

    let error = build().unwrap_err();
    assert!(error.to_string().contains("build_global") && matches!(error, BuildError::GlobalExists), "{error}");
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::AlreadyExists);
    timer.shutdown();
    assert!(matches!(build(), Err(BuildError::GlobalExists)), "for good");
}
