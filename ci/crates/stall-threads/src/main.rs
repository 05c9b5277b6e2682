//! Runs a program, and now and then holds one of its threads for a while, wherever that is, as a busy machine does, only
//! much more often. Linux.
//!
//! What fails under it is a test that counts on threads that go on at an even pace, or code that leaves a state between
//! two steps which no other thread should see. It exits with the code of the program.
//!
//! The program is traced ([`ptrace(2)`]), each thread of it from its first step, but no process that it starts. A thread
//! is interrupted, which is told when it has stopped, then held, and let go on. Whatever else is told of a thread is
//! passed on to it.
//!
//! [`ptrace(2)`]: https://man7.org/linux/man-pages/man2/ptrace.2.html

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};
use clap::Parser;
use nix::errno::Errno;
use nix::libc::PTRACE_EVENT_STOP;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How often is looked whether a thread is to be let go on.
const LOOK: Duration = Duration::from_micros(100);

/// Runs a program, and now and then holds one of its threads for a while.
#[derive(Parser)]
struct Arguments {
    /// The longest that a thread is held, in milliseconds; a quarter of it is the mean
    #[arg(long, default_value_t = 60.0)]
    longest: f64,
    /// The mean time from one hold to the next, in milliseconds
    #[arg(long, default_value_t = 1.0)]
    every: f64,
    /// Begins the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Runs,
    Called,
    Held { until: Instant },
}

struct Tracer {
    random: fastrand::Rng,
    longest: f64,
    threads: Vec<(Pid, State)>,
    holds: u64,
}

fn milliseconds(number: f64) -> Duration {
    Duration::from_secs_f64(number / 1000.0)
}

/// Whether the thread is on a processor, or waits for one.
fn has_work(thread: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    // The state is what follows the name, which is in parentheses and may contain any.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

/// Lets a thread go on, if it is still there.
fn go_on(thread: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::cont(thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        result => result.context("a thread cannot be let go on"),
    }
}

impl Tracer {
    fn state(&mut self, thread: Pid) -> &mut State {
        let found = self.threads.iter().position(|&(known, _)| known == thread);
        let index = found.unwrap_or_else(|| {
            self.threads.push((thread, State::Runs));
            self.threads.len() - 1
        });
        &mut self.threads[index].1
    }

    /// Takes note of what has come to a thread.
    fn told(&mut self, status: WaitStatus) -> Result<()> {
        match status {
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                self.threads.retain(|&(known, _)| known != thread);
                Ok(())
            }
            WaitStatus::PtraceEvent(thread, Signal::SIGTRAP, PTRACE_EVENT_STOP)
                if *self.state(thread) == State::Called =>
            {
                self.holds += 1;
                // Most are short.
                let span = milliseconds(self.longest * self.random.f64() * self.random.f64());
                *self.state(thread) = State::Held { until: Instant::now() + span };
                Ok(())
            }
            WaitStatus::PtraceEvent(thread, ..) => {
                // Also makes a new thread known.
                self.state(thread);
                go_on(thread, None)
            }
            WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal)),
            _ => Ok(()),
        }
    }

    /// Interrupts a thread that has work, if one has, or else one that sleeps.
    fn call_one(&mut self) {
        let first = self.random.usize(..self.threads.len());
        self.threads.rotate_left(first);
        let free = || self.threads.iter().enumerate().filter(|(_, (_, state))| *state == State::Runs);
        let chosen = free().find(|&(_, &(thread, _))| has_work(thread)).or_else(|| free().next());
        if let Some((index, &(thread, _))) = chosen
            && ptrace::interrupt(thread).is_ok()
        {
            self.threads[index].1 = State::Called;
        }
    }

    fn let_go(&mut self) -> Result<()> {
        let now = Instant::now();
        for (thread, state) in &mut self.threads {
            if matches!(*state, State::Held { until } if until <= now) {
                *state = State::Runs;
                go_on(*thread, None)?;
            }
        }
        Ok(())
    }
}

/// Starts the program, traced from its beginning.
fn start(program: &[String]) -> Result<Pid> {
    // It stops itself, so that it can be traced before it does anything.
    let stopped = r#"kill -STOP $$ && exec "$0" "$@""#;
    let child = Command::new("sh").args(["-c", stopped]).args(program).spawn().context("sh cannot be started")?;
    let process = Pid::from_raw(child.id().try_into()?);
    waitpid(process, Some(WaitPidFlag::WUNTRACED))?;
    ptrace::seize(process, Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL)
        .context("the program cannot be traced: ptrace must be allowed here")?;
    kill(process, Signal::SIGCONT)?;
    Ok(process)
}

fn main() -> Result<ExitCode> {
    let Arguments { longest, every, seed, program } = Arguments::parse();
    let process = start(&program)?;
    let mut tracer =
        Tracer { random: fastrand::Rng::with_seed(seed), longest, threads: vec![(process, State::Runs)], holds: 0 };
    let mut next = Instant::now();
    let code = loop {
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG))? {
            WaitStatus::StillAlive => {
                tracer.let_go()?;
                if next <= Instant::now() {
                    next = Instant::now() + milliseconds(2.0 * every * tracer.random.f64());
                    tracer.call_one();
                }
                thread::sleep(LOOK);
            }
            WaitStatus::Exited(thread, code) if thread == process => break code,
            WaitStatus::Signaled(thread, signal, _) if thread == process => break 128 + signal as i32,
            status => tracer.told(status)?,
        }
    };
    eprintln!("held threads {} times", tracer.holds);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
