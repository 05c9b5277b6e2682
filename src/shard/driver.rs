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
        // Asked before the round begins, so that the answer covers all that came before the question.
        let question = shard.settling.question();
        let now = shard.ticks.now_tick();
        rounds.begin(&shard.core, now);
        let mut over = false;
        while !over && !shard.core.is_closing() {
            over = rounds.turn(&shard.core, &mut due);
            if !due.is_empty() {
                let batch = Batch::new(shard.clone(), now, std::mem::take(&mut due));
                hands.dispatch(batch, |payload| shard.caught(payload));
            }
        }
        rounds.rest(&shard.core);
        sleep(&shard, now, rounds.next_deadline(), question);
    }
    shard.settling.driver_ended();
}

fn sleep(shard: &Shard, now: u64, until: u64, question: u64) {
    let manual = shard.ticks.manual().is_some();
    if manual {
        shard.settling.answer(question, until);
    }
    let timeout = |tick| {
        let timeout = shard.ticks.until(tick);
        // No time passes by itself where it is virtual, and where there is no deadline it does not matter.
        let forever = tick == u64::MAX || manual && !timeout.is_zero();
        (!forever).then_some(timeout)
    };
    let wakeups = shard.core.bell.sleep(now, until, timeout, || {
        shard.core.intake_is_empty() && !shard.core.is_closing() && shard.settling.question() == question
    });
    local::with(shard, |local| local.count_more(|record| &record.wakeups, wakeups));
}
