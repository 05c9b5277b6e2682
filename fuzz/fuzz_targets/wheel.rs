//! Random operations on a `Wheel`, checked against a model.

#![no_main]

#[path = "../../tests/properties/wheel_model/mod.rs"]
mod wheel_model;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use wheel_model::{Operation, advance, apply, check, set_up};

#[derive(Arbitrary, Debug)]
struct Input {
    start: u64,
    levels: Vec<u16>,
    #[arbitrary(with = operations)]
    operations: Vec<Operation>,
}

/// Reads operations until the bytes are used up. `Vec`'s own implementation would end at random after any of them.
fn operations(bytes: &mut Unstructured<'_>) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    while !bytes.is_empty() {
        operations.push(bytes.arbitrary()?);
    }
    Ok(operations)
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
