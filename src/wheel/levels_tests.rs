//! Tests of [`levels`](super::levels), over nodes whose deadlines change.

use std::collections::BTreeMap;

use super::levels::{Levels, Step};
use super::nodes::{Nodes, Place};

/// Nodes whose deadlines the test may change while they are linked.
struct Store(Vec<(u64, Place)>);

/// The deadline that stands for a disarmed node.
const DISARMED: u64 = u64::MAX - 1;

impl Store {
    fn new(deadlines: &[u64]) -> Store {
        Store(deadlines.iter().map(|deadline| (*deadline, Place::default())).collect())
    }
}

impl Nodes for Store {
    fn deadline(&self, id: u32) -> u64 {
        self.0[id as usize].0
    }

    fn place(&self, id: u32) -> Place {
        self.0[id as usize].1
    }

    fn set_place(&mut self, id: u32, place: Place) {
        self.0[id as usize].1 = place;
    }

    fn is_disarmed(&self, id: u32) -> bool {
        self.deadline(id) == DISARMED
    }
}

fn insert(levels: &mut Levels, store: &mut Store, id: u32) {
    let deadline = store.deadline(id);
    levels.insert(store, id, deadline);
}

/// Returns levels of four slots at tick 0, with nodes of these deadlines inserted in order.
fn inserted(deadlines: &[u64]) -> (Levels, Store) {
    let mut levels = Levels::new(0, &[4], 1).expect("a valid level");
    let mut store = Store::new(deadlines);
    for id in 0..deadlines.len() as u32 {
        insert(&mut levels, &mut store, id);
    }
    (levels, store)
}

#[test]
fn a_node_with_a_later_deadline_cascades_when_its_slot_expires() {
    for initial in [0, 3, 8, 100] {
        let (mut levels, mut store) = inserted(&[initial]);
        store.0[0].0 = 200;
        while levels.step(&mut store, 199) == Step::Cascaded {}
        assert_eq!((levels.now(), levels.first()), (199, Some(0)));
        assert!(levels.next_deadline() <= Some(200));

        while levels.step(&mut store, 200) == Step::Cascaded {}
        assert_eq!((levels.now(), levels.first()), (200, None));
        assert_eq!(levels.next_deadline(), None);
    }
}

#[test]
fn a_node_with_an_earlier_deadline_expires_with_its_slot() {
    let (mut levels, mut store) = inserted(&[9]);
    store.0[0].0 = 1;
    assert_eq!(levels.step(&mut store, 7), Step::Done);
    assert_eq!(levels.step(&mut store, 8), Step::Unlinked(0));
}

#[test]
fn cascades_come_before_expirations_at_the_same_tick() {
    let (mut levels, mut store) = inserted(&[6]);
    assert_eq!(levels.step(&mut store, 3), Step::Done);
    store.0.push((4, Place::default()));
    insert(&mut levels, &mut store, 1);
    assert_eq!(levels.step(&mut store, 4), Step::Cascaded);
    assert_eq!(levels.step(&mut store, 4), Step::Unlinked(1));
    assert_eq!(levels.step(&mut store, 4), Step::Done);

    // The next slot is not known yet.
    let (mut levels, mut store) = inserted(&[]);
    assert_eq!(levels.step(&mut store, 3), Step::Done);
    for (id, deadline) in [(0, 4), (1, 7)] {
        store.0.push((deadline, Place::default()));
        insert(&mut levels, &mut store, id);
    }
    assert_eq!(levels.step(&mut store, 4), Step::Cascaded);
    assert_eq!(levels.step(&mut store, 4), Step::Unlinked(0));
}

#[test]
fn an_emptied_slot_is_skipped() {
    let (mut levels, mut store) = inserted(&[3, 20]);
    assert_eq!(levels.step(&mut store, 1), Step::Done);
    levels.remove(&mut store, 0);
    assert_eq!(levels.next_deadline(), Some(20));
    assert_eq!((levels.step(&mut store, 3), levels.now()), (Step::Done, 3));
}

#[test]
fn the_next_deadline_is_exact_without_removals() {
    for (seed, slots) in (0..40).flat_map(|seed| [2, 3, 64].map(|slots| (seed, slots))) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut levels = Levels::new(0, &[4 * slots, slots], 2).expect("a valid level");
        let mut store = Store::new(&[]);
        let mut left = std::collections::BTreeSet::new();
        for id in 0..200 {
            let deadline = levels.now() + 1 + (random.u64(..) >> random.u32(44..64));
            store.0.push((deadline, Place::default()));
            insert(&mut levels, &mut store, id);
            left.insert((deadline, id));
            if random.u8(..4) == 0 {
                levels.cascade_ahead(&mut store);
            }
            let target = levels.now() + (random.u64(..) >> random.u32(48..64));
            while random.bool() && levels.now() < target {
                if let Step::Unlinked(id) = levels.step(&mut store, target) {
                    assert!(left.remove(&(store.0[id as usize].0, id)));
                    assert!(levels.next_deadline() <= left.first().map(|&(deadline, _)| deadline));
                }
            }
            while levels.step(&mut store, target) != Step::Done {}
            left.retain(|&(deadline, _)| deadline > levels.now());
            assert_eq!(levels.next_deadline(), left.first().map(|&(deadline, _)| deadline));
        }
    }
}

