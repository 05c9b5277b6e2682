//! How many instructions an operation takes: a figure that does not depend on what else the machine does.
//!
//! ```text
//! cargo bench --bench instructions
//! ```
//!
//! Each case runs under valgrind's callgrind, in a process of its own, with so many operations and with twice as many:
//! the difference is what they take, without what comes before and after. The timer is in virtual time, as valgrind makes
//! the real one pass too fast for the clock to be representative; the virtual clock takes more instructions.

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use corewheel::{Executor, ManualClock, Timer, TimerHandle, Wheel};

/// How many operations are counted.
const TIMES: u64 = 20_000;
/// How many values or timers wait meanwhile.
const WAITING: u64 = 100_000;
/// Deadlines are at most so many ticks away.
const REACH: u64 = 1 << 17;
const MINUTE: Duration = Duration::from_secs(60);

/// Does what is counted so often.
type Case = fn(u64);

/// What is counted.
const CASES: [(&str, Case); 6] = [
    ("Wheel::insert", |times| insert(times, false)),
    ("Wheel::insert + remove", |times| insert(times, true)),
    ("Wheel::advance, all in one tick", |times| advance(times, 1)),
    ("Wheel::advance, tick by tick", |times| advance(times, REACH)),
    ("Timer: schedule + cancel", schedule_and_cancel),
    ("Timer: reset to a later deadline", reset),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, command, case, times] = arguments.as_slice()
        && command == "run"
    {
        let (_, run) = CASES[case.parse::<usize>().expect("the number of a case")];
        run(times.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    println!("| operation | instructions |\n|---|---|");
    for (case, (name, _)) in CASES.iter().enumerate() {
        match count(case, 2 * TIMES).and_then(|twice| Ok(twice - count(case, TIMES)?)) {
            Ok(instructions) => println!("| {name} | {:.0} |", instructions as f64 / TIMES as f64),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The instructions of a process that does nothing but this.
fn count(case: usize, times: u64) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["run", &case.to_string(), &times.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}; install it, or leave this benchmark out"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the case failed under valgrind:\n{log}").into());
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected :")).ok_or("callgrind says no count")?;
    Ok(collected.1.trim().parse()?)
}

/// Deadlines that are spread over the reach, the same in every run.
fn deadline(number: u64) -> u64 {
    1 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % REACH
}

fn filled() -> Wheel<u64> {
    let mut wheel = Wheel::new(0);
    for value in 0..WAITING {
        wheel.insert(deadline(value), value);
    }
    wheel
}

fn insert(times: u64, remove: bool) {
    let mut wheel = filled();
    for number in 0..times {
        let key = wheel.insert(deadline(WAITING + number), number);
        if remove {
            assert_eq!(wheel.remove(key), Some(number));
        }
    }
    black_box(wheel);
}

/// Takes out values that are spread over so many ticks. What it takes to put them in counts as well.
fn advance(times: u64, ticks: u64) {
    let mut wheel = Wheel::new(0);
    for value in 0..times {
        wheel.insert(REACH + value * ticks / times, value);
    }
    let mut expired = 0;
    for now in REACH..REACH + ticks {
        wheel.advance(now, |_, value| {
            black_box(value);
            expired += 1;
        });
    }
    assert_eq!(expired, times);
}

fn in_virtual_time() -> Timer {
    let builder = Timer::builder().clock(ManualClock::new()).shards(1).executor(Executor::Inline);
    builder.build().expect("the timer starts")
}

fn schedule(timer: &Timer, connection: &Arc<()>) -> TimerHandle {
    let connection = connection.clone();
    timer.schedule(MINUTE, move || drop(connection)).expect("the timer is open")
}

fn schedule_and_cancel(times: u64) {
    let (timer, connection) = (in_virtual_time(), Arc::default());
    for _ in 0..times {
        assert!(schedule(&timer, &connection).cancel());
    }
}

fn reset(times: u64) {
    let (timer, connection) = (in_virtual_time(), Arc::default());
    let handle = schedule(&timer, &connection);
    for _ in 0..times {
        assert!(handle.reset(MINUTE));
    }
}
