//! The crate's `queue`, without delay queues: no workload has one.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::shard::Shard;

pub(crate) struct DelayQueue<T>(PhantomData<T>);

pub(crate) struct Home;

pub(crate) struct OpenQueues;

impl<T> DelayQueue<T> {
    pub(crate) fn open(_home: Home, _queues: &OpenQueues, _is_closed: impl Fn() -> bool) -> Self {
        Self(PhantomData)
    }
}

impl Home {
    pub(crate) fn new(_service: u64, _shards: &[Arc<Shard>]) -> Self {
        Self
    }
}

impl OpenQueues {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn close(&self) {}
}
