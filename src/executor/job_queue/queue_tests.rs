//! Unit tests of `queue`.

use super::*;
use crate::executor::batch::tests::Callbacks;

/// A ticket spawns the next one before it drops what it has found exhausted: that may be the last reference to a shard, and
/// take long.
#[test]
fn a_ticket_spawns_another_before_it_drops_a_batch() {
    /// Has nothing left to start.
    struct Exhausted(Arc<Mutex<Vec<&'static str>>>);
    impl Batch for Exhausted {
        fn run(&self, _: &dyn Fn()) {}

        fn is_exhausted(&self) -> bool {
            true
        }

        fn into_singles(self) -> impl Iterator<Item = Self> {
            std::iter::empty()
        }
    }
    impl Drop for Exhausted {
        fn drop(&mut self) {
            lock(&self.0).push("drop");
        }
    }
    let queue = JobQueue::new(0);
    let log = Arc::<Mutex<Vec<_>>>::default();
    let long_ago = Instant::now() - Duration::from_secs(1);
    let logs = log.clone();
    let late = Callbacks::of(1, move || lock(&logs).push("run"));
    queue.push(Arc::new(Exhausted(log.clone())), long_ago);
    queue.push(Arc::new(late), long_ago);
    queue.run_ticket(|| lock(&log).push("spawn"));
    assert_eq!(*lock(&log), ["spawn", "drop", "run"]);
}