#[test]
fn a_full_slot_is_visited_in_time_for_its_nodes_to_cascade() {
    const SPAN: u64 = 4096;
    let mut levels = Levels::new(0, &[SPAN as usize, 64], 2).expect("a valid level");
    let mut store = Store::new(&[]);
    let mut insert_many = |levels: &mut Levels, deadline, number| {
        for _ in 0..number {
            store.0.push((deadline, Place::default()));
            let id = store.0.len() as u32 - 1;
            insert(levels, &mut store, id);
        }
        levels.next_visit()
    };
    let end = 21 * SPAN;
    assert_eq!(insert_many(&mut levels, end - 1, 7), Some(end - 1), "few nodes need no time");
    assert_eq!(insert_many(&mut levels, end + 5, 3200), Some(end + 5 - 400), "the next slot is full");
    assert_eq!(insert_many(&mut levels, end - 1, 3200), Some(end - 1 - 400), "and so is the first");
    assert_eq!(insert_many(&mut levels, end - 1, 64 * SPAN), Some(19 * SPAN), "it is the next one from then on");
    assert_eq!(levels.next_deadline(), Some(end - 1));
    assert_eq!(levels.step(&mut store, 19 * SPAN), Step::Done);
    assert_eq!(levels.next_visit(), Some(end + 5 - 400), "what is next cascades ahead of time");
}

#[test]
fn between_two_steps_the_rest_of_a_slot_may_be_changed() {
    let (mut levels, mut store) = inserted(&[18, 18, 17, 16]);
    assert_eq!(levels.step(&mut store, 100), Step::Unlinked(3));
    assert_eq!(levels.position(store.place(0)), Some((2, 16, 31)));
    assert_eq!(levels.next_deadline(), Some(16));
    levels.remove(&mut store, 1);
    levels.remove(&mut store, 2);
    store.0[2].0 = 0;
    insert(&mut levels, &mut store, 2);

    assert_eq!(levels.step(&mut store, 0), Step::Unlinked(2));
    assert_eq!(levels.step(&mut store, 0), Step::Cascaded);
    assert_eq!((levels.step(&mut store, 0), levels.now()), (Step::Done, 16));
    assert_eq!(levels.next_deadline(), Some(18));
    assert_eq!(levels.step(&mut store, 100), Step::Unlinked(0));
}

#[test]
fn the_most_levels_and_slots_fit_into_a_place() {
    for slots in [2, 1 << 24] {
        let mut levels = Levels::new(0, &[slots], 1).expect("a valid level");
        let mut store = Store::new(&[u64::MAX, slots as u64 - 1]);
        insert(&mut levels, &mut store, 0);
        insert(&mut levels, &mut store, 1);
        let (level, first, last) = levels.position(store.place(0)).expect("it waits");
        assert_eq!((level, last), (levels.levels.len() - 1, u64::MAX));
        assert!(first > 0 && level < 64);
        assert_eq!(levels.position(store.place(1)).map(|(_, first, _)| first), Some(slots as u64 - 1));
    }
}

#[test]
fn a_disarmed_node_expires_where_it_would_cascade() {
    let (mut levels, mut store) = inserted(&[9, 10]);
    store.0[0].0 = DISARMED;
    assert_eq!(levels.step(&mut store, 8), Step::Cascaded);
    assert_eq!(levels.step(&mut store, 8), Step::Unlinked(0));
    assert_eq!((levels.step(&mut store, 8), levels.now()), (Step::Done, 8));
}

#[test]
fn a_disarmed_node_expires_ahead_of_time() {
    let mut levels = Levels::new(0, &[4], 2).expect("a valid level");
    let mut store = Store::new(&[9]);
    insert(&mut levels, &mut store, 0);
    assert_eq!(levels.step(&mut store, 4), Step::Done);
    store.0[0].0 = DISARMED;
    assert_eq!(levels.cascade_ahead(&mut store), Step::Unlinked(0));
    assert_eq!(levels.cascade_ahead(&mut store), Step::Done);
}

