//! One phase of the run: places all holds, waits until they have ended, prints what happened, and checks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Result;
use crate::audit;
use crate::chaos::{Chaos, worker_name};
use crate::children::{Process, Totals};
use crate::cluster::Cluster;
use crate::counts::Event;
use crate::database::{Database, Session};
use crate::load::{Load, Spent};
use crate::run::{Settings, Tables};
use crate::verdict::{self, Seen, Setup};

/// A lease is short, so the run shows many takeovers.
pub const LEASE: Duration = Duration::from_secs(3);
/// Number of shops.
pub const SHOPS: u64 = 2;
/// The clocks of the workers are wrong by so many seconds.
const SKEWS: [i64; 3] = [0, 180, -300];
/// With faults, all timers of the workers are so many milliseconds too early.
const EARLY: u64 = 10;
/// The phase fails if holds have not ended so long after all were due.
const GRACE: Duration = Duration::from_secs(30);

const ENDED: &str = "SELECT count(*) FROM ends";

pub struct Phase<'a> {
    pub settings: &'a Settings,
    pub setup: Setup,
    pub database: Database,
    pub url: String,
    pub interrupted: Arc<AtomicBool>,
}

/// What the workers and the shops have counted.
#[derive(Default)]
struct Counts {
    workers: Arc<Totals>,
    shops: Arc<Totals>,
}

impl Counts {
    fn of(&self, event: Event) -> u64 {
        self.workers.of(event) + self.shops.of(event)
    }
}

