//! The list of workloads, with their descriptions and targets.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    W1,
    W1c,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    W8,
    W9,
    W10,
    W11,
    Wheel,
}

impl Workload {
    pub const ALL: [Self; 13] = [
        Self::W1,
        Self::W1c,
        Self::W2,
        Self::W3,
        Self::W4,
        Self::W5,
        Self::W6,
        Self::W7,
        Self::W8,
        Self::W9,
        Self::W10,
        Self::W11,
        Self::Wheel,
    ];

    /// Returns the name on the command line and in the record.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no workload is hidden").get_name().to_owned()
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::W1 => "W1 churn",
            Self::W1c => "W1c churn with one delay",
            Self::W2 => "W2 burst",
            Self::W3 => "W3 storm",
            Self::W4 => "W4 re-arm",
            Self::W5 => "W5 idle",
            Self::W6 => "W6 open loop",
            Self::W7 => "W7 growth",
            Self::W8 => "W8 slow callbacks",
            Self::W9 => "W9 cores asleep",
            Self::W10 => "W10 on time",
            Self::W11 => "W11 shared queue",
            Self::Wheel => "The wheel alone",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::W1 => {
                "Each thread keeps a ring of 256 live timers of 5 to 30 s. A pair schedules one timer and cancels the \
                 oldest. Other timers stand for 30 minutes meanwhile. The control makes two compare-exchanges on a \
                 line of its own, reads the clock, and makes and drops a closure with an `Arc`. It shares no memory."
            }
            Self::W1c => "The same with one constant delay of 30 s, as in servers.",
            Self::W2 => {
                "Two threads schedule timers at 30 ± 1 minutes at once, then cancel all of them in random order. Bytes \
                 are resident memory, without the memory that the caller keeps. Kept is the share of the growth that \
                 is still resident 2 s later."
            }
            Self::W3 => "Timers fire, each with a callback that notes the time.",
            Self::W4 => {
                "Each thread resets random ones of its own timers to 60 s from now. The control reads the clock and \
                 makes a compare-exchange on a random line of its own."
            }
            Self::W5 => {
                "The work of the timer's threads over 5 s in which no timer is due. Before the case with growth, 4 of \
                 100 timers block for 200 ms, so that a pool of fewer than 5 threads may have to grow. The 5 s begin \
                 12 s later, when threads that end after 10 idle seconds have ended. `threads more` is the number of \
                 threads of the process then, less the number at its start."
            }
            Self::W6 => {
                "Two threads schedule timers at a fixed rate, with delays log-uniform from 1 ms to 10 s, and cancel 90 \
                 % of them at half their delay. `none` schedules nothing: it is the benchmark's own share. The load's \
                 own threads only sleep between calls. How late they wake shows how late the machine wakes any thread."
            }
            Self::W7 => "Pairs as in W1 on one thread, all delays uniform from 1 s to 1 hour.",
            Self::W8 => {
                "All timers are due in one tick. A few callbacks, at equal distances, keep their thread for 200 ms: \
                 they sleep, or use the CPU. Each contender has the threads that its users get by default: one that \
                 calls back itself, or one per core, and those that its pool adds when callbacks block. Lateness is \
                 that of the other callbacks; the maximum is the last of them."
            }
            Self::W9 => {
                "64 threads arm timers of 0.2 to 2 s in bursts, every 250 ms for 6 s, and sleep in between. CPU is that \
                 of the whole process. `none` arms nothing: it is the benchmark's own share."
            }
            Self::W10 => {
                "One thread wakes every 5 ms for 4 s and schedules timers of 2 to 60 ms at a fixed rate. All of them fire. \
                 CPU is that of the whole process, the thread that schedules included."
            }
            Self::W11 => {
                "Each thread keeps a ring of 256 values of 5 to 30 s in one queue. A pair pushes one value and removes \
                 the oldest. One consumer pops. Another thread pushes ten values every 2 ms, each due after 20 ms: the \
                 lateness is that of these values. A further thread schedules a callback of the same service every \
                 millisecond, due after 5 ms. Pairs are measured for 1.25 s, then single calls for as long. A call of \
                 the control reads the clock eight times after every fourth pair. How late the thread of the callbacks \
                 woke from its sleep is a control, too. The CPU is that of the whole process, and memory is resident. \
                 At the end the queue is empty. A value or a callback that is over 10 s late is lost."
            }
            Self::Wheel => {
                "One thread, with 10^5 values that wait up to two minutes of milliseconds; `advance` takes all of them \
                 out, tick by tick. Two are left out there: `nexus-timer` looks at all its values at every tick, which \
                 takes minutes here, and `bitwheel` expires values that are far away late, by up to a 64th."
            }
        }
    }

    pub fn target(self) -> &'static str {
        match self {
            Self::W1 => {
                "with 10^6 standing, ≥ 4x tokio and ≥ 8x heap on 1 thread, ≥ 10x tokio and ≥ 14x heap on 2 threads; \
                 the ratio of 2 threads to 1 at most 1.15x the control's"
            }
            Self::W1c => "no work of the timer's threads per pair in the steady state",
            Self::W2 => {
                "≤ 64 bytes a timer; schedule and cancel ≥ 4x faster than heap; at most a tenth of the growth kept"
            }
            Self::W3 => {
                "none early; over 1 s p50 ≤ 1 ms and p99 ≤ 1.5 ms, with a tick of 100 µs p99 ≤ 0.3 ms; in one tick \
                 ≥ 12x heap"
            }
            Self::W4 => "≥ 10x heap, ≥ 3x tokio, ≤ 1.5x the control",
            Self::W5 => "no context switch",
            Self::W6 => "p99 ≤ 1.5 ms late at 100k/s; CPU ≤ 1/4 of heap and ≤ 1/3 of tokio",
            Self::W7 => "with 10^7 standing at most 1.3x the time with 10^3",
            Self::W8 => "the last of the others ≤ 5 ms late; beside 100 that sleep, ≤ 20 ms",
            Self::W9 => "CPU with 64 shards ≤ 1.25x of that with 2; at 10k and 100k/s ≤ tokio",
            Self::W10 => {
                "at 500/s p50 ≤ 0.06 ms inline and ≤ 0.08 ms in a pool; at 10k/s no later than with a tick of 1 ms, for its CPU"
            }
            Self::W11 => {
                "the longest push and remove ≤ 1 ms beside the control's; with a free core no callback over 20 ms late; \
                 memory follows what is in the queue"
            }
            Self::Wheel => "insert and remove ≤ 20 ns each, ≥ 3x `BinaryHeap`, level with `nexus-timer`",
        }
    }
}
