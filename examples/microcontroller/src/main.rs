//! Software timers on a microcontroller: a `Wheel` on a Cortex-M4, advanced by its tick interrupt.
//!
//! ```text
//! cd examples/microcontroller && cargo run --release
//! ```
//!
//! QEMU emulates a board, so no hardware is needed: `qemu-system-arm` must be installed. On another board
//! only `memory.x`, `CYCLES_A_TICK` and the output differ.
//!
//! The interrupt counts a tick, and does nothing else. The main loop owns the wheel, so the wheel needs no lock, and no
//! timer handler runs in the interrupt. After each tick the loop advances the wheel, handles the timers that have
//! expired, and sleeps until the next interrupt.
//!
//! A LED blinks, a sensor is sampled, and a watchdog expires unless a sample resets it. The sensor fails after
//! `SAMPLES` samples. The program checks that no timer is early, and that each has expired as often as it should.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use corewheel::Wheel;
use cortex_m::Peripherals;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::{asm, interrupt};
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::debug::{self, EXIT_SUCCESS};
use cortex_m_semihosting::hprintln;
use embedded_alloc::LlffHeap;
use panic_semihosting as _;

/// The core of the board runs at 25 MHz, so that a tick is 1 ms.
const CYCLES_A_TICK: u32 = 25_000;
const HEAP_BYTES: usize = 16 * 1024;

/// Ticks between two changes of the LED.
const BLINK: u64 = 50;
/// Ticks between two samples.
const SAMPLE: u64 = 20;
/// Ticks without a sample after which the watchdog expires.
const PATIENCE: u64 = 100;
/// Number of samples before the sensor fails.
const SAMPLES: u64 = 40;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// Number of ticks, which wraps around. This core has no atomic of 64 bits.
static TICKS: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    // Relaxed: the counter publishes nothing but itself.
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// Extends `TICKS` to the 64 bits of a wheel. Must be called at least once in 2^32 ticks, which are 49 days.
struct Clock {
    now: u64,
}

impl Clock {
    fn read(&mut self) -> u64 {
        let passed = TICKS.load(Ordering::Relaxed).wrapping_sub(self.now as u32);
        self.now += u64::from(passed);
        self.now
    }
}

#[derive(Clone, Copy)]
enum Event {
    Blink,
    Sample,
    Watchdog,
}

#[entry]
fn main() -> ! {
    // SAFETY: we own the only heap, because `HEAP` is private and `main` runs once.
    unsafe {
        embedded_alloc::init!(HEAP, HEAP_BYTES);
    }
    let mut peripherals = Peripherals::take().expect("nothing else takes them");
    peripherals.SYST.set_clock_source(SystClkSource::Core);
    peripherals.SYST.set_reload(CYCLES_A_TICK - 1);
    peripherals.SYST.clear_current();
    peripherals.SYST.enable_counter();
    peripherals.SYST.enable_interrupt();

    let mut clock = Clock { now: 0 };
    // 16 slots a level: `with_levels` says how much memory a slot takes, from the first timer that waits in its level.
    let mut wheel = Wheel::with_levels(0, &[16]).expect("16 slots are a valid level");
    wheel.insert(BLINK, Event::Blink);
    wheel.insert(SAMPLE, Event::Sample);
    let watchdog = wheel.insert(PATIENCE, Event::Watchdog);

    let (mut blinks, mut samples) = (0, 0);
    let mut expired = Vec::new();
    let end = loop {
        let now = clock.read();
        wheel.advance(now, |deadline, event| expired.push((deadline, event)));
        let mut barked = None;
        for (deadline, event) in expired.drain(..) {
            assert!(deadline <= now, "early: {deadline} at {now}");
            match event {
                // From the deadline, not from now: a late loop does not shift the next one.
                Event::Blink => {
                    blinks += 1;
                    wheel.insert(deadline + BLINK, event);
                }
                Event::Sample => {
                    samples += 1;
                    assert!(
                        wheel.reset(watchdog, deadline + PATIENCE),
                        "the watchdog expired before the sensor failed"
                    );
                    if samples < SAMPLES {
                        wheel.insert(deadline + SAMPLE, event);
                    }
                }
                Event::Watchdog => barked = Some(deadline),
            }
        }
        if let Some(deadline) = barked {
            break deadline;
        }
        // While interrupts are masked, no tick comes between the check and the sleep. A masked interrupt ends the sleep,
        // too, and is handled afterwards.
        interrupt::free(|_| {
            if clock.read() == now {
                asm::wfi();
            }
        });
    };

    assert_eq!(end, SAMPLES * SAMPLE + PATIENCE);
    assert_eq!(samples, SAMPLES);
    assert!((end / BLINK - 1..=clock.read() / BLINK).contains(&blinks), "{blinks} blinks");
    hprintln!("tick {}: the watchdog expired after {} samples and {} blinks", end, samples, blinks);
    hprintln!("{} bytes of heap are in use", HEAP.used());
    debug::exit(EXIT_SUCCESS);
    loop {
        asm::wfi();
    }
}
