//! `?` into `anyhow`, in a task of tokio's.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use corewheel::{ScheduleErrorKind, Timer};

const SEC: Duration = Duration::from_secs(1);

/// What these closures hold is `Send`, but not `Sync`.
fn start(timer: &Timer) -> anyhow::Result<()> {
    let (_sender, receiver) = mpsc::channel::<()>();
    timer.schedule(SEC, move || _ = receiver.recv()).context("the first")?;
    let runs = Cell::new(0);
    timer.schedule_with_fixed_delay(SEC, SEC, move || runs.set(runs.get() + 1))?;
    let boxed: Box<dyn FnOnce() + Send> = Box::new(|| ());
    timer.schedule(SEC, boxed)?;
    Ok(())
}

#[test]
fn a_refused_closure_becomes_an_anyhow_error() {
    let timer = Timer::new().unwrap();
    start(&timer).unwrap();
    timer.shutdown();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let task = async move { start(&timer) };
    let error = runtime.block_on(async { tokio::spawn(task).await.unwrap() }).unwrap_err();
    assert!(format!("{error:#}").starts_with("the first: the timer has been shut down"), "{error:#}");

    let timer = Timer::builder().max_pending(0).build().unwrap();
    let boxed: Box<dyn FnOnce() + Send> = Box::new(|| ());
    let error = anyhow::Error::from(timer.schedule(SEC, boxed).unwrap_err());
    let refused: corewheel::ScheduleError<Box<dyn FnOnce() + Send>> = error.downcast().unwrap();
    assert_eq!(refused.kind(), ScheduleErrorKind::Full);
    refused.into_inner()();
}
