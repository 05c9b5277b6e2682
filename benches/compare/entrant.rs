//! Who takes part in what.

use corewheel::Wheel;

use crate::case::Case;
use crate::contender::async_io::AsyncIo;
use crate::contender::corewheel::CoreWheel;
use crate::contender::pingora::FastTimeout;
use crate::contender::sleep::CoreSleep;
use crate::contender::tokio::TokioSleep;
use crate::contender::{self, Contender, check};
use crate::extra::nothing::Nothing;
use crate::extra::setting::{Custom, Fine, Inline, Rayon};
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
    cases: fn(Workload, Scale) -> Vec<Case>,
    /// The workloads that it takes part in.
    takes_part: fn(Workload) -> bool,
    /// It wakes tasks where others call closures.
    wakes: bool,
}

impl contender::Entrant for Entrant {
    fn of<C: Contender>() -> Self {
        let takes_part = |workload| workload != Workload::Wheel;
        Self {
            name: C::NAME,
            check: check::check::<C>,
            cases: Workload::cases::<C>,
            takes_part,
            wakes: WAKERS.contains(&C::NAME),
        }
    }
}

impl Entrant {
    fn queue<Q: Queue + 'static>() -> Self {
        let takes_part = |workload| workload == Workload::Wheel;
        Self { name: Q::NAME, check: || {}, cases: |_, scale| wheel::cases::<Q>(scale), takes_part, wakes: false }
    }

    fn control(cases: fn(Workload, Scale) -> Vec<Case>, takes_part: fn(Workload) -> bool) -> Self {
        Self { name: "control", check: || {}, cases, takes_part, wakes: false }
    }

    fn only(self, takes_part: fn(Workload) -> bool) -> Self {
        Self { takes_part, ..self }
    }

    /// What it does in a workload, if it takes part.
    pub fn cases(&self, workload: Workload, scale: Scale) -> Vec<Case> {
        let mut cases = if (self.takes_part)(workload) { (self.cases)(workload, scale) } else { Vec::new() };
        cases.retain(|case| !(case.blocks && self.wakes));
        cases
    }
}

const WAKERS: [&str; 5] = [
    CoreSleep::NAME,
    <TokioSleep as Contender>::NAME,
    <TokioSleep<true> as Contender>::NAME,
    AsyncIo::NAME,
    FastTimeout::NAME,
];

/// All of them, in the order of the report.
pub fn all() -> Vec<Entrant> {
    use contender::Entrant as _;
    let fires = |workload| matches!(workload, Workload::W3 | Workload::W6 | Workload::W8);
    let mut all: Vec<Entrant> = contender::all();
    all.extend([
        Entrant::of::<CoreWheel<Fine>>().only(|workload| workload == Workload::W3),
        Entrant::of::<CoreWheel<Inline>>().only(fires),
        Entrant::of::<CoreWheel<Rayon>>().only(fires),
        Entrant::of::<CoreWheel<Custom>>().only(fires),
        Entrant::of::<TokioTask>().only(|workload| workload == Workload::W8),
        Entrant::of::<TokioTask<true>>().only(|workload| workload == Workload::W8),
        Entrant { check: || {}, ..Entrant::of::<Nothing>() }.only(|workload| workload == Workload::W6),
        Entrant::control(churn::control, |workload| matches!(workload, Workload::W1 | Workload::W1c)),
        Entrant::control(|_, scale| rearm::control(scale), |workload| workload == Workload::W4),
        Entrant::queue::<Wheel<u64>>(),
        Entrant::queue::<Nexus>(),
        Entrant::queue::<Heap>(),
    ]);
    all
}
