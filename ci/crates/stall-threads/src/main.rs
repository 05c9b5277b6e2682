//! Running a program and stalls single threads of it at random points, as a busy machine does, but much more often.
//! Linux.
//!
//! It finds tests that rely on an even pace of the threads, and code with an intermediate state that no other thread
//! should see. It exits with the exit code of the program.
//!
//! It traces the program with [`ptrace(2)`]: each thread from its first step, but no child process. To stall a thread,
//! it interrupts the thread, waits for the stop, and lets the thread continue later. It forwards all signals to the
//! threads.
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

/// Interval between two checks whether a stall has ended.
const POLL_EVERY: Duration = Duration::from_micros(100);

/// Running a program and stalls single threads of it at random.
#[derive(Parser)]
struct Arguments {
    /// Longest stall of a thread, in milliseconds; the mean is a quarter of it
    #[arg(long, default_value_t = 60.0)]
    longest: f64,
    /// Mean time from one stall to the next, in milliseconds
    #[arg(long, default_value_t = 1.0)]
    every: f64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Running,
    /// Interrupted, but not stopped yet.
    Interrupted,
    Stalled {
        until: Instant,
    },
}

struct Tracer {
    random: fastrand::Rng,
    longest: f64,
    threads: Vec<(Pid, State)>,
    stalls: u64,
}

fn milliseconds(number: f64) -> Duration {
    Duration::from_secs_f64(number / 1000.0)
}

/// Returns whether the thread runs on a processor or waits for one.
fn is_runnable(thread: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may itself contain parentheses.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

/// Lets a thread continue, if it still exists.
fn resume(thread: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::cont(thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        result => result.context("a thread cannot be resumed"),
    }
}

impl Tracer {
    fn state(&mut self, thread: Pid) -> &mut State {
        let found = self.threads.iter().position(|&(known, _)| known == thread);
        let index = found.unwrap_or_else(|| {
            self.threads.push((thread, State::Running));
            self.threads.len() - 1
        });
        &mut self.threads[index].1
    }

    /// Handles an event of a thread.
    fn handle(&mut self, status: WaitStatus) -> Result<()> {
        match status {
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                self.threads.retain(|&(known, _)| known != thread);
                Ok(())
            }
            WaitStatus::PtraceEvent(thread, Signal::SIGTRAP, PTRACE_EVENT_STOP)
                if *self.state(thread) == State::Interrupted =>
            {
                self.stalls += 1;
                // A product of two random numbers: most stalls are short.
                let span = milliseconds(self.longest * self.random.f64() * self.random.f64());
                *self.state(thread) = State::Stalled { until: Instant::now() + span };
                Ok(())
            }
            WaitStatus::PtraceEvent(thread, ..) => {
                // Adds the thread if it is new.
                self.state(thread);
                resume(thread, None)
            }
            WaitStatus::Stopped(thread, signal) => resume(thread, Some(signal)),
            _ => Ok(()),
        }
    }

    /// Interrupts a random thread that is runnable, or one that sleeps if none is runnable.
    fn interrupt_one(&mut self) {
        let first = self.random.usize(..self.threads.len());
        self.threads.rotate_left(first);
        let free = || self.threads.iter().enumerate().filter(|(_, (_, state))| *state == State::Running);
        let chosen = free().find(|&(_, &(thread, _))| is_runnable(thread)).or_else(|| free().next());
        if let Some((index, &(thread, _))) = chosen
            && ptrace::interrupt(thread).is_ok()
        {
            self.threads[index].1 = State::Interrupted;
        }
    }

    /// Resumes the threads whose stall has ended.
    fn end_stalls(&mut self) -> Result<()> {
        let now = Instant::now();
        for (thread, state) in &mut self.threads {
            if matches!(*state, State::Stalled { until } if until <= now) {
                *state = State::Running;
                resume(*thread, None)?;
            }
        }
        Ok(())
    }
}

/// Starts the program, and traces it from its first step.
fn start(program: &[String]) -> Result<Pid> {
    // The shell stops itself, so that tracing can start before the program does.
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
        Tracer { random: fastrand::Rng::with_seed(seed), longest, threads: vec![(process, State::Running)], stalls: 0 };
    let mut next = Instant::now();
    let code = loop {
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG))? {
            WaitStatus::StillAlive => {
                tracer.end_stalls()?;
                if next <= Instant::now() {
                    next = Instant::now() + milliseconds(2.0 * every * tracer.random.f64());
                    tracer.interrupt_one();
                }
                thread::sleep(POLL_EVERY);
            }
            WaitStatus::Exited(thread, code) if thread == process => break code,
            WaitStatus::Signaled(thread, signal, _) if thread == process => break 128 + signal as i32,
            status => tracer.handle(status)?,
        }
    };
    eprintln!("stalled threads {} times", tracer.stalls);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
