//! The guide: how to choose, embed and tune the crate.
//!
//! Each module is a page of `docs`. Programs whose names begin with `examples/` are in the repository.

/// Pages of the guide. The first definition of a link counts, so `links.md` comes before the pages' own definitions, which
/// are relative to `docs`. A page that is not in the package has its summary instead.
macro_rules! pages {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = include_str!("links.md")]
        #[doc = include_str!(concat!("../../docs/", $file))]
        pub mod $name {}
    )*};
}

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../../README.md")]
mod readme {}

// The programs of these pages run as tests.
#[cfg(feature = "std")]
pages! {
    choosing = "choosing.md";
    tuning = "tuning.md";
    faq = "faq.md";
    promises = "promises.md";
    delay_queue = "embedding/delay-queue.md";
    threads = "embedding/threads.md";
}
pages! {
    no_std = "embedding/no-std.md";
}
// Those of the others need more libraries: `tests/adapters` and `tests/recipes` run them.
#[cfg(not(doctest))]
pages! {
    clocks = "clocks.md";
    event_loops = "embedding/event-loops.md";
    migration = "migration.md";
    observability = "observability.md";
    quinn = "embedding/quinn.md";
    recipes = "embedding/recipes.md";
    servers = "embedding/servers.md";
    tokio = "embedding/tokio.md";
}
