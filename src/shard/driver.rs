//! The thread that drives a shard: it looks at what has come in, hands over what is due, and sleeps until the next
//! deadline. With nothing due it sleeps for good.

use std::sync::Arc;

use core_affinity::CoreId;

use super::Shard;
use super::batch::Batch;
use super::local;
use super::rounds::Rounds;
use crate::executor::Hands;
use crate::wheel::Levels;

/// Drives the shard until it is closed. To be called on a thread of its own.
pub(crate) fn drive(shard: Arc<Shard>, levels: Levels, hands: Hands, core: Option<CoreId>) {
    if let Some(core) = core {
        // Best effort: a driver on whichever core is as good, but for its caches.
        core_affinity::set_for_current(core);
    }
    shard.core.bell.attach();
    let mut rounds = Rounds::new(levels);
    let mut due = Vec::new();
    while !shard.core.is_closing() {
        // Asked before the look, so that the answer covers all that came before the question.
        let question = shard.settling.question();
        let now = shard.ticks.now_tick();
        let more = rounds.turn(&shard.core, now, &mut due);
        if !due.is_empty() {
            let batch = Batch::new(shard.clone(), now, std::mem::take(&mut due));
            hands.dispatch(batch, |payload| shard.caught(payload));
        }
        if !more {
            rounds.rest(&shard.core);
            sleep(&shard, now, rounds.next_deadline(), question);
        }
    }
    shard.settling.driver_ended();
}

fn sleep(shard: &Shard, now: u64, until: u64, question: u64) {
    // In virtual time there is nothing to wait for but a call.
    let timeout = if shard.ticks.manual().is_some() {
        shard.settling.answer(question, until);
        None
    } else {
        (until < u64::MAX).then(|| shard.ticks.until(until))
    };
    let slept = shard.core.bell.sleep(now, until, timeout, || {
        shard.core.intake_is_empty() && !shard.core.is_closing() && shard.settling.question() == question
    });
    if slept {
        local::with(shard, |local| local.count(|record| &record.wakeups));
    }
}
