//! Worked examples of hierarchical timing wheels, with their numbers.

use std::collections::BTreeSet;

use corewheel::{BuildError, Wheel};

fn wheel<T>(start: u64, slots_per_level: &[usize]) -> Wheel<T> {
    Wheel::with_levels(start, slots_per_level).expect("valid levels")
}

/// Returns where an entry with this deadline would wait: its level, and the first and last tick of its slot.
fn position<T: Default>(wheel: &mut Wheel<T>, deadline: u64) -> (usize, u64, u64) {
    let key = wheel.insert(deadline, T::default());
    let position = wheel.position(key).expect("a deadline in the future");
    wheel.remove(key);
    position
}

fn drain<T>(wheel: &mut Wheel<T>, to: u64) -> Vec<(u64, T)> {
    let mut expired = Vec::new();
    wheel.advance(to, |deadline, value| expired.push((deadline, value)));
    expired
}

#[test]
fn three_slots_a_level_slide_tick_by_tick() {
    for c in [0, 9, 18] {
        let tables = [
            [
                [(c, c), (c + 1, c + 1), (c + 2, c + 2)],
                [(c, c + 2), (c + 3, c + 5), (c + 6, c + 8)],
                [(c, c + 8), (c + 9, c + 17), (c + 18, c + 26)],
            ],
            [
                [(c + 1, c + 1), (c + 2, c + 2), (c + 3, c + 3)],
                [(c, c + 2), (c + 3, c + 5), (c + 6, c + 8)],
                [(c, c + 8), (c + 9, c + 17), (c + 18, c + 26)],
            ],
            [
                [(c + 2, c + 2), (c + 3, c + 3), (c + 4, c + 4)],
                [(c, c + 2), (c + 3, c + 5), (c + 6, c + 8)],
                [(c, c + 8), (c + 9, c + 17), (c + 18, c + 26)],
            ],
            [
                [(c + 3, c + 3), (c + 4, c + 4), (c + 5, c + 5)],
                [(c + 3, c + 5), (c + 6, c + 8), (c + 9, c + 11)],
                [(c, c + 8), (c + 9, c + 17), (c + 18, c + 26)],
            ],
        ];
        let mut wheel = wheel::<()>(c, &[3]);
        for (ticks, table) in (0..).zip(tables) {
            let now = c + ticks;
            wheel.advance(now, |_, ()| unreachable!());
            for deadline in now + 1..=c + 26 {
                let (level, first, last) = position(&mut wheel, deadline);
                let in_slot = |slot: &(u64, u64)| (slot.0..=slot.1).contains(&deadline);
                let lowest = table.iter().position(|slots| slots.iter().any(in_slot));
                assert_eq!(Some(level), lowest, "{deadline} at {now}");
                assert!(table[level].contains(&(first, last)));
                assert!(in_slot(&(first, last)));
                // The first slots of the upper levels are covered by the levels below.
                assert_ne!((first, last), table[1][0]);
                assert_ne!((first, last), table[2][0]);
            }
        }
    }
}

#[test]
fn fifteen_seconds_in_ten_slots_of_one_second() {
    let mut wheel = wheel(0, &[10]);
    let key = wheel.insert(15, "15 s");
    assert_eq!(wheel.position(key), Some((1, 10, 19)));

    assert_eq!(drain(&mut wheel, 9), []);
    assert_eq!(wheel.position(key), Some((1, 10, 19)));

    // 5 s are left: slot 5 of the finest level.
    assert_eq!(drain(&mut wheel, 10), []);
    assert_eq!(wheel.position(key), Some((0, 15, 15)));

    assert_eq!(drain(&mut wheel, 14), []);
    assert_eq!(drain(&mut wheel, 15), [(15, "15 s")]);
}

#[test]
fn nine_seconds_at_second_two_wrap_to_slot_one() {
    let mut wheel = wheel(0, &[10]);
    wheel.advance(2, |_, ()| unreachable!());
    let (level, first, _) = position(&mut wheel, 2 + 9);
    assert_eq!((level, first % 10), (0, 1));
}

