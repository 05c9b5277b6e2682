//! The processes of the workers and shops, and the sums of what they count.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::{env, process};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Result;
use crate::counts::{EVENTS, Event};
use crate::ledger::Ledger;

/// Waits until the run closes this process's input, or has ended, even if it was killed.
pub fn wait_for_the_run() {
    io::stdin().read_to_end(&mut Vec::new()).unwrap_or(0);
}

/// Ends this process when the run does.
pub fn end_with_the_run() {
    thread::spawn(|| {
        wait_for_the_run();
        process::exit(1);
    });
}

/// The sums over all processes of one role, and what they were told.
#[derive(Default)]
pub struct Totals {
    counts: [AtomicU64; EVENTS],
    pub ledger: Ledger,
}

impl Totals {
    pub fn of(&self, event: Event) -> u64 {
        self.counts[event as usize].load(Ordering::Relaxed)
    }

    fn add(&self, line: &str) {
        if self.ledger.add(line) {
            return;
        }
        for (total, count) in self.counts.iter().zip(line.split(' ')) {
            total.fetch_add(count.parse().unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// A worker or a shop in a process of its own. Dropping it kills the process.
pub struct Process {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the process, out of reach of the terminal's signals. It ends when its standard input does.
    pub fn start(url: &str, role: &str, arguments: &[String], totals: &Arc<Totals>) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(role).args(arguments).env("DATABASE_URL", url).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let totals = totals.clone();
        let reader = thread::spawn(move || lines.map_while(Result::ok).for_each(|line| totals.add(&line)));
        Ok(Self { child, reader: Some(reader) })
    }

    /// Sends a signal: SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.child.id() as i32), signal)?)
    }

    /// Kills the process, and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        let status = self.child.wait()?;
        if status.signal() == Some(Signal::SIGKILL as i32) {
            Ok(())
        } else {
            Err(format!("a process ended with {status} before it was killed").into())
        }
    }

    /// Returns the status if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Lets the process end in order, and waits until all that it has counted is added.
    pub fn finish(mut self) -> Result<ExitStatus> {
        drop(self.child.stdin.take());
        self.wait()
    }

    /// Waits until the process has ended by itself, and all that it has counted is added.
    pub fn wait(mut self) -> Result<ExitStatus> {
        // Until then: `Child::wait` closes the input, which tells the process that the run has ended.
        let input = self.child.stdin.take();
        let status = self.child.wait()?;
        drop(input);
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| "a reader has panicked")?;
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}
