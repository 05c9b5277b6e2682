//! Random programs for timers in virtual time, checked against an oracle.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/properties/program/mod.rs"]
mod program;

use libfuzzer_sys::fuzz_target;
use program::{Program, run};

fuzz_target!(|program: Program| run(&program));