#[test]
fn a_timer_cascades_from_minutes_to_seconds_to_tenths_and_fires_once() {
    const SECOND: u64 = 10;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    let mut wheel = wheel(0, &[10, 60, 60, 12]);
    let due = 2 * MINUTE + 4 * SECOND + 3;
    let key = wheel.insert(due, "2 min 4 s 300 ms");

    let mut hops = vec![wheel.position(key)];
    for tick in 1..due {
        assert_eq!(drain(&mut wheel, tick), []);
        if hops.last() != Some(&wheel.position(key)) {
            hops.push(wheel.position(key));
        }
    }
    let at_minute_2 = Some((2, 2 * MINUTE, 3 * MINUTE - 1));
    let at_second_4 = Some((1, due - 3, due - 3 + SECOND - 1));
    assert_eq!(hops, [at_minute_2, at_second_4, Some((0, due, due))]);
    assert_eq!(drain(&mut wheel, due), [(due, "2 min 4 s 300 ms")]);
    assert_eq!(drain(&mut wheel, 100 * HOUR), []);

    let mut wheel = self::wheel::<()>(0, &[10, 60, 60, 12]);
    assert_eq!(position(&mut wheel, 11 * HOUR), (3, 11 * HOUR, 12 * HOUR - 1));
    assert_eq!(position(&mut wheel, 12 * HOUR), (4, 12 * HOUR, 24 * HOUR - 1));
}

#[test]
fn a_tenth_of_a_second_to_five_minutes_takes_75_slots() {
    const FIVE_MINUTES: u64 = 3000;
    let levels = [10, 60, 5];
    assert_eq!(levels.iter().sum::<usize>(), 75);
    let mut wheel = wheel::<()>(0, &levels);
    for deadline in 1..FIVE_MINUTES {
        let (level, _, _) = position(&mut wheel, deadline);
        assert!(level < levels.len());
    }

    // As time advances, each of the slots is used.
    let mut used = BTreeSet::new();
    for now in 0..FIVE_MINUTES {
        wheel.advance(now, |_, ()| unreachable!());
        for delay in [9, 590, FIVE_MINUTES - 600] {
            let (level, first, last) = position(&mut wheel, now + delay);
            let span = last - first + 1;
            used.insert((level, first / span % levels[level] as u64));
        }
    }
    assert_eq!(used.len(), 75);

    // Exactly five minutes are one turn of the coarsest level.
    for start in [0, 1, 599, 601, 2999] {
        let mut wheel = self::wheel(start, &levels);
        let due = start + FIVE_MINUTES;
        wheel.insert(due, "5 min");
        assert_eq!(drain(&mut wheel, due - 1), []);
        assert_eq!(drain(&mut wheel, due), [(due, "5 min")]);
    }
}

#[test]
fn four_hundred_milliseconds_in_eight_slots_of_fifty() {
    for start in 0..8 {
        let mut wheel = wheel(start, &[8]);
        let due = start + 400 / 50;
        wheel.insert(due, "400 ms");
        assert_eq!(drain(&mut wheel, due - 1), []);
        assert_eq!(drain(&mut wheel, due), [(due, "400 ms")]);
    }
}

#[test]
fn a_buff_every_three_seconds_for_twelve_hours_is_one_entry() {
    const TWELVE_HOURS: u64 = 12 * 60 * 60;
    let mut wheel = wheel(0, &[60, 60, 12]);
    let mut next = Some(3);
    let mut acts = 0;
    for second in 0..=TWELVE_HOURS {
        if let Some(deadline) = next.take() {
            wheel.insert(deadline, ());
        }
        assert!(wheel.len() <= 1);
        wheel.advance(second, |deadline, ()| {
            acts += 1;
            next = (deadline < TWELVE_HOURS).then_some(deadline + 3);
        });
    }
    assert_eq!(acts, 14_400);
    assert!(wheel.is_empty() && next.is_none());
}

