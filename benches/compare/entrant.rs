//! Who takes part in what.

use corewheel::Wheel;

use crate::case::Case;
use crate::contender::async_io::AsyncIo;
use crate::contender::corewheel::CoreWheel;
use crate::contender::sleep::CoreSleep;
use crate::contender::tokio::TokioSleep;
use crate::contender::{self, Contender, check};
use crate::extra::nothing::Nothing;
use crate::extra::task::TokioTask;
use crate::queue::Queue;
use crate::queue::heap::Heap;
use crate::queue::nexus::Nexus;
use crate::workload::{Scale, Workload, churn, rearm, wheel};

/// A contender on the list.
pub struct Entrant {
    pub name: &'static str,
    /// Panics if it does not do what is going to be measured.
    pub check: fn(),
    /// What it does in a workload.
    pub cases: fn(Workload, Scale) -> Vec<Case>,
    /// The workloads that it takes part in.
    takes_part: fn(Workload) -> bool,
}

impl contender::Entrant for Entrant {
    fn of<C: Contender>() -> Self {
        let takes_part = |workload| workload != Workload::Wheel;
        Self { name: C::NAME, check: check::check::<C>, cases: Workload::cases::<C>, takes_part }
    }
}

impl Entrant {
    fn queue<Q: Queue + 'static>() -> Self {
        let cases = |_, scale| wheel::cases::<Q>(scale);
        Self { name: Q::NAME, check: || {}, cases, takes_part: |workload| workload == Workload::Wheel }
    }

    fn control(cases: fn(Workload, Scale) -> Vec<Case>, takes_part: fn(Workload) -> bool) -> Self {
        Self { name: "control", check: || {}, cases, takes_part }
    }

    fn only(self, takes_part: fn(Workload) -> bool) -> Self {
        Self { takes_part, ..self }
    }

    pub fn takes_part(&self, workload: Workload) -> bool {
        (self.takes_part)(workload)
    }
}

/// Those who wake tasks where others call closures.
const WAKERS: [&str; 4] =
    [CoreSleep::NAME, <TokioSleep as Contender>::NAME, <TokioSleep<true> as Contender>::NAME, AsyncIo::NAME];

/// All of them, in the order of the report.
pub fn all() -> Vec<Entrant> {
    use contender::Entrant as _;
    let mut all: Vec<Entrant> = contender::all();
    for entrant in &mut all {
        // A callback that takes its time has no place in a waker.
        if WAKERS.contains(&entrant.name) {
            entrant.takes_part = |workload| !matches!(workload, Workload::W8 | Workload::Wheel);
        }
    }
    all.extend([
        Entrant::of::<CoreWheel<100>>().only(|workload| workload == Workload::W3),
        Entrant::of::<TokioTask>().only(|workload| workload == Workload::W8),
        Entrant { check: || {}, ..Entrant::of::<Nothing>() }.only(|workload| workload == Workload::W6),
        Entrant::control(churn::control, |workload| matches!(workload, Workload::W1 | Workload::W1c)),
        Entrant::control(|_, scale| rearm::control(scale), |workload| workload == Workload::W4),
        Entrant::queue::<Wheel<u64>>(),
        Entrant::queue::<Nexus>(),
        Entrant::queue::<Heap>(),
    ]);
    all
}
