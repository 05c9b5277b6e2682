//! Explores roles: threads that drive shards, while shards go from one role to another.
//!
//! Two threads have a role each, or one thread and a program's loop. Callers push, a thread changes the role of a
//! shard, and another closes all shards. Time does not advance, so only a wake-up ends a sleep.
//!
//! Invariant: each push is handled, by one thread or the other, and a turn is made by one thread at a time. A close
//! ends all threads, and the loop.
//!
//! Promise: no timer is forgotten.

use super::explore;
use crate::engine::alarm::AWAKE;
use crate::fixture::{LoopWaker, NOW, Roles};

/// A thread is in a turn when the shard is given to another role. A push remains for that.
#[test]
fn a_change_of_the_role_during_a_turn() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.push(0);
        roles.push(0);
        let new = roles.spawn(|roles| {
            roles.give(0, 1);
            roles.drive(1);
        });
        roles.turns(0);
        new.join().unwrap();
    });
}

/// The shard goes to a thread that sleeps, or is about to sleep, while a caller pushes.
#[test]
fn a_push_against_a_change_of_the_role() {
    explore(|| {
        let roles = Roles::new(&[0], 1);
        roles.turns(0);
        let caller = roles.spawn(|roles| roles.push(0));
        let new = roles.spawn(|roles| roles.drive(1));
        roles.give(0, 1);
        new.join().unwrap();
        caller.join().unwrap();
    });
}

/// The shard goes to another role, which drives it while a push comes, and comes back.
#[test]
fn a_push_against_a_role_that_comes_back() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.push(0);
        let other = roles.spawn(|roles| {
            roles.give(0, 1);
            roles.push(0);
            roles.turns(1);
            roles.give(1, 0);
        });
        roles.drive(0);
        other.join().unwrap();
    });
}

/// One thread has the shard, the other has none.
#[test]
fn a_close_ends_the_threads_of_both_roles() {
    explore(|| {
        let roles = Roles::new(&[0], 0);
        roles.turns(0);
        let threads = [0, 1].map(|role| roles.spawn(move |roles| roles.drive(role)));
        roles.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The leader must end, whichever role the closing thread sees.
#[test]
fn a_close_against_a_change_of_the_role() {
    explore(|| {
        let roles = Roles::new(&[1], 0);
        roles.turns(1);
        let leader = roles.spawn(|roles| roles.drive(0));
        let other = roles.spawn(|roles| roles.give(1, 0));
        roles.close();
        leader.join().unwrap();
        other.join().unwrap();
    });
}

/// The floor of the first sleep comes, and so does that of the second, which is later.
#[test]
fn a_push_before_the_floor_is_handled_by_then() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.turns(0);
        let callers = [1, 2].map(|tick| roles.spawn(move |roles| roles.push_by(0, tick)));
        roles.drive_from(0, NOW);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

/// The floor of the second sleep never comes.
#[test]
fn what_is_due_when_it_is_pushed_waits_for_no_floor() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.turns(0);
        let callers = [(); 2].map(|()| roles.spawn(|roles| roles.push_by(0, AWAKE)));
        roles.drive_from(0, NOW + 1);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

/// One shard gets a deadline that never comes, and the other one a push that is due.
#[test]
fn the_leader_wakes_for_the_earlier_of_two_shards() {
    explore(|| {
        let roles = Roles::new(&[0, 0], 1);
        let later = roles.spawn(|roles| roles.wakeup(0).wake_by(50));
        let due = roles.spawn(|roles| roles.push(1));
        roles.drive(0);
        later.join().unwrap();
        due.join().unwrap();
    });
}

/// The leader sleeps by its own shard when another one comes, which is due.
#[test]
fn a_shard_with_an_earlier_tick_comes_to_the_leader() {
    explore(|| {
        let roles = Roles::new(&[1, 0], 1);
        [0, 1].into_iter().for_each(|role| roles.turns(role));
        let caller = roles.spawn(|roles| roles.push(0));
        let other = roles.spawn(|roles| roles.give(1, 0));
        roles.drive(0);
        caller.join().unwrap();
        other.join().unwrap();
    });
}

/// The program takes a shard while its thread is in a turn. A push remains for the program.
#[test]
fn a_program_takes_a_shard_in_a_turn() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.push(0);
        roles.push(0);
        let leader = roles.spawn(|roles| roles.turns(0));
        let waker = LoopWaker::new();
        roles.take_for_program(0);
        roles.wakeup(0).program.bell.set(&waker.waker());
        roles.run_program(&waker);
        roles.give_back(0);
        leader.join().unwrap();
        assert_eq!(waker.wakers(), 0);
    });
}

