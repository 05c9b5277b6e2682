//! How many instructions an operation takes: a figure that does not depend on what else the machine does.
//!
//! ```text
//! cargo bench -p benches --bench instructions
//! cargo bench -p benches --bench instructions -- --check
//! ```
//!
//! The second form compares the counts with the table of `docs/benchmarks/instructions.md`, and fails if one has grown by
//! more than 5 %. Counts depend on the compiler, so it says so and compares nothing if that is another one.
//!
//! Each case runs under valgrind's callgrind, in a process of its own. Only the instructions that the calling thread
//! takes inside of [`measured`] count. The timer is in virtual time: valgrind's processor has no counter that a clock is
//! made of, so the real clock would be read by a system call. The virtual clock takes more instructions than the counter.

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use corewheel::{Executor, ManualClock, Sleep, Timer, TimerHandle, Wheel};

/// How many operations are counted.
const TIMES: u64 = 20_000;
/// How many of them in one go.
const CHUNK: u64 = 1000;
/// How many values wait meanwhile.
const WAITING: u64 = 100_000;
/// Deadlines are at most so many ticks away.
const REACH: u64 = 1 << 17;
const MINUTE: Duration = Duration::from_secs(60);
/// By how many percent a count may be above the recorded one.
const TOLERANCE: f64 = 5.0;
const RECORD: &str = "docs/benchmarks/instructions.md";

/// What is counted.
const CASES: [(&str, fn()); 9] = [
    ("Wheel::insert", || in_chunks(true)),
    ("Wheel::remove", || in_chunks(false)),
    ("Wheel::advance, all in one tick", || advance(1)),
    ("Wheel::advance, tick by tick", || advance(REACH)),
    ("Timer: schedule + cancel + drop", || pairs(|handle| assert!(handle.cancel()))),
    ("Timer: schedule + cancel_and_drop", || pairs(|handle| assert!(handle.cancel_and_drop()))),
    ("Timer: reset to a later deadline", reset),
    ("Sleep: new + poll + drop", sleep),
    ("Sleep: reset to a later deadline", reset_sleep),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, command, case] = arguments.as_slice()
        && command == "run"
    {
        CASES[case.parse::<usize>().expect("the number of a case")].1();
        return ExitCode::SUCCESS;
    }
    match report(arguments.iter().any(|argument| argument == "--check")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table. False if a count is checked, and too high.
fn report(check: bool) -> Result<bool, Box<dyn Error>> {
    let record = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(RECORD))?;
    let compiler = compiler()?;
    println!("With {compiler}:\n\n| operation | instructions |\n|---|---|");
    let (mut passed, known) = (true, record.contains(&compiler));
    for (case, (name, _)) in CASES.iter().enumerate() {
        let count = count(case)? as f64 / TIMES as f64;
        println!("| {name} | {count:.0} |");
        if check && known {
            let row = record.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
            let before: f64 = row.ok_or(format!("{RECORD} has no row for {name}"))?.trim_end_matches(" |").parse()?;
            if count > before * (1.0 + TOLERANCE / 100.0) {
                eprintln!("{name} takes {count:.0} instructions, {before} are recorded");
                passed = false;
            }
        }
    }
    if check && !known {
        println!("\nnot compared: {RECORD} was recorded with another compiler");
    }
    Ok(passed)
}

/// The compiler, and what it compiles for.
fn compiler() -> Result<String, Box<dyn Error>> {
    let version = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(version.stdout)?;
    let number = version.split_whitespace().nth(1).ok_or("rustc does not say its version")?;
    Ok(format!("rustc {number} for {}", env::consts::ARCH))
}

/// The instructions that a case takes inside of [`measured`].
fn count(case: usize) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured*"])
        .arg(env::current_exe()?)
        .args(["run", &case.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}; install it, or leave this benchmark out"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the case failed under valgrind:\n{log}").into());
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected :")).ok_or("callgrind says no count")?;
    let count = collected.1.trim().parse()?;
    if count < TIMES { Err("callgrind has not seen what is measured".into()) } else { Ok(count) }
}

/// What happens in `f`, on the calling thread, is counted.
#[inline(never)]
fn measured<R>(f: impl FnOnce() -> R) -> R {
    black_box(f())
}

/// Deadlines that are spread over the reach, the same in every run.
fn deadline(number: u64) -> u64 {
    1 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % REACH
}

fn filled(values: u64) -> Wheel<u64> {
    let mut wheel = Wheel::new(0);
    for value in 0..values {
        wheel.insert(deadline(value), value);
    }
    wheel
}

/// Inserts values and removes them, beside those that wait; either is measured.
fn in_chunks(inserting: bool) {
    let mut wheel = filled(WAITING);
    for chunk in 0..=TIMES / CHUNK {
        let deadlines: Vec<_> = (0..CHUNK).map(|number| deadline(WAITING + chunk * CHUNK + number)).collect();
        let mut keys = Vec::with_capacity(deadlines.len());
        let mut insert = || keys.extend(deadlines.iter().map(|&deadline| wheel.insert(deadline, deadline)));
        // In the first round the memory grows.
        if inserting && chunk > 0 {
            measured(insert)
        } else {
            insert()
        }
        let remove = || keys.into_iter().for_each(|key| assert!(wheel.remove(key).is_some()));
        if !inserting && chunk > 0 { measured(remove) } else { remove() }
    }
}

/// Takes out values that are spread over so many ticks.
fn advance(ticks: u64) {
    let mut wheel = Wheel::new(0);
    for value in 0..TIMES {
        wheel.insert(REACH + value * ticks / TIMES, value);
    }
    let mut expired = 0;
    measured(|| {
        for now in REACH..REACH + ticks {
            wheel.advance(now, |_, value| {
                black_box(value);
                expired += 1;
            });
        }
    });
    assert_eq!(expired, TIMES);
}

fn in_virtual_time() -> Timer {
    let builder = Timer::builder().clock(ManualClock::new()).shards(1).executor(Executor::Inline);
    builder.build().expect("the timer starts")
}

fn schedule(timer: &Timer, connection: &Arc<()>) -> TimerHandle {
    let connection = connection.clone();
    timer.schedule(MINUTE, move || drop(connection)).expect("the timer is open")
}

fn pairs(end: fn(TimerHandle)) {
    let (timer, connection) = (in_virtual_time(), Arc::default());
    // The first takes memory, and wakes the driver.
    end(schedule(&timer, &connection));
    measured(|| {
        for _ in 0..TIMES {
            end(schedule(&timer, &connection));
        }
    });
}

fn reset() {
    let (timer, connection) = (in_virtual_time(), Arc::default());
    let handle = schedule(&timer, &connection);
    measured(|| {
        for _ in 0..TIMES {
            assert!(handle.reset(MINUTE));
        }
    });
}

fn polled(timer: &Timer) -> Sleep {
    let mut sleep = timer.sleep(MINUTE);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}

fn sleep() {
    let timer = in_virtual_time();
    drop(polled(&timer));
    measured(|| {
        for _ in 0..TIMES {
            drop(polled(&timer));
        }
    });
}

fn reset_sleep() {
    let timer = in_virtual_time();
    let mut sleep = polled(&timer);
    measured(|| {
        for _ in 0..TIMES {
            Pin::new(&mut sleep).reset_after(MINUTE);
        }
    });
}
