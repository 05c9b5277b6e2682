//! The shop: a burst of orders that hold stock, the payments, and the stock at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use corewheel::rayon::prelude::*;
use fastrand::Rng;

use crate::holds::Holds;
use crate::memory::resident_bytes;

const ITEMS: usize = 1000;
/// Percentage of orders that are paid for.
const PAID: u8 = 97;
/// Number of parts of the burst, and its duration as a fraction of a hold's.
const BURSTS: usize = 10;
const BURST: f64 = 1.0 / 180.0;
/// Number of parts of the payments, which follow the burst, and their duration as a fraction of a hold's.
const PAYMENTS: u8 = 20;
const PAYING: f64 = 2.0 / 3.0;

/// The orders, each for one piece of an item.
pub struct Orders {
    hold: Duration,
    /// The part of the payments in which each order is paid for; `None` if it is not.
    paid_in: Vec<Option<u8>>,
}

impl Orders {
    pub fn new(count: usize, hold: Duration) -> Self {
        let mut rng = Rng::with_seed(1_000_000);
        let paid_in = (0..count).map(|_| (rng.u8(..100) < PAID).then(|| rng.u8(..PAYMENTS))).collect();
        Self { hold, paid_in }
    }

    fn paid(&self) -> usize {
        self.paid_in.iter().flatten().count()
    }
}

/// The free and the sold pieces of one item; all others are held.
#[derive(Default)]
struct Item {
    free: AtomicU32,
    sold: AtomicU32,
}

pub struct Shop<'a, H: Holds> {
    timer: H,
    orders: &'a Orders,
    holds: Vec<Option<H::Hold>>,
    stock: Arc<Vec<Item>>,
}

/// Counts of holds, and the cost of each in time and memory.
pub struct Figures {
    pub paid: u64,
    pub released: u64,
    /// Mean time to begin a hold.
    pub hold: Duration,
    /// Mean time to end a hold that is paid for.
    pub pay: Duration,
    /// Resident memory before the burst, after it, after the payments, and at the end.
    pub memory: [Option<u64>; 4],
}

impl<'a, H: Holds> Shop<'a, H> {
    /// Returns a shop with exactly one piece for each order.
    pub fn new(orders: &'a Orders, timer: H) -> Self {
        let count = orders.paid_in.len();
        let stock: Vec<_> = (0..ITEMS).map(|_| Item::default()).collect();
        (0..count).for_each(|order| _ = stock[order % ITEMS].free.fetch_add(1, Ordering::Relaxed));
        Self { timer, orders, holds: (0..count).map(|_| None).collect(), stock: Arc::new(stock) }
    }

    pub fn trade(mut self) -> Figures {
        let hold = self.orders.hold;
        let count = self.orders.paid_in.len();
        let paid = self.orders.paid();
        let opening = self.timer.now();
        let before = resident_bytes();

        let holding = self.take_orders(opening);
        assert_eq!((self.free(), self.timer.len()), (0, count), "every piece is held");
        let at_peak = resident_bytes();

        let paying = self.take_payments(self.timer.now());
        self.timer.wait_until(opening + hold - hold / 1000);
        assert_eq!(
            (self.free(), self.sold(), self.timer.len()),
            (0, paid, count - paid),
            "the holds that are not paid for are pending"
        );
        let when_paid = resident_bytes();

        self.timer.wait_until(opening + hold.mul_f64(1.0 + BURST) + Duration::from_secs(1));
        assert_eq!((self.free(), self.sold(), self.timer.len()), (count - paid, paid, 0), "the rest is free again");
        self.check_items();
        Figures {
            paid: paid as u64,
            released: (count - paid) as u64,
            hold: holding / count as u32,
            pay: paying / paid.max(1) as u32,
            memory: [before, at_peak, when_paid, resident_bytes()],
        }
    }

    /// Begins all holds. Returns the time of the work.
    fn take_orders(&mut self, opening: Instant) -> Duration {
        let (timer, stock, time) = (&self.timer, &self.stock, self.orders.hold);
        let mut took = Duration::ZERO;
        let part = self.holds.len().div_ceil(BURSTS);
        for (number, holds) in self.holds.chunks_mut(part).enumerate() {
            timer.wait_until(opening + time.mul_f64(BURST / BURSTS as f64 * number as f64));
            let start = Instant::now();
            holds.par_iter_mut().enumerate().for_each(|(order, hold)| {
                let item = (number * part + order) % ITEMS;
                stock[item].free.fetch_sub(1, Ordering::Relaxed);
                let stock = stock.clone();
                *hold = Some(timer.hold(time, move || _ = stock[item].free.fetch_add(1, Ordering::Relaxed)));
            });
            took += start.elapsed();
        }
        took
    }

    /// Confirms the holds that are paid for. Returns the time of the work.
    fn take_payments(&mut self, first: Instant) -> Duration {
        let (timer, stock, orders) = (&self.timer, &self.stock, self.orders);
        let mut took = Duration::ZERO;
        for part in 0..PAYMENTS {
            let start = Instant::now();
            self.holds.par_iter_mut().zip(&orders.paid_in).enumerate().for_each(|(order, (hold, &paid_in))| {
                if paid_in == Some(part) {
                    let hold = hold.take().expect("an order is paid for once");
                    assert!(timer.confirm(hold), "the hold of {order} was over too early");
                    stock[order % ITEMS].sold.fetch_add(1, Ordering::Relaxed);
                }
            });
            took += start.elapsed();
            timer.wait_until(first + orders.hold.mul_f64(PAYING / f64::from(PAYMENTS) * f64::from(part + 1)));
        }
        // No more payments come. The timer ends the remaining holds.
        self.holds.iter_mut().for_each(|hold| *hold = None);
        took
    }

    fn free(&self) -> usize {
        self.stock.iter().map(|item| item.free.load(Ordering::Relaxed) as usize).sum()
    }

    fn sold(&self) -> usize {
        self.stock.iter().map(|item| item.sold.load(Ordering::Relaxed) as usize).sum()
    }

    /// Checks that each item has sold exactly the pieces that were paid for.
    fn check_items(&self) {
        let mut sold = vec![0; ITEMS];
        let paid_in = self.orders.paid_in.iter().enumerate();
        paid_in.filter(|(_, paid_in)| paid_in.is_some()).for_each(|(order, _)| sold[order % ITEMS] += 1);
        for (item, stock) in self.stock.iter().enumerate() {
            let orders = (item..self.orders.paid_in.len()).step_by(ITEMS).len() as u32;
            let [in_stock, gone] = [&stock.free, &stock.sold].map(|count| count.load(Ordering::Relaxed));
            assert_eq!((gone, in_stock), (sold[item], orders - sold[item]), "item {item}");
        }
    }
}
