//! A frame as plain text.

use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::args::Args;
use crate::frame::View;
use crate::history::History;
use crate::service::Service;

/// Time until the frame, unless `--seconds` says otherwise.
const DEFAULT: Duration = Duration::from_secs(5);

/// Reads the service for some seconds, and prints one frame.
pub fn run(service: &Service, args: &Args) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + args.seconds.unwrap_or(DEFAULT);
    let mut history = History::new(service.read()?, args.window);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(args.every));
        history.push(service.read()?);
    }
    let frame = render(&service.view(&history), args.size)?;
    Ok(io::stdout().write_all(frame.as_bytes())?)
}

/// Returns a frame of this many columns and rows, a line for each row.
pub fn render(view: &View<'_>, (columns, rows): (u16, u16)) -> Result<String, Box<dyn Error>> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows))?;
    terminal.draw(|frame| view.draw(frame))?;
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(usize::from(columns)).map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    Ok(lines.collect())
}
