//! The processes of the workers and shops, and the lines that they print for the run.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Result;

/// What a worker or shop tells the run, a line each.
pub enum Line {
    /// So many statements were run since the last such line.
    Statements(u64),
    Placed,
    /// A statement is repeated: its connection was lost, or its transaction lost against another one.
    Repeated,
    /// The database refused to release a hold that was due, because the lease had expired.
    Refused,
    /// The lease was lost, with so many holds.
    Lost(usize),
    Note(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statements(count) => write!(f, "statements {count}"),
            Self::Placed => write!(f, "placed"),
            Self::Repeated => write!(f, "repeated"),
            Self::Refused => write!(f, "refused"),
            Self::Lost(holds) => write!(f, "lost {holds}"),
            Self::Note(text) => write!(f, "note {text}"),
        }
    }
}

/// Whether this process tells anything: the run itself does not.
static TELLS: AtomicBool = AtomicBool::new(false);

/// Prints a line for the run. If the run has gone, nobody needs it.
pub fn tell(line: Line) {
    if !TELLS.load(Ordering::Relaxed) {
        return;
    }
    let _ = writeln!(io::stdout(), "{line}");
}

static STATEMENTS: AtomicU64 = AtomicU64::new(0);

/// Counts a statement of this process.
pub fn count_statement() {
    STATEMENTS.fetch_add(1, Ordering::Relaxed);
}

/// Tells the number of statements from now on, often enough that a kill loses few.
pub fn report_statements() {
    TELLS.store(true, Ordering::Relaxed);
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_millis(250));
            tell(Line::Statements(STATEMENTS.swap(0, Ordering::Relaxed)));
        }
    });
}

/// The sums of what the processes have told.
#[derive(Default)]
pub struct Told {
    pub placed: AtomicU64,
    pub worker_statements: AtomicU64,
    pub repeated: AtomicU64,
    pub refused: AtomicU64,
    pub lost: AtomicU64,
}

impl Told {
    fn add(&self, is_worker: bool, line: &str) {
        let (what, value) = line.split_once(' ').unwrap_or((line, ""));
        let count = value.parse().unwrap_or(0);
        match what {
            "statements" if is_worker => self.worker_statements.fetch_add(count, Ordering::Relaxed),
            "placed" => self.placed.fetch_add(1, Ordering::Relaxed),
            "repeated" => self.repeated.fetch_add(1, Ordering::Relaxed),
            "refused" => self.refused.fetch_add(1, Ordering::Relaxed),
            "lost" => self.lost.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

/// A worker or a shop in a process of its own. Dropping it kills the process.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the process, out of reach of the terminal's signals. It ends when its standard input does.
    pub fn start(url: &str, role: &str, arguments: &[String], told: &Arc<Told>) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(role).args(arguments).env("DATABASE_URL", url).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let (told, is_worker) = (told.clone(), role == "worker");
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| told.add(is_worker, &line)));
        Ok(Self { child })
    }

    /// Sends a signal: SIGKILL, SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.child.id() as i32), signal)?)
    }

    /// Kills the process, and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the status if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Lets the process end in order, and waits for that.
    pub fn finish(mut self) -> Result<ExitStatus> {
        drop(self.child.stdin.take());
        Ok(self.child.wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}
