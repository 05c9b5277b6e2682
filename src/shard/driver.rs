//! The thread that drives a shard: it looks at what has come in, hands over what is due, and sleeps until the next
//! deadline. With nothing due it sleeps for good.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::Shard;
use super::batch::Batch;
use super::local;
use super::rounds::Rounds;
use super::settling::Settling;
use super::watch::Watch;
use crate::clock::NEVER;
use crate::executor::Hands;
use crate::system;
use crate::wheel::Levels;

/// Drives the shard until it is closed. To be called on a thread of its own.
pub(crate) fn drive(shard: Arc<Shard>, levels: Levels, hands: Hands, core: Option<CoreId>) {
    if let Some(core) = core {
        // Best effort: a driver on whichever core is as good, but for its caches.
        core_affinity::set_for_current(core);
    }
    system::wake_on_time();
    shard.core.bell.attach();
    let (mut rounds, mut watch) = (Rounds::new(levels), Watch::default());
    while !shard.core.is_closing() {
        // Asked before the round begins, so that the answer covers all that came before the question.
        let question = shard.settling.as_ref().map_or(0, Settling::begin_round);
        let mut now;
        loop {
            now = shard.ticks.now_tick();
            round(&shard, &mut rounds, now, &hands, &mut watch);
            if shard.core.is_closing() {
                break;
            }
            if rounds.prepare(&shard.core) {
                continue;
            }
            if !rounds.rest(&shard.core) {
                break;
            }
            // Nothing is urgent: whoever runs callbacks on this core goes first.
            thread::yield_now();
        }
        if let Some(settling) = &shard.settling {
            settling.end_round(question, rounds.next_deadline());
        }
        while !sleep(&shard, &rounds, now, question, watch.look(&hands)) {}
    }
    if let Some(settling) = &shard.settling {
        settling.driver_ended();
    }
}

/// Makes a round at the tick `now`.
fn round(shard: &Arc<Shard>, rounds: &mut Rounds, now: u64, hands: &Hands, watch: &mut Watch) {
    rounds.begin(&shard.core, now);
    let mut due = Vec::new();
    let mut over = false;
    while !over && !shard.core.is_closing() {
        over = rounds.turn(&shard.core, &mut due);
        if !due.is_empty() {
            if let Some(settling) = &shard.settling {
                settling.begin(due.len());
            }
            // Tasks are woken here and now: it takes no longer than to hand them over.
            due.extract_if(.., |&mut index| shard.wakes(index)).for_each(|index| shard.run(index, now));
        }
        if !due.is_empty() {
            let batch = Batch::new(shard.clone(), now, std::mem::take(&mut due));
            let shared = hands.dispatch(batch, |payload| shard.caught(payload));
            shared.into_iter().for_each(|batch| watch.add(batch));
        }
    }
}

/// Sleeps until the next deadline, or something comes in that is due earlier, or `patience` has passed. Returns whether
/// there is reason for a new round.
fn sleep(shard: &Shard, rounds: &Rounds, now: u64, question: u64, patience: Option<Duration>) -> bool {
    let (core, ticks) = (&shard.core, &shard.ticks);
    let patience_ends = patience.map(|patience| Instant::now() + patience);
    let left = || patience_ends.map(|end| end.saturating_duration_since(Instant::now()));
    let (wakeups, rested) = match &shard.settling {
        None => {
            let timeout = |tick| earlier((tick != NEVER).then(|| ticks.until(tick)), left());
            let idle = || rounds.is_idle(core) && !core.is_closing();
            (core.bell.sleep(now, rounds.next_deadline(), timeout, idle), true)
        }
        Some(settling) => {
            // Time does not pass by itself: only a question wakes the driver.
            let unasked = || settling.question() == question && !core.is_closing();
            let timeout = |tick| if tick == 0 { Some(Duration::ZERO) } else { left() };
            (core.bell.sleep(now, 1, timeout, unasked), !unasked())
        }
    };
    local::with(shard, |local| local.count_more(|record| &record.wakeups, wakeups));
    rested
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
