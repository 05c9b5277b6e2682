//! `ExpiredEntries`: the timers that expire in a turn, sorted by what becomes of them.

use super::entry::CallbackKind;
use crate::sync::limit;

/// Maximum number of entries that expire in a turn.
pub(super) const MAX_EXPIRED: usize = limit(256);

/// Dispatched entries of each kind, in the order of their deadlines.
#[derive(Default)]
pub(crate) struct ExpiredEntries {
    /// The tick at which they expired.
    pub(crate) tick: u64,
    /// The executor runs these.
    pub(crate) callbacks: Vec<u32>,
    pub(crate) wakers: Vec<u32>,
    pub(crate) values: Vec<u32>,
}

impl ExpiredEntries {
    /// Adds an entry whose callback has this kind, at the tick of the round.
    pub(super) fn push(&mut self, kind: CallbackKind, index: u32, tick: u64) {
        self.tick = tick;
        let list = match kind {
            CallbackKind::Once | CallbackKind::Periodic => &mut self.callbacks,
            CallbackKind::Waker => &mut self.wakers,
            CallbackKind::Value => &mut self.values,
        };
        if list.is_empty() {
            list.reserve(MAX_EXPIRED);
        }
        list.push(index);
    }

    pub(crate) fn len(&self) -> usize {
        self.callbacks.len() + self.wakers.len() + self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all entries, of whatever kind.
    pub(crate) fn into_all(self) -> impl Iterator<Item = u32> {
        self.callbacks.into_iter().chain(self.wakers).chain(self.values)
    }
}
