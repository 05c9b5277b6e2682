//! The guide: how to choose, embed and tune the crate.
//!
//! Each module is a page of `docs`. Programs whose names begin with `examples/` are in the repository.

/// Where the links of the pages lead in this documentation. The first definition of a link counts, so these come before
/// the pages' own, which are relative to `docs`.
macro_rules! links {
    () => {
        concat!(
            "[../choosing.md#a-loop-of-your-own]: crate::guide::choosing#a-loop-of-your-own
[../tuning.md#inline-callbacks]: crate::guide::tuning#inline-callbacks
[../tuning.md]: crate::guide::tuning
[axum.md#header-and-keep-alive-timeouts]: crate::guide::axum#header-and-keep-alive-timeouts
[choosing.md#a-loop-of-your-own]: crate::guide::choosing#a-loop-of-your-own
[choosing.md]: crate::guide::choosing
[clocks.md#what-was-measured]: crate::guide::clocks#what-was-measured
[clocks.md#which-clock-stands-still]: crate::guide::clocks#which-clock-stands-still
[clocks.md]: crate::guide::clocks
[embedding/axum.md]: crate::guide::axum
[embedding/game-loop.md]: crate::guide::game_loop
[embedding/hyper.md]: crate::guide::hyper
[embedding/io-uring.md]: crate::guide::io_uring
[embedding/mio.md]: crate::guide::mio
[embedding/no-std.md]: crate::guide::no_std
[embedding/quinn.md]: crate::guide::quinn
[embedding/recipes.md#libraries-that-cannot-take-a-timer]: crate::guide::recipes#libraries-that-cannot-take-a-timer
[embedding/recipes.md]: crate::guide::recipes
[embedding/threads.md#-with-any-closure]: crate::guide::threads#-with-any-closure
[embedding/threads.md]: crate::guide::threads
[embedding/tokio-tests.md]: crate::guide::tokio_tests
[embedding/tokio.md]: crate::guide::tokio
[embedding/tonic.md]: crate::guide::tonic
[game-loop.md]: crate::guide::game_loop
[hyper.md]: crate::guide::hyper
[io-uring.md]: crate::guide::io_uring
[mio.md]: crate::guide::mio
[observability.md#what-the-statistics-mean]: crate::guide::observability#what-the-statistics-mean
[promises.md#a-shutdown-with-a-limit]: crate::guide::promises#a-shutdown-with-a-limit
[promises.md#far-future]: crate::guide::promises#far-future
[promises.md#memory-comes-back]: crate::guide::promises#memory-comes-back
[promises.md#tickless]: crate::guide::promises#tickless
[promises.md#what-is-not-promised]: crate::guide::promises#what-is-not-promised
[tokio-tests.md]: crate::guide::tokio_tests
[tokio.md#a-runtime-that-drives-its-own-timers]: crate::guide::tokio#a-runtime-that-drives-its-own-timers
[tonic.md]: crate::guide::tonic
[tuning.md#callbacks-that-block]: crate::guide::tuning#callbacks-that-block
[tuning.md#executor]: crate::guide::tuning#executor
[tuning.md#how-many-threads-are-awake]: crate::guide::tuning#how-many-threads-are-awake
[tuning.md#inline-callbacks]: crate::guide::tuning#inline-callbacks
[tuning.md#on-the-programs-own-rayon-pool]: crate::guide::tuning#on-the-programs-own-rayon-pool
[tuning.md#on-windows-and-macos]: crate::guide::tuning#on-windows-and-macos
[tuning.md#tick]: crate::guide::tuning#tick
",
            in_the_source!(
                "durable.md"
                "internals/checks.md"
                "internals/protocols.md#shutdown"
                "internals/scaling.md"
                "observability/dashboard.json"
            ),
            in_the_summary!(
                "benchmarks/README.md"
                "benchmarks/compare.md#1-thread-106-standing"
                "benchmarks/compare.md#1-thread-none-standing"
                "benchmarks/compare.md#100k-a-second"
                "benchmarks/compare.md#105-timers-1-thread"
                "benchmarks/compare.md#105-timers-2-threads"
                "benchmarks/compare.md#106-standing"
                "benchmarks/compare.md#106-timers"
                "benchmarks/compare.md#106-timers-in-one-tick"
                "benchmarks/compare.md#106-timers-over-1s"
                "benchmarks/compare.md#2-threads-106-standing"
                "benchmarks/compare.md#2-threads-none-standing"
                "benchmarks/compare.md#4-of-1000-sleep-200ms"
                "benchmarks/compare.md#the-wheel-alone"
                "benchmarks/compare.md#w6-open-loop"
                "benchmarks/timeout-cost.md"
            )
        )
    };
}

/// Links to pages that are not modules lead to the source on docs.rs.
macro_rules! in_the_source {
    ($($page:literal)*) => {
        concat!($("[", $page, "]: https://docs.rs/crate/corewheel/latest/source/docs/", $page, "\n"),*)
    };
}

/// The package has only the summary of the benchmarks.
macro_rules! in_the_summary {
    ($($page:literal)*) => {
        concat!($(
            "[", $page, "]: https://docs.rs/crate/corewheel/latest/source/docs/benchmarks/README.md\n"
        ),*)
    };
}

macro_rules! pages {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = links!()]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

// The programs of these pages run as tests.
#[cfg(feature = "std")]
pages! {
    choosing = "choosing.md";
    tuning = "tuning.md";
    clocks = "clocks.md";
    faq = "faq.md";
    migration = "migration.md";
    promises = "promises.md";
    delay_queue = "embedding/delay-queue.md";
    game_loop = "embedding/game-loop.md";
    threads = "embedding/threads.md";
}
pages! {
    no_std = "embedding/no-std.md";
}
// Those of the others need more libraries: `tests/adapters` and `tests/recipes` run them.
#[cfg(not(doctest))]
pages! {
    axum = "embedding/axum.md";
    hyper = "embedding/hyper.md";
    io_uring = "embedding/io-uring.md";
    mio = "embedding/mio.md";
    observability = "observability.md";
    quinn = "embedding/quinn.md";
    recipes = "embedding/recipes.md";
    tokio = "embedding/tokio.md";
    tokio_tests = "embedding/tokio-tests.md";
    tonic = "embedding/tonic.md";
}
