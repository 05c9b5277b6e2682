//! A crew: a part of the load's connections, which begins again when it has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::load::Load;
use crate::plan::Plan;

/// Number of crews. They end at different times, so that most connections are open at any time.
pub const CREWS: usize = 4;
/// Time from a crew's beginning to the last of its connections that stalls.
const TIME: Duration = Duration::from_secs(10);

/// What all crews have done so far.
#[derive(Default)]
pub struct Record {
    pub answers: AtomicU64,
    /// Why a crew has ended for good.
    pub failure: Mutex<Option<String>>,
}

/// Starts the crews, each on a thread that runs until the process ends.
pub fn start(plan: Plan, record: &Arc<Record>) -> std::io::Result<()> {
    for number in 0..CREWS {
        let share = plan.connections / CREWS + usize::from(number < plan.connections % CREWS);
        let first = TIME * (number as u32 + 1) / CREWS as u32;
        let plan = Plan { connections: share, ..plan };
        let record = record.clone();
        thread::Builder::new().name(format!("crew-{number}")).spawn(move || {
            let mut time = first;
            let failure = loop {
                if let Err(error) = begin(Plan { time, ..plan }, &record) {
                    break error;
                }
                time = TIME;
            };
            *record.failure.lock().expect("no thread panics while it stores") = Some(failure);
        })?;
    }
    Ok(())
}

/// Opens the crew's connections, and drives them until the server has closed all that stall.
fn begin(plan: Plan, record: &Record) -> Result<(), String> {
    let load = Load::start(plan, 1).map_err(|error| error.to_string())?;
    let mut counted = 0;
    loop {
        let finished = load.is_finished();
        let answers = load.tally().answers.load(Ordering::Relaxed);
        record.answers.fetch_add(answers - counted, Ordering::Relaxed);
        counted = answers;
        if finished {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    load.finish().map(drop).map_err(|error| error.to_string())
}
