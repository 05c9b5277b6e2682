//! The list of contenders, each with its workloads.

use corewheel::Wheel;

use crate::case::Case;
use crate::contender::async_io::AsyncIo;
use crate::contender::corewheel::CoreWheel;
use crate::contender::pingora::FastTimeout;
use crate::contender::sleep::CoreSleep;
use crate::contender::tokio::TokioSleep;
use crate::contender::{self, Contender, FromContender, check};
use crate::extra::after::AfterQueue;
use crate::extra::beside::Beside;
use crate::extra::boxed::BoxedSleep;
use crate::extra::delay_queue::{CoreQueue, TokioUtilQueue};
use crate::extra::heap_queue::HeapQueue;
use crate::extra::noop::Noop;
use crate::extra::setting::{Coarse, Custom, Fine, Inline, Prompt, Rayon, Shards};
use crate::extra::task::TokioTask;
use crate::queue::Queue;
use crate::queue::bitwheel::Bits;
use crate::queue::heap::Heap;
use crate::queue::nexus::Nexus;
use crate::workload::{Scale, Workload, churn, rearm, shared_queue, wheel};

/// A contender in the list.
pub struct ListedContender {
    pub name: &'static str,
    /// Panics if the contender does not do what the benchmark measures.
    pub check: fn(),
    /// The contender's cases of a workload.
    cases: fn(Workload, Scale) -> Vec<Case>,
    /// Whether the contender takes part in a workload.
    takes_part: fn(Workload) -> bool,
    /// The contender calls wakers, not closures.
    wakes: bool,
}

impl FromContender for ListedContender {
    fn from_contender<C: Contender>() -> Self {
        let takes_part = |workload| match workload {
            Workload::W9 => C::NAME == <CoreWheel>::NAME,
            Workload::W10 => matches!(C::NAME, "corewheel" | "corewheel-sleep" | "heap" | "tokio" | "async-io"),
            _ => !matches!(workload, Workload::W11 | Workload::Wheel),
        };
        Self {
            name: C::NAME,
            check: check::check::<C>,
            cases: Workload::cases::<C>,
            takes_part,
            wakes: WAKERS.contains(&C::NAME),
        }
    }
}

impl ListedContender {
    fn queue<Q: Queue + 'static>() -> Self {
        let takes_part = |workload| workload == Workload::Wheel;
        Self { name: Q::NAME, check: || {}, cases: |_, scale| wheel::cases::<Q>(scale), takes_part, wakes: false }
    }

    /// The queue of the contender with this name, which is shared in W11.
    fn shared<C: Beside>(name: &'static str) -> Self {
        let takes_part = |workload| workload == Workload::W11;
        let cases = |_, scale| shared_queue::cases::<C>(scale);
        Self { name, check: check::check::<C>, cases, takes_part, wakes: false }
    }

    fn control(cases: fn(Workload, Scale) -> Vec<Case>, takes_part: fn(Workload) -> bool) -> Self {
        Self { name: "control", check: || {}, cases, takes_part, wakes: false }
    }

    fn only(self, takes_part: fn(Workload) -> bool) -> Self {
        Self { takes_part, ..self }
    }

    /// Returns the contender's cases of a workload; none if it does not take part.
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

/// Returns all contenders, in the order of the report.
pub fn all() -> Vec<ListedContender> {
    let fires = |workload| matches!(workload, Workload::W3 | Workload::W6 | Workload::W8);
    let queues = |workload| matches!(workload, Workload::W1 | Workload::W2 | Workload::W3 | Workload::W4);
    let asleep = |workload| workload == Workload::W9;
    let mut all: Vec<ListedContender> = contender::all();
    all.extend([
        ListedContender::from_contender::<CoreWheel<Fine>>().only(|workload| workload == Workload::W3),
        ListedContender::from_contender::<CoreWheel<Inline>>().only(|workload| {
            matches!(workload, Workload::W3 | Workload::W6 | Workload::W8 | Workload::W9 | Workload::W10)
        }),
        ListedContender::from_contender::<CoreWheel<Coarse>>().only(|workload| workload == Workload::W10),
        ListedContender::from_contender::<CoreWheel<Prompt>>().only(|workload| workload == Workload::W10),
        ListedContender::from_contender::<CoreWheel<Rayon>>().only(fires),
        ListedContender::from_contender::<CoreWheel<Custom>>().only(fires),
        ListedContender::from_contender::<CoreWheel<Shards<1, false>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<2, false>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<16, false>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<64, false>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<1, true>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<2, true>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<16, true>>>().only(asleep),
        ListedContender::from_contender::<CoreWheel<Shards<64, true>>>().only(asleep),
        ListedContender::from_contender::<BoxedSleep>()
            .only(|workload| matches!(workload, Workload::W1 | Workload::W4)),
        ListedContender::from_contender::<TokioSleep<false, true>>()
            .only(|workload| matches!(workload, Workload::W1 | Workload::W4 | Workload::W9)),
        ListedContender::from_contender::<TokioSleep<false, true, true>>().only(|workload| workload == Workload::W4),
        ListedContender::from_contender::<TokioTask>().only(|workload| matches!(workload, Workload::W8 | Workload::W9)),
        ListedContender::from_contender::<TokioTask<true>>().only(|workload| workload == Workload::W8),
        ListedContender::from_contender::<CoreQueue>().only(queues),
        ListedContender::from_contender::<TokioUtilQueue>().only(queues),
        ListedContender::from_contender::<HeapQueue>().only(queues),
        ListedContender::shared::<CoreQueue>("corewheel"),
        ListedContender::shared::<HeapQueue>("heap"),
        ListedContender::shared::<TokioUtilQueue>(TokioUtilQueue::NAME),
        ListedContender::shared::<AfterQueue>(AfterQueue::NAME),
        ListedContender { check: || {}, ..ListedContender::from_contender::<Noop>() }
            .only(|workload| matches!(workload, Workload::W6 | Workload::W9)),
        ListedContender::control(churn::control, |workload| matches!(workload, Workload::W1 | Workload::W1c)),
        ListedContender::control(|_, scale| rearm::control(scale), |workload| workload == Workload::W4),
        ListedContender::queue::<Wheel<u64>>(),
        ListedContender::queue::<Nexus>(),
        ListedContender::queue::<Bits>(),
        ListedContender::queue::<Heap>(),
    ]);
    all
}
