//! Random programs for a `Timer` in virtual time against an oracle.

mod common;
mod program;

use common::in_time;
use program::{Program, play};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        // One that hangs takes long.
        max_shrink_time: 60_000,
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn a_timer_does_what_its_oracle_says(program: Program) {
        in_time("a program", move || play(&program));
    }
}
