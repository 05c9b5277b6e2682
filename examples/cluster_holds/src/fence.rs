//! A worker that is stopped between its decision and its write to a store outside the database. Another worker takes
//! its hold over and writes. Then the first one continues, and the store must refuse its write.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::Result;
use crate::audit;
use crate::children::Process;
use crate::database::Session;
use crate::phase::LEASE;
use crate::shop::PLACE;
use crate::store::Store;

const HOLD: i64 = 1;
/// The lease of the worker that takes the hold over outlasts this.
const LIMIT: Duration = Duration::from_secs(60);

const LEASES: &str = "SELECT FROM leases";
const CLAIMED: &str = "SELECT FROM holds WHERE epoch IS NOT NULL";
const ENDED: &str = "SELECT FROM ends";

/// Lets a paused worker write after a takeover. Fails unless the store has refused that write, and no other.
pub fn refuses_a_paused_worker(url: &str, session: &mut Session) -> Result<()> {
    let store = Store::start()?;
    let worker = |name: &str, lease: Duration, more: &[&str]| {
        let mut arguments = vec![
            format!("--name={name}"),
            format!("--store={}", store.address),
            format!("--lease={}", lease.as_millis()),
            "--horizon=1000".to_owned(),
        ];
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        Process::start(url, "worker", &arguments, &Arc::default())
    };
    // The lease of this worker is the earlier one. The takeover must not reduce the epoch of the hold nevertheless.
    let taker = worker("taker", LIMIT * 2, &[])?;
    wait("a lease", || Ok(!session.query(LEASES, &[])?.is_empty()))?;
    taker.signal(Signal::SIGSTOP)?;
    session.query(PLACE, &[&HOLD, &1_i32, &1_i32, &0.0, &0.0])?;
    let paused = worker("paused", LEASE, &["--stop-before-write"])?;
    wait("the claim", || Ok(!session.query(CLAIMED, &[])?.is_empty()))?;
    taker.signal(Signal::SIGCONT)?;
    wait("the takeover", || Ok(!session.query(ENDED, &[])?.is_empty()))?;
    wait("the write of the paused worker", || {
        paused.signal(Signal::SIGCONT)?;
        let records = store.records();
        Ok(records.accepted + records.refused == 2)
    })?;
    for worker in [taker, paused] {
        if !worker.finish()?.success() {
            return Err("a worker failed".into());
        }
    }
    let mut wrong = audit::check(session, 1)?;
    let records = store.records();
    if records.refused != 1 {
        wrong.push("the store refused no write of the worker that had lost the hold".to_owned());
    }
    if records.holds.get(&HOLD).is_none_or(|record| record.worker != "taker") {
        wrong.push("the last write to the store is not of the worker that took the hold over".to_owned());
    }
    if !wrong.is_empty() {
        return Err(format!("fence: {}", wrong.join("; ")).into());
    }
    println!(
        "fence: a worker was stopped before its write; after the takeover, the store outside the database refused {} \
         write",
        records.refused
    );
    Ok(())
}

/// Waits for what the run has brought about.
pub fn wait(what: &str, mut is_over: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_over()? {
        if started.elapsed() > LIMIT {
            return Err(format!("{what} did not come within {LIMIT:?}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