/// The program takes a shard while its thread hands out what has expired, or soon after. A push comes at any time, and its
/// caller may still wake the thread.
#[test]
fn a_push_while_a_program_waits_for_a_hand_over() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.push(0);
        let leader = roles.spawn(|roles| roles.turns(0));
        let caller = roles.spawn(|roles| roles.push(0));
        let waker = LoopWaker::new();
        roles.take_for_program(0);
        roles.wakeup(0).program.bell.set(&waker.waker());
        roles.run_program(&waker);
        leader.join().unwrap();
        caller.join().unwrap();
    });
}

/// The program takes a shard that sleeps, while pushes come. It has no waker at first.
#[test]
fn a_push_wakes_the_loop_of_a_program() {
    explore(|| {
        let roles = Roles::new(&[0], 2);
        roles.turns(0);
        let caller = roles.spawn(|roles| {
            roles.push(0);
            roles.push(0);
        });
        let waker = LoopWaker::new();
        roles.take_for_program(0);
        roles.wakeup(0).program.bell.set(&waker.waker());
        roles.run_program(&waker);
        caller.join().unwrap();
    });
}

/// A shard that sleeps, but has chores, goes to a thread that is about to sleep. They make something
/// due.
#[test]
fn work_that_is_not_urgent_is_done() {
    explore(|| {
        let roles = Roles::with_chores(&[0], 1, true);
        assert_eq!(roles.turn(0), Some(false));
        let new = roles.spawn(|roles| roles.drive(1));
        roles.give(0, 1);
        new.join().unwrap();
    });
}

/// The same while the old thread does that work, and puts back a shard that is awake.
#[test]
fn work_that_is_not_urgent_against_a_change_of_the_role() {
    explore(|| {
        let roles = Roles::with_chores(&[0], 1, true);
        let new = roles.spawn(|roles| {
            roles.give(0, 1);
            roles.drive(1);
        });
        roles.turn(0);
        roles.turn(0);
        new.join().unwrap();
    });
}

/// The same after a turn in which timers have expired.
#[test]
fn work_that_is_left_beside_what_expired() {
    explore(|| {
        let roles = Roles::with_chores(&[0], 2, true);
        roles.push(0);
        assert_eq!(roles.turn(0), Some(true));
        let new = roles.spawn(|roles| roles.drive(1));
        roles.give(0, 1);
        new.join().unwrap();
    });
}

/// The program drops a shard while a push comes. It calls the old waker or wakes the leader, which handles it.
#[test]
fn a_program_gives_a_shard_back() {
    explore(|| {
        let roles = Roles::new(&[0], 1);
        let waker = LoopWaker::new();
        roles.take_for_program(0);
        roles.wakeup(0).program.bell.set(&waker.waker());
        while !roles.may_program_sleep() {}
        let leader = roles.spawn(|roles| roles.drive(0));
        let caller = roles.spawn(|roles| roles.push(0));
        roles.give_back(0);
        leader.join().unwrap();
        caller.join().unwrap();
        assert_eq!(waker.wakers(), 0);
    });
}

/// The program takes a shard while it is closed.
#[test]
fn a_close_calls_the_waker_of_a_program() {
    explore(|| {
        let roles = Roles::new(&[0], 0);
        let waker = LoopWaker::new();
        roles.wakeup(0).program.bell.set(&waker.waker());
        let closer = roles.spawn(|roles| roles.close());
        roles.take_for_program(0);
        roles.run_program(&waker);
        closer.join().unwrap();
    });
}
