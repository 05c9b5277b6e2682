//! Operations on a `Wheel` against its model.

#![no_main]

#[path = "../../tests/wheel_model/mod.rs"]
mod wheel_model;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wheel_model::{Operation, advance, apply, check, set_up};

#[derive(Arbitrary, Debug)]
struct Input {
    start: u64,
    levels: Vec<u16>,
    operations: Vec<Operation>,
}

fuzz_target!(|input: Input| {
    let slots = |&slots: &u16| usize::from(slots).max(2);
    let mut levels: Vec<_> = input.levels.iter().take(6).map(slots).collect();
    if levels.is_empty() {
        levels.push(64);
    }
    let (mut wheel, mut model) = set_up(input.start, levels);
    for operation in input.operations {
        apply(&mut wheel, &mut model, operation);
        check(&mut wheel, &model);
    }
    advance(&mut wheel, &mut model, u64::MAX);
    check(&mut wheel, &model);
    assert!(wheel.is_empty());
});