#[test]
fn a_slot_can_be_emptied_before_it_expires() {
    let deadlines: Vec<u64> = (128..192).rev().collect();
    for now in 64..128 {
        let mut levels = Levels::new(0, &[64], 2).expect("a valid level");
        let mut store = Store::new(&deadlines);
        (0..64).for_each(|id| insert(&mut levels, &mut store, id));
        assert_eq!(levels.step(&mut store, now), Step::Done);
        let mut cascade = || {
            let is_upcoming = levels.has_upcoming();
            let cascades = levels.cascade_ahead(&mut store) != Step::Done;
            assert_eq!(is_upcoming, cascades);
            cascades
        };
        let steps = (0..1000).take_while(|_| cascade()).count();
        assert_eq!(steps, deadlines.len(), "each cascades once");
        for (id, &deadline) in deadlines.iter().enumerate() {
            assert_eq!(levels.position(store.place(id as u32)), Some((0, deadline, deadline)));
        }
    }
}

#[test]
fn nodes_that_cascade_ahead_expire_on_time() {
    for (seed, slots) in (0..40).flat_map(|seed| [2, 3, 4, 64].map(|slots| (seed, slots))) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut levels = Levels::new(0, &[slots], 2).expect("a valid level");
        let deadlines: Vec<u64> = (0..200).map(|_| 1 + (random.u64(..) >> random.u32(44..64))).collect();
        let mut store = Store::new(&deadlines);
        let mut left: std::collections::BTreeSet<u32> = (0..200).collect();
        left.iter().for_each(|&id| insert(&mut levels, &mut store, id));
        while let Some(next) = levels.next_deadline() {
            for _ in 0..random.u32(0..8) {
                if levels.cascade_ahead(&mut store) == Step::Done {
                    break;
                }
            }
            let removed = random.u32(0..200);
            if random.bool() && left.remove(&removed) {
                levels.remove(&mut store, removed);
            }
            let target = next + random.u64(0..3);
            loop {
                match levels.step(&mut store, target) {
                    Step::Unlinked(id) => {
                        assert_eq!(levels.now(), deadlines[id as usize]);
                        assert!(left.remove(&id));
                    }
                    Step::Cascaded => {}
                    Step::Done => break,
                }
            }
        }
        assert!(left.is_empty(), "{left:?} of {slots} slots");
    }
}

#[test]
fn slots_agree_with_a_simple_model() {
    for (seed, slots) in (0..6).flat_map(|seed| [2, 4, 64].map(|slots| (seed, slots))) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut levels = Levels::new(0, &[4 * slots, slots], 2).expect("a valid level");
        let mut store = Store::new(&[0; 4000]);
        // The linked nodes, with their deadlines.
        let mut linked = BTreeMap::new();
        let range = [20, 300, 5_000][random.usize(..3)];
        for _ in 0..300 {
            for _ in 0..random.u32(..80) {
                let id = random.u32(..4000);
                if linked.remove(&id).is_some() {
                    levels.remove(&mut store, id);
                }
                if random.u8(..4) > 0 {
                    store.0[id as usize].0 = levels.now() + random.u64(..range);
                    insert(&mut levels, &mut store, id);
                    linked.insert(id, store.deadline(id));
                }
            }
            (0..random.u32(..100)).for_each(|_| _ = levels.cascade_ahead(&mut store));
            let target = levels.now() + random.u64(..range / 8 + 1);
            // May stop in the middle of a slot.
            let mut steps = if random.bool() { random.usize(..50) } else { usize::MAX };
            while steps > 0 {
                match levels.step(&mut store, target) {
                    Step::Unlinked(id) => {
                        let deadline = linked.remove(&id).expect("it is linked");
                        assert!(deadline <= levels.now());
                        assert!(linked.values().all(|&other| other >= deadline.min(levels.now())), "in order");
                    }
                    Step::Cascaded => {}
                    Step::Done => {
                        assert_eq!(levels.now(), target);
                        assert!(linked.values().all(|&deadline| deadline > target), "all that is due has left");
                        break;
                    }
                }
                steps -= 1;
            }
        }
        linked.keys().for_each(|&id| levels.remove(&mut store, id));
        assert_eq!((levels.next_deadline(), levels.first()), (None, None));
    }
}

#[test]
fn a_slot_gives_its_memory_back_as_it_empties() {
    let mut store = Store::new(&[50; 10_000]);
    let mut levels = Levels::new(0, &[64], 1).expect("a valid level");
    (0..10_000).for_each(|id| insert(&mut levels, &mut store, id));
    let capacity = |levels: &Levels| levels.levels[0].slots[50].capacity();
    assert!(capacity(&levels) >= 10_000);
    (0..9_000).for_each(|id| levels.remove(&mut store, id));
    assert!(capacity(&levels) < 10_000);
    while levels.step(&mut store, 60) != Step::Done {}
    assert_eq!((capacity(&levels), levels.expiring.capacity()), (4, 4));
}