impl Phase<'_> {
    /// Runs the phase. Fails if anything is wrong in the end.
    pub fn run(&self, name: &str, with_faults: bool, cluster: &mut Option<Cluster>) -> Result<()> {
        let (holds, rate, longest) = self.settings.scaled();
        let placing = Duration::from_secs_f64(holds as f64 / rate as f64);
        let longest = Duration::from_secs(longest);
        let limit = placing * 2 + longest + GRACE;
        let _tables = Tables::create(&self.database, self.settings)?;
        let mut session = Session::new(&self.database);
        let before = Load::now(&mut session, cluster.as_ref().and_then(Cluster::pid))?;
        let counts = Counts::default();
        let start_worker = |index| self.worker(index, with_faults, &counts.workers);
        let mut workers = Vec::new();
        for index in 0..self.setup.workers {
            workers.push(Some(start_worker(index)?));
        }
        let mut shops = Vec::new();
        for index in 0..SHOPS {
            shops.push(self.shop(index, with_faults, &counts.shops)?);
        }

        let mut chaos = if with_faults { Chaos::plan(placing * 2 / 3, LEASE) } else { Chaos::none() };
        let bar = ProgressBar::new(holds);
        bar.set_style(ProgressStyle::with_template("{prefix:15} {wide_bar} {pos}/{len} ended, {elapsed}")?);
        bar.set_prefix(name.to_owned());
        let started = Instant::now();
        let mut count_at = started;
        let mut ended = 0;
        let mut placed_after = None;
        // Claims that were recovered until the last fault.
        let mut recovered_before = None;
        while ended < holds || !chaos.is_over() {
            thread::sleep(Duration::from_millis(20));
            if self.interrupted.load(Ordering::Relaxed) {
                bar.abandon();
                return Err("interrupted".into());
            }
            if let Some(cluster) = cluster {
                cluster.check()?;
            }
            chaos.strike(started.elapsed(), &mut workers, start_worker, cluster.as_mut(), &mut session)?;
            for process in workers.iter_mut().flatten().chain(&mut shops) {
                if let Some(status) = process.ended()?
                    && !status.success()
                {
                    bar.abandon();
                    return Err(format!("{name}: a process ended by itself, with {status}").into());
                }
            }
            if recovered_before.is_none() && chaos.is_over() {
                recovered_before = Some(counts.of(Event::Recovered));
            }
            if placed_after.is_none() && counts.of(Event::Placed) >= holds {
                placed_after = Some(started.elapsed());
            }
            if Instant::now() >= count_at {
                count_at += Duration::from_millis(500);
                ended = session.query(ENDED, &[])?[0].get::<_, i64>(0) as u64;
                bar.set_position(ended);
            }
            if started.elapsed() > limit {
                bar.abandon();
                let placed = counts.of(Event::Placed);
                let wrong = audit::check(&mut session, holds)?.join("; ");
                return Err(format!("{name}: not over after {limit:.0?}; {placed} holds placed; {wrong}").into());
            }
        }
        let took = started.elapsed();
        bar.finish_and_clear();
        for shop in shops {
            if !shop.wait()?.success() {
                return Err("a shop failed".into());
            }
        }
        let spent = Load::now(&mut session, cluster.as_ref().and_then(Cluster::pid))?.since(&before);
        for worker in workers.into_iter().flatten() {
            if !worker.finish()?.success() {
                return Err("a worker failed".into());
            }
        }

        let placing = placed_after.unwrap_or(took);
        let rate = holds as f64 / placing.as_secs_f64();
        println!("\n{name}: {holds} holds, placed in {placing:.1?} ({rate:.0} a second), all ended after {took:.1?}");
        let mut wrong = audit::check(&mut session, holds)?;
        wrong.extend(counts.shops.ledger.check(&mut session, holds)?);
        let recovered = counts.of(Event::Recovered) - recovered_before.unwrap_or(0);
        let seen = Seen { recovered, ..self.report(&mut session, &counts, &chaos)? };
        if with_faults {
            self.report_faults(&mut session, &seen)?;
            wrong.extend(verdict::with_faults(&seen, &self.setup));
        } else {
            report_load(&spent, counts.workers.of(Event::Statement));
            let leases = audit::living_leases(&mut session)?;
            if leases > 0 {
                wrong.push(format!("leases that were not given back: {leases}"));
            }
            wrong.extend(verdict::without_faults(&seen, &self.setup));
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("{name}: {}", wrong.join("; ")).into()) }
    }

    /// Prints how late the releases were. Returns all that the phase has shown.
    fn report(&self, session: &mut Session, counts: &Counts, chaos: &Chaos) -> Result<Seen> {
        let all = audit::lateness(session, None)?;
        println!("  all            {all}");
        let stuck = counts.of(Event::NotRenewed);
        if stuck > 0 {
            println!(
                "  stuck          {stuck} times a worker had no connection to release, and did not renew its lease"
            );
        }
        Ok(Seen {
            paid: audit::paid(session)? as u64,
            released: all.count as u64,
            p50: all.p50,
            most: all.most,
            notified: counts.of(Event::Notified),
            wrong_clocks: counts.of(Event::WrongClock),
            clocks_set: counts.of(Event::ClockSet),
            early: counts.of(Event::Early),
            refused: counts.of(Event::Refused),
            leases_lost: counts.of(Event::LeaseLost),
            recovered: 0,
            takeovers: audit::takeovers(session)?.leases as u64,
            repeated: counts.of(Event::Repeated),
            answers_lost: counts.of(Event::AnswerLost),
            kills: chaos.kills,
            stops: chaos.stops,
            revocations: chaos.revocations,
            cuts: chaos.cuts,
            crashes: chaos.crashes,
        })
    }

    fn report_faults(&self, session: &mut Session, seen: &Seen) -> Result<()> {
        if self.setup.poll.is_none() {
            println!("  not taken over {}", audit::lateness(session, Some(false))?);
            println!("  taken over     {}", audit::lateness(session, Some(true))?);
            println!("  takeovers      {}", audit::takeovers(session)?);
        }
        println!(
            "  faults         {} workers killed, {} stopped beyond the lease, {} leases revoked, {} connections cut, \
             {} answers lost, {} crashes of the database",
            seen.kills, seen.stops, seen.revocations, seen.cuts, seen.answers_lost, seen.crashes
        );
        println!(
            "  seen           {} statements repeated, {} leases lost, {} claims without an answer found after the last \
             fault; releases refused: {} too early, {} after the lease",
            seen.repeated, seen.leases_lost, seen.recovered, seen.early, seen.refused
        );
        if !self.setup.has_own_cluster {
            println!("  skipped        the crash of the database: the run has not started this server");
        }
        Ok(())
    }

    fn worker(&self, index: usize, with_faults: bool, totals: &Arc<Totals>) -> Result<Process> {
        let mut arguments = vec![
            format!("--name={}", worker_name(index)),
            format!("--horizon={}", self.settings.horizon),
            format!("--lease={}", LEASE.as_millis()),
            format!("--skew={}", SKEWS[index % SKEWS.len()]),
        ];
        arguments.extend(self.settings.poll.map(|millis| format!("--poll={millis}")));
        if with_faults {
            arguments.push(format!("--lose-one-in={}", self.settings.lose_one_in().0));
            arguments.push(format!("--early={EARLY}"));
        }
        Process::start(&self.url, "worker", &arguments, totals)
    }

    fn shop(&self, index: u64, with_faults: bool, totals: &Arc<Totals>) -> Result<Process> {
        let (holds, rate, longest) = self.settings.scaled();
        let share = holds / SHOPS + u64::from(index < holds % SHOPS);
        let mut arguments = vec![
            format!("--first={}", index * 1_000_000_000),
            format!("--holds={share}"),
            format!("--rate={}", rate.div_ceil(SHOPS)),
            format!("--longest={longest}"),
            // Workers that poll do not listen to the shops.
            format!("--horizon={}", if self.settings.poll.is_some() { 0 } else { self.settings.horizon }),
        ];
        if with_faults {
            arguments.push(format!("--lose-one-in={}", self.settings.lose_one_in().1));
        }
        Process::start(&self.url, "shop", &arguments, totals)
    }
}

fn report_load(spent: &Spent, statements: u64) {
    let Spent { seconds, transactions, processor, workers } = *spent;
    let all = transactions.map_or("an unknown number of".to_owned(), |all| format!("{:.0}", all as f64 / seconds));
    let workers_own = statements as f64 / seconds;
    println!("  database       {all} transactions a second, {workers_own:.1} of them for the workers");
    if let (Some(processor), Some(workers)) = (processor, workers) {
        println!(
            "  processor      {:.1} % of a core for the database, {:.2} % for the workers' statements",
            100.0 * processor / seconds,
            100.0 * workers / seconds
        );
    }
}
