//! Draws a live timer in the terminal, from its `Stats` alone. The load is that of the example `server`, without an end.
//!
//! ```text
//! cargo run --release -p top
//! cargo run --release -p top -- --once
//! ```
//!
//! | file       | contents                                                             |
//! |------------|----------------------------------------------------------------------|
//! | `args`     | the command line                                                     |
//! | `service`  | the timer, and the server and the load that use it                   |
//! | `crew`     | connections of the load that begin again when they have ended        |
//! | `history`  | the readings of the last seconds, and their differences              |
//! | `frame`    | draws a frame                                                        |
//! | `figures`  | numbers and durations as text of a few columns                       |
//! | `plain`    | a frame as plain text                                                |
//! | `screen`   | the loop over frames and keys                                        |
//!
//! The other modules are those of `server`, and `options`, which the examples share.

#[path = "../../server/alarms.rs"]
mod alarms;
#[path = "../../server/client.rs"]
#[allow(dead_code, reason = "the verdict of `server` reads the rest")]
mod client;
#[path = "../../server/connection.rs"]
#[allow(dead_code, reason = "the verdict of `server` reads the rest")]
mod connection;
#[path = "../../server/files.rs"]
mod files;
#[path = "../../server/load.rs"]
#[allow(dead_code, reason = "`server` uses the rest")]
mod load;
#[path = "../../options.rs"]
mod options;
#[path = "../../server/plan.rs"]
mod plan;
#[path = "../../server/server.rs"]
#[allow(dead_code, reason = "`server` uses the rest")]
mod server;
#[path = "../../server/timeouts.rs"]
mod timeouts;

mod args;
mod crew;
mod figures;
mod frame;
mod history;
mod plain;
mod screen;
mod service;

use std::error::Error;
use std::process::ExitCode;

use args::Args;
use service::Service;

fn main() -> ExitCode {
    match run(&Args::from_command_line()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    files::raise_limit(2 * args.connections, 2 * args.threads + crew::CREWS)
        .map_err(|error| format!("{error}, or pass fewer --connections"))?;
    let service = Service::start(args)?;
    if args.once { plain::run(&service, args) } else { screen::run(&service, args) }
}
