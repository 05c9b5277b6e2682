//! Compares programs for a `Timer` in virtual time with their oracle.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/program/mod.rs"]
mod program;

use libfuzzer_sys::fuzz_target;
use program::{Program, play};

fuzz_target!(|program: Program| play(&program));
