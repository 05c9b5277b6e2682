//! Random programs for timers in virtual time, checked against an oracle.

#[cfg(target_os = "linux")]
#[path = "../common/address_space.rs"]
mod address_space;
#[path = "../common/mod.rs"]
mod common;
mod program;

use common::in_time;
use program::{Program, run};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Runs `cases` programs, or as many as `PROPTEST_CASES` says.
fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    // A program that hangs takes long to shrink.
    ProptestConfig { max_shrink_time: 60_000, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..config(300)
    })]

    #[test]
    fn a_timer_matches_its_oracle(program: Program) {
        in_time("a program", move || run(&program));
    }
}

/// Only timers whose threads cannot be started are refused, and only callbacks for which there is no memory.
#[test]
#[cfg(target_os = "linux")]
fn a_timer_matches_its_oracle_while_threads_and_memory_are_short() {
    use address_space::{STACK, WITHOUT_SIGNAL_STACKS, limit_memory_to, limit_segments_to, limit_threads_to};
    use common::{child, is_child};
    use program::{Resource, Shortage, run_with_shortage};

    const NAME: &str = "a_timer_matches_its_oracle_while_threads_and_memory_are_short";
    if !is_child(NAME) {
        // All but timers allocate from a heap that need not grow.
        let stack = STACK.to_string();
        let variables = [
            ("RUST_MIN_STACK", &*stack),
            ("MALLOC_ARENA_MAX", "1"),
            ("MALLOC_MMAP_MAX_", "0"),
            ("MALLOC_TOP_PAD_", "67108864"),
            ("MALLOC_TRIM_THRESHOLD_", "1000000000"),
        ];
        let child = child(NAME, &format!("ulimit -c 0; {WITHOUT_SIGNAL_STACKS}"), &variables);
        let text = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{text}");
        return;
    }
    let config = ProptestConfig { failure_persistence: None, ..config(100) };
    proptest!(config, |(program: Program, threads in 0..12_u64, segments in 0..4_u64)| {
        let limit = move |resource| match resource {
            None => limit_memory_to(None),
            Some(Resource::Threads) => limit_threads_to(threads),
            Some(Resource::Memory) => limit_segments_to(segments),
        };
        in_time("a program", move || run_with_shortage(&program, Shortage::new(limit)));
    });
}
