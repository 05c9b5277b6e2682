//! One source, with tokio's names, on tokio's timers and on corewheel's: only the `use` line differs.

mod with_tokio {
    use tokio::time;

    include!("names/same.rs");
}

mod with_corewheel {
    use corewheel::time;

    include!("names/same.rs");
}

/// Without a runtime: tokio's futures would panic.
#[test]
fn no_runtime_is_needed() {
    use corewheel::time::{Duration, Instant, sleep};

    let start = Instant::now();
    futures::executor::block_on(sleep(Duration::from_millis(5)));
    assert!(start.elapsed() >= Duration::from_millis(5));
}
