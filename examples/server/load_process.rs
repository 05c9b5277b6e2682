//! The load in a process of its own, a child of the server's.
//!
//! The child writes lines to its output, with tabs between the fields: first and then regularly its tally, at the end
//! the outcome of each connection.

use std::error::Error;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, thread};

use crate::client::{Habit, Outcome};
use crate::load::{Load, Tally};
use crate::plan::Plan;

/// Starts the process, with the arguments of this one. Returns when it has opened its connections.
pub fn start(server: SocketAddr) -> io::Result<Load> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).arg(format!("--load-of={server}")).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().expect("the output is piped"));
    let tally = Arc::new(Tally::default());
    if read(&mut lines, &tally)?.is_some() {
        return Err(invalid("the load began with an outcome"));
    }
    let reader = thread::Builder::new().name("load".to_owned()).spawn({
        let tally = tally.clone();
        move || follow(child, lines, &tally)
    })?;
    Ok(Load::driven_by(vec![reader], tally))
}

/// Is the process: drives the load, and writes what it counts.
pub fn run(plan: Plan, threads: usize) -> Result<(), Box<dyn Error>> {
    let mut output = BufWriter::new(io::stdout().lock());
    let load = Load::start(plan, threads)?;
    loop {
        let finished = load.is_finished();
        let Tally { answers, late } = load.tally();
        writeln!(output, "{}\t{}", answers.load(Ordering::Relaxed), late.load(Ordering::Relaxed))?;
        output.flush()?;
        if finished {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    for Outcome { address, habit, closed_after } in load.finish()? {
        let nanos = closed_after.map(|after| after.as_nanos().to_string()).unwrap_or_default();
        writeln!(output, "{address}\t{}\t{nanos}", habit.name())?;
    }
    Ok(output.flush()?)
}

/// Reads all that the process writes, and waits for its end.
fn follow(mut child: Child, mut lines: BufReader<ChildStdout>, tally: &Tally) -> io::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    while !lines.fill_buf()?.is_empty() {
        outcomes.extend(read(&mut lines, tally)?);
    }
    let status = child.wait()?;
    if status.success() { Ok(outcomes) } else { Err(io::Error::other(format!("the load ended with {status}"))) }
}

/// Reads a line. Stores a tally, and returns an outcome.
fn read(lines: &mut BufReader<ChildStdout>, tally: &Tally) -> io::Result<Option<Outcome>> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    match *line.trim_end_matches('\n').split('\t').collect::<Vec<_>>() {
        [answers, late] => {
            tally.answers.store(parse(answers)?, Ordering::Relaxed);
            tally.late.store(parse(late)?, Ordering::Relaxed);
            Ok(None)
        }
        [address, name, nanos] => {
            let address = address.parse().map_err(invalid)?;
            let habit = Habit::all().find(|habit| habit.name() == name).ok_or_else(|| invalid("an unknown habit"))?;
            let closed_after = if nanos.is_empty() { None } else { Some(Duration::from_nanos(parse(nanos)?)) };
            Ok(Some(Outcome { address, habit, closed_after }))
        }
        _ => Err(invalid("the load has ended, or wrote an unknown line")),
    }
}

fn parse(field: &str) -> io::Result<u64> {
    field.parse().map_err(invalid)
}

fn invalid(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
