//! Counts the instructions of each operation: a figure that does not depend on the load of the machine.
//!
//! ```text
//! cargo bench -p benches --bench instructions >docs/benchmarks/instructions.md
//! cargo bench -p benches --bench instructions -- --check
//! ```
//!
//! The first form writes the page. The second compares the counts with it, and fails if one has grown by more than 5 %.
//! Counts depend on the compiler, so nothing is compared if the page is of another one.
//!
//! Each case runs under valgrind's callgrind, in a process of its own. Only the instructions of the calling thread
//! inside [`measured`] count. The timer runs in virtual time: valgrind emulates no invariant counter, so the system
//! clock would make system calls. The virtual clock takes more instructions than the counter.

use std::env;
use std::error::Error;
use std::fs;
use std::future;
use std::hint::black_box;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use corewheel::{Executor, ManualClock, Sleep, Timer, TimerHandle, Wheel};

/// Number of operations.
const TIMES: u64 = 20_000;
/// Number of operations in a chunk.
const CHUNK: u64 = 1000;
/// Number of values that wait meanwhile.
const WAITING: u64 = 100_000;
/// Upper bound of the deadlines, in ticks.
const REACH: u64 = 1 << 17;
const MINUTE: Duration = Duration::from_secs(60);
/// Percentage by which a count may exceed the recorded one.
const TOLERANCE: f64 = 5.0;
const RECORD: &str = "docs/benchmarks/instructions.md";
const HEAD: &str = "\
# Instructions

The number of instructions does not depend on other load of the machine. Compare it before and after a change, not with
other programs. The same command gives the same figures with the same compiler. The first command writes this page. The
second fails if a figure has grown by more than 5 %; `ci/all` calls it. Both need valgrind.

```sh
cargo bench -p benches --bench instructions >docs/benchmarks/instructions.md
cargo bench -p benches --bench instructions -- --check
```

Only the calling thread is counted. *Tick by tick* is 20,000 values in 131,072 ticks. The timer is in virtual time, so
that the driver's visits do not depend on the time of day. A firing is one of 20,000 in one call of `Driver::drive`,
which takes real time. Its tick is so long that the timers wait in the same slot in every run.
";

/// The operations, each with its name in the table.
const CASES: [(&str, fn()); 12] = [
    ("Wheel::insert", || in_chunks(true)),
    ("Wheel::remove", || in_chunks(false)),
    ("Wheel::advance, all in one tick", || advance(1)),
    ("Wheel::advance, tick by tick", || advance(REACH)),
    ("Timer: schedule + cancel + drop", || pairs(|handle| assert!(handle.cancel()))),
    ("Timer: reset to a later deadline", reset),
    ("Timer: firing, inline", fire),
    ("Sleep: new + poll + drop", sleep),
    ("Sleep: reset to a later deadline", || reset_sleep(false)),
    ("Sleep: reset + poll", || reset_sleep(true)),
    ("Timeout of a ready future", || timeout(future::ready(()), true)),
    ("Timeout of a pending future", || timeout(future::pending::<()>(), false)),
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

/// Prints the page. Returns false if `check` is set and a count is too high.
fn report(check: bool) -> Result<bool, Box<dyn Error>> {
    let record = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(RECORD))?;
    let compiler = compiler()?;
    println!("{HEAD}\nWith {compiler}:\n\n| operation | instructions |\n|---|---:|");
    let mut passed = true;
    let known = record.contains(&compiler);
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

/// Returns the version of the compiler, and its target architecture.
fn compiler() -> Result<String, Box<dyn Error>> {
    let version = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(version.stdout)?;
    let number = version.split_whitespace().nth(1).ok_or("rustc printed no version")?;
    Ok(format!("rustc {number} for {}", env::consts::ARCH))
}

/// Counts the instructions of a case inside [`measured`].
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
    let collected = log.lines().find_map(|line| line.split_once("Collected :")).ok_or("callgrind printed no count")?;
    let count = collected.1.trim().parse()?;
    if count < TIMES { Err("callgrind has not found `measured`".into()) } else { Ok(count) }
}

/// Calls `f`. callgrind counts the instructions of the calling thread in it.
#[inline(never)]
fn measured<R>(f: impl FnOnce() -> R) -> R {
    black_box(f())
}

/// Returns a deadline in the reach. Deadlines are evenly spread, and the same in every run.
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

/// Inserts and removes values while others wait, and measures one of the two operations.
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

/// Measures the expiry of values that are spread over `ticks` ticks.
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
    let timer = in_virtual_time();
    let connection = Arc::default();
    // The first pair allocates memory and wakes the driver.
    end(schedule(&timer, &connection));
    measured(|| {
        for _ in 0..TIMES {
            end(schedule(&timer, &connection));
        }
    });
}

/// Measures what a loop that drives does for each timer, from the wheel to the end of the run.
fn fire() {
    const TICK: Duration = Duration::from_millis(200);
    // In the middle of a tick, however long it takes to build the timer.
    let due = Instant::now() + 20 * TICK + TICK / 2;
    let builder = Timer::builder().shards(1).executor(Executor::Inline).tick(TICK);
    let timer = builder.build().expect("the timer starts");
    let mut driver = timer.take_driver().expect("no loop has it yet");
    let connection = Arc::default();
    let schedule = |connection: Arc<()>| timer.schedule_at(due, move || drop(connection)).expect("the timer is open");
    let _handles: Vec<_> = (0..TIMES).map(|_| schedule(Arc::clone(&connection))).collect();
    // Links all.
    while driver.next_wakeup().is_some_and(|at| at <= Instant::now()) {}
    assert!(Instant::now() < due, "the machine is too slow");
    thread::sleep(due.saturating_duration_since(Instant::now()) + TICK);
    let mut fired = 0;
    measured(|| {
        while fired < TIMES {
            fired += driver.drive() as u64;
        }
    });
}

fn reset() {
    let timer = in_virtual_time();
    let connection = Arc::default();
    let handle = schedule(&timer, &connection);
    measured(|| {
        for _ in 0..TIMES {
            assert!(handle.reset(MINUTE));
        }
    });
}

/// Returns whether the future is ready.
fn poll(future: &mut (impl Future + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn polled(timer: &Timer) -> Sleep {
    let mut sleep = timer.sleep(MINUTE);
    assert!(!poll(&mut sleep));
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

fn reset_sleep(and_poll: bool) {
    let timer = in_virtual_time();
    let mut sleep = polled(&timer);
    measured(|| {
        for _ in 0..TIMES {
            Pin::new(&mut sleep).reset_after(MINUTE);
            assert!(!and_poll || !poll(&mut sleep));
        }
    });
}

/// Measures a timeout that is made, polled once and dropped.
fn timeout(future: impl Future + Clone + Unpin, is_ready: bool) {
    let timer = in_virtual_time();
    drop(polled(&timer));
    measured(|| {
        for _ in 0..TIMES {
            assert_eq!(poll(&mut timer.timeout(MINUTE, future.clone())), is_ready);
        }
    });
}
