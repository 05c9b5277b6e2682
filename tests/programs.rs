//! Random programs for timers in virtual time against an oracle.

#[cfg(target_os = "linux")]
#[path = "common/address_space.rs"]
mod address_space;
mod common;
mod program;

use common::in_time;
use program::{Program, play};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// So many programs, or as many as the environment says.
fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    // One that hangs takes long.
    ProptestConfig { max_shrink_time: 60_000, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..config(300)
    })]

    #[test]
    fn a_timer_does_what_its_oracle_says(program: Program) {
        in_time("a program", move || play(&program));
    }
}

/// Refused are timers for which threads cannot be started, and callbacks for which there is no memory; and no others.
#[test]
#[cfg(target_os = "linux")]
fn a_timer_does_what_its_oracle_says_while_threads_and_memory_are_short() {
    use address_space::{STACK, WITHOUT_SIGNAL_STACKS, limit_memory_to, limit_segments_to, limit_threads_to};
    use common::{child, is_child};
    use program::{Lack, Shortage, play_short};

    const NAME: &str = "a_timer_does_what_its_oracle_says_while_threads_and_memory_are_short";
    if !is_child(NAME) {
        // What is no timer gets its memory from a heap that need not grow.
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
        let limit = move |lack| match lack {
            None => limit_memory_to(None),
            Some(Lack::OfThreads) => limit_threads_to(threads),
            Some(Lack::OfMemory) => limit_segments_to(segments),
        };
        in_time("a program", move || play_short(&program, Shortage::new(limit)));
    });
}
