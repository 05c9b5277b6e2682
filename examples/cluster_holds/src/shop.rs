//! Places holds and pays for some. Each request is one statement, hence one transaction, and may be repeated.

use std::thread;
use std::time::{Duration, Instant};

use corewheel::{Executor, Timer};
use crossbeam_channel::{Sender, unbounded};

use crate::Result;
use crate::children::end_with_the_run;
use crate::counts::{Event, count, keep_printing_counts};
use crate::database::{Address, Database, Session};
use crate::ledger::{self, Told};
use crate::schema::ITEMS;

/// Takes the pieces out of the stock only if the hold is new. Fails if the stock would become negative. The deadline is
/// by the database's clock. Notifies the workers of a hold that is nearer than the horizon.
/// Returns the deadline, also of a hold that an earlier attempt has placed, unless that is committed only now.
pub const PLACE: &str = "
    WITH placed AS (
        INSERT INTO holds (id, item, quantity, due)
        VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')
        ON CONFLICT (id) DO NOTHING RETURNING item, quantity, due),
    taken AS (
        UPDATE stock SET free = free - placed.quantity FROM placed WHERE stock.item = placed.item
        RETURNING CASE WHEN $4 < $5 THEN pg_notify('nearer', '') END)
    SELECT micros(due) FROM placed, taken
    UNION ALL SELECT micros(due) FROM holds WHERE id = $1";
/// Ends the hold, whichever worker has claimed it. Refuses a payment at or after the deadline.
const PAY: &str = "
    WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
    ended AS (UPDATE holds SET ended = now FROM clock WHERE id = $1 AND ended IS NULL AND due > now RETURNING id)
    INSERT INTO ends (hold, outcome, at) SELECT id, 'paid', clock_timestamp() FROM ended
    RETURNING hold";

/// The most pieces of an item that one hold takes.
pub const MOST_PIECES: i32 = 3;
/// Customers come at this pause, several at a time.
const ARRIVALS: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
pub struct Settings {
    #[command(flatten)]
    address: Address,
    /// The first of the ids that the shop gives to its holds.
    #[arg(long)]
    first: i64,
    /// Number of holds.
    #[arg(long)]
    holds: u64,
    /// Holds that are placed in a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// The longest hold, in seconds; the shortest is one second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    longest: u64,
    /// The horizon of the workers, in milliseconds.
    #[arg(long)]
    horizon: u64,
    /// Number of requests at a time, each with a connection.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
}

#[derive(Clone, Copy)]
enum Request {
    Place(i64),
    Pay(i64),
}

/// The result of a request.
enum Answer {
    /// The customer will pay after this time, or not at all.
    Placed(i64, Option<Duration>),
    Paid,
}

/// Serves customers until all holds are placed and all payments are made.
pub fn sell(settings: &Settings) -> Result<()> {
    let database = Database::new(&settings.address, "shop")?;
    keep_printing_counts();
    end_with_the_run();
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build()?;
    let (sender, requests) = unbounded();
    let (done, answers) = unbounded();
    for _ in 0..settings.connections {
        let (database, requests, done) = (database.clone(), requests.clone(), done.clone());
        let longest = settings.longest * 1_000;
        let horizon = settings.horizon as f64;
        thread::spawn(move || {
            let mut session = Session::new(&database);
            for request in requests {
                if done.send(serve(&mut session, request, longest, horizon)).is_err() {
                    return;
                }
            }
        });
    }
    customers(settings, &timer, sender.clone())?;
    let (mut placed, mut will_pay, mut paid) = (0, 0, 0);
    while placed < settings.holds || paid < will_pay {
        match answers.recv()?? {
            Answer::Placed(id, pays) => {
                placed += 1;
                count(Event::Placed);
                if let Some(after) = pays {
                    will_pay += 1;
                    let sender = sender.clone();
                    timer.schedule(after, move || sender.send(Request::Pay(id)).unwrap_or(()))?;
                }
            }
            Answer::Paid => paid += 1,
        }
    }
    Ok(())
}

/// Schedules the arrivals of customers, at the same rate however long the requests take.
fn customers(settings: &Settings, timer: &Timer, sender: Sender<Request>) -> Result<()> {
    let mut ids = settings.first..settings.first + settings.holds as i64;
    let start = timer.now();
    let rate = settings.rate as f64;
    let mut arrived = 0;
    let arrive = move |now: Instant| {
        let expected = ((now - start).as_secs_f64() * rate) as usize;
        for id in ids.by_ref().take(expected.saturating_sub(arrived)) {
            sender.send(Request::Place(id)).ok()?;
            arrived += 1;
        }
        (!ids.is_empty()).then(|| now + ARRIVALS)
    };
    timer.schedule_recurring(start + ARRIVALS, arrive)?;
    Ok(())
}

/// Six of ten customers pay, some of them too late.
fn serve(session: &mut Session, request: Request, longest: u64, horizon: f64) -> Result<Answer> {
    match request {
        Request::Place(id) => {
            let lasts = fastrand::u64(1_000..=longest);
            let item = fastrand::i32(1..=ITEMS);
            let quantity = fastrand::i32(1..=MOST_PIECES);
            let due = loop {
                let rows = session.query(PLACE, &[&id, &item, &quantity, &(lasts as f64), &horizon])?;
                if let Some(row) = rows.first() {
                    break row.get(0);
                }
            };
            ledger::tell(Told::Placed { id, due });
            let pays = fastrand::u8(..10) < 6;
            Ok(Answer::Placed(id, pays.then(|| Duration::from_millis(fastrand::u64(..lasts * 21 / 20)))))
        }
        Request::Pay(id) => {
            // After a lost answer there is no row, though the hold may be paid.
            if !session.query(PAY, &[&id])?.is_empty() {
                ledger::tell(Told::Paid { id });
            }
            Ok(Answer::Paid)
        }
    }
}
