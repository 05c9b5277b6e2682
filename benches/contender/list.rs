//! The list of contenders.

use super::interface::FromContender;
use super::{async_io, b_tree, corewheel, hash_wheel, heap, kestrel, pingora, sharded_heap, sleep, tokio};

/// Returns all contenders, each converted by the benchmark's [`FromContender`].
pub fn all<E: FromContender>() -> Vec<E> {
    vec![
        E::from_contender::<corewheel::CoreWheel>(),
        E::from_contender::<sleep::CoreSleep>(),
        E::from_contender::<heap::HeapTimer>(),
        E::from_contender::<sharded_heap::ShardedHeap>(),
        E::from_contender::<b_tree::BTreeTimer>(),
        E::from_contender::<tokio::TokioSleep>(),
        #[cfg(tokio_unstable)]
        E::from_contender::<tokio::TokioSleep<true>>(),
        E::from_contender::<async_io::AsyncIo>(),
        E::from_contender::<pingora::FastTimeout>(),
        E::from_contender::<kestrel::Kestrel>(),
        E::from_contender::<hash_wheel::HashWheel>(),
    ]
}
