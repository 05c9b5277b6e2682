//! An order service that holds stock for half an hour. A million holds begin in one burst. Customers pay for nearly all
//! of them in time, the timer releases the rest, and no piece is lost.
//!
//! ```text
//! cargo run --release --example order_holds
//! cargo run --release --example order_holds -- --real
//! ```
//!
//! Time is virtual, so the half hour takes a moment; `--real` runs the burst on the real clock, with holds of a few
//! seconds. For comparison, the shop also runs on a binary heap under a mutex, the timer that is often written for this.
//! Its cancel marks a hold. The heap removes the marked ones when they are more than half of it.
//!
//! The figures of memory are those of the whole process, including the list of the holds. The few remaining holds are
//! spread over most pages. So corewheel reuses the memory of cancelled holds at once, but gives most of it back to the
//! system only at the end. The allocator keeps what the heap has freed.
//!
//! | file     | contents                                            |
//! |----------|-----------------------------------------------------|
//! | `shop`   | the burst, the payments, and the stock at the end   |
//! | `holds`  | what the shop needs of a timer, with corewheel      |
//! | `heap`   | the same with a binary heap                         |
//! | `memory` | the memory of the process                           |

#[path = "../options.rs"]
mod options;
#[macro_use]
#[path = "../output.rs"]
mod output;

mod heap;
mod holds;
mod memory;
mod shop;

use std::time::Duration;

use bpaf::{Parser, construct, long};
use corewheel::{BuildError, ManualClock};
use heap::Heap;
use holds::{Time, Wheels};
use options::{number, number_or};
use output::count;
use shop::{Figures, Orders, Shop};

struct Args {
    orders: u32,
    real: bool,
    hold: Option<u32>,
}

fn args() -> Args {
    let orders = number_or("orders", "Number of orders, each with one hold", 1..=20_000_000, 1_000_000);
    let real = long("real").help("Use the real clock").switch();
    let hold =
        number("hold", "Seconds that a hold lasts [default: 1800; on the real clock 6]", 6..=u32::MAX).optional();
    let description = "Holds stock for orders, most of which are paid for in time, and releases the rest. Panics if a \
                       piece is lost, or if one is released too early.";
    construct!(Args { orders, real, hold }).to_options().descr(description).run()
}

fn main() -> Result<(), BuildError> {
    let args = args();
    let hold = Duration::from_secs(args.hold.unwrap_or(if args.real { 6 } else { 1800 }).into());
    let time = || if args.real { Time::Real } else { Time::Virtual(ManualClock::new()) };
    let orders = Orders::new(args.orders as usize, hold);
    let clock = if args.real { "real" } else { "virtual" };
    println!("{} holds of {hold:?} on the {clock} clock\n", count(args.orders.into()));

    let figures = [
        ("corewheel", Shop::new(&orders, Wheels::start(time())?).trade()),
        ("heap", Shop::new(&orders, Heap::new(time())).trade()),
    ];
    report(&figures);
    Ok(())
}

fn report(figures: &[(&str, Figures)]) {
    header(["paid for", "released", "ns a hold", "ns a payment"]);
    for (name, figures) in figures {
        let [hold, pay] = [figures.hold, figures.pay].map(|time| format!("{:.0}", time.as_nanos()));
        row(name, [count(figures.paid), count(figures.released), hold, pay]);
    }
    println!();
    header(["MiB before", "all held", "97 % paid for", "after"]);
    for (name, figures) in figures {
        row(name, figures.memory.map(|bytes| bytes.map_or("?".to_owned(), |bytes| format!("{}", bytes >> 20))));
    }
    println!("\nok: every piece is sold or back in stock");
}

fn header(titles: [&str; 4]) {
    println!("{:<11}{:>14}{:>14}{:>16}{:>14}", "", titles[0], titles[1], titles[2], titles[3]);
}

fn row(name: &str, cells: [String; 4]) {
    println!("{name:<11}{:>14}{:>14}{:>16}{:>14}", cells[0], cells[1], cells[2], cells[3]);
}