#[test]
fn a_million_timers_at_half_an_hour_almost_all_cancelled() {
    const MILLION: u64 = 1_000_000;
    const HALF_AN_HOUR: u64 = 30 * 60 * 1000;
    let mut wheel = Wheel::new(0);
    let orders: Vec<_> = (0..MILLION).map(|order| wheel.insert(HALF_AN_HOUR + order % 1000, order)).collect();
    assert_eq!(wheel.len(), 1_000_000);

    let confirmed = (0..).zip(&orders).filter(|(order, _)| order % 1000 != 0);
    for (order, key) in confirmed {
        assert_eq!(wheel.remove(*key), Some(order));
    }
    assert_eq!(wheel.len(), 1000);

    let late = drain(&mut wheel, HALF_AN_HOUR + 1000);
    let mut orders: Vec<_> = late.into_iter().map(|(_, order)| order).collect();
    orders.sort_unstable();
    assert!(orders.into_iter().eq((0..MILLION).step_by(1000)));
}

#[test]
fn invalid_levels_are_refused() {
    let refusal = |levels: &[usize]| Wheel::<()>::with_levels(0, levels).err();
    assert!(matches!(refusal(&[]), Some(BuildError::NoLevels)));
    for slots in [0, 1] {
        let refused = refusal(&[64, slots]);
        assert!(matches!(refused, Some(BuildError::TooFewSlots { level: 1, slots: s }) if s == slots));
    }
    let most = 1 << 24;
    let refused = refusal(&[64, 64, most + 1]);
    assert!(matches!(refused, Some(BuildError::TooManySlots { level: 2, slots }) if slots == most + 1));
    assert!(refusal(&[2, most]).is_none());
}

#[test]
fn a_default_wheel_begins_at_tick_0_with_64_slots() {
    let mut wheel: Wheel<u8> = Wheel::default();
    assert_eq!((wheel.now(), wheel.is_empty(), wheel.capacity()), (0, true, 0));
    assert_eq!(position(&mut wheel, 63), (0, 63, 63));
    assert_eq!(position(&mut wheel, 64), (1, 64, 127));
}

#[test]
fn a_wheel_with_capacity_takes_no_more_memory_for_as_many_entries() {
    let mut wheel = Wheel::with_capacity(1_000, 500);
    assert_eq!(wheel.now(), 1_000);
    let capacity = wheel.capacity();
    assert!(capacity >= 500);
    for round in 0..3 {
        let keys: Vec<_> = (0..500).map(|number| wheel.insert(2_000, number)).collect();
        assert!(keys.iter().all(|&key| wheel.remove(key).is_some()));
        assert_eq!(wheel.capacity(), capacity, "round {round}");
    }
    // Places that entries have vacated count.
    wheel.reserve(capacity);
    assert_eq!(wheel.capacity(), capacity);
    wheel.reserve(capacity + 1);
    assert!(wheel.capacity() > capacity);
}

#[test]
fn a_wheel_shrinks_to_its_last_entry_and_keeps_every_key() {
    let mut wheel = Wheel::new(0);
    let keys: Vec<_> = (0..10_000).map(|number| wheel.insert(1_000 + number, number)).collect();
    for (key, number) in keys.iter().zip(0..) {
        if number != 10 && number != 99 {
            assert_eq!(wheel.remove(*key), Some(number));
        }
    }
    wheel.shrink_to_fit();
    assert_eq!((wheel.capacity(), wheel.len()), (100, 2));
    assert_eq!((wheel.get(keys[10]), wheel.get(keys[99])), (Some(&10), Some(&99)));
    assert!(keys.iter().zip(0..).all(|(key, number)| number == 10 || number == 99 || wheel.get(*key).is_none()));
    // The vacant places below the last entry are used first, and no key comes twice.
    let new: Vec<_> = (0..98).map(|_| wheel.insert(5_000, 0)).collect();
    assert_eq!(wheel.capacity(), 100);
    assert!(new.iter().all(|key| !keys.contains(key)));
    assert_eq!(drain(&mut wheel, 4_999), [(1_010, 10), (1_099, 99)]);
    wheel.clear();
    wheel.shrink_to_fit();
    assert_eq!(wheel.capacity(), 0);
    let last = wheel.insert(6_000, 1);
    assert!(new.iter().all(|&key| wheel.get(key).is_none()));
    assert_eq!(wheel.remove(last), Some(1));
}
