//! The loop over frames and keys.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{panic, process};

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::Args;
use crate::history::History;
use crate::service::Service;

/// A signal ends the program within this time.
const ATTENTION: Duration = Duration::from_millis(100);

/// Draws frames until the user quits. Restores the terminal at the end, also at that by a signal or a panic.
pub fn run(service: &Service, args: &Args) -> Result<(), Box<dyn Error>> {
    if !io::stdout().is_terminal() {
        return Err("the output is no terminal: pass --once".into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut terminal = ratatui::try_init()?;
    // The hook of ratatui restores all but the cursor, which the drop of the terminal shows. A thread of the load or the
    // server can panic, too, and nothing must draw after that.
    let restore = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        // Without an output there is no terminal to restore.
        let _ = execute!(io::stdout(), Show);
        restore(info);
        process::exit(101);
    }));
    let result = frames(&mut terminal, service, args, &stop);
    ratatui::restore();
    result
}

fn frames(
    terminal: &mut DefaultTerminal,
    service: &Service,
    args: &Args,
    stop: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut history = History::new(service.read()?, args.window);
    let mut next = start + args.every;
    loop {
        terminal.draw(|frame| service.view(&history).draw(frame))?;
        if !wait(next, stop)? || args.seconds.is_some_and(|seconds| start.elapsed() >= seconds) {
            return Ok(());
        }
        // After a resize there is only the frame to be drawn again.
        if Instant::now() >= next {
            history.push(service.read()?);
            next = Instant::now() + args.every;
        }
    }
}

/// Waits until an instant or a resize. Returns false if the program is to end.
fn wait(until: Instant, stop: &AtomicBool) -> io::Result<bool> {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left.min(ATTENTION))? {
            if left.is_zero() {
                return Ok(true);
            }
            continue;
        }
        match event::read()? {
            Event::Resize(..) => return Ok(true),
            Event::Key(key) if key.is_press() => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(false),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(false)
}
