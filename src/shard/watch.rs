//! The driver's eye on batches that take long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use crate::executor::Hands;

/// After this time a batch gets more workers: a default tick, as a driver that is awake for the next one looks for
/// nothing.
const PATIENCE: Duration = Duration::from_millis(1);

/// Batches in the hands of one worker each, and when that will have had them for long. The oldest is at the front.
#[derive(Default)]
pub(crate) struct Watch(VecDeque<(Instant, Arc<Batch>)>);

impl Watch {
    /// Watches a batch that was handed over just now.
    pub(crate) fn add(&mut self, batch: Arc<Batch>) {
        if !batch.is_spent() {
            self.0.push_back((Instant::now() + PATIENCE, batch));
        }
    }

    /// Calls for help with what takes too long, and returns for how long nothing else will.
    pub(crate) fn look(&mut self, hands: &Hands) -> Option<Duration> {
        while let Some((patience_ends, batch)) = self.0.front_mut() {
            if !batch.is_spent() {
                let now = Instant::now();
                if !batch.is_begun() {
                    // All workers are busy, and come to it in turn.
                    *patience_ends = now + PATIENCE;
                }
                let patience = patience_ends.saturating_duration_since(now);
                if !patience.is_zero() {
                    return Some(patience);
                }
                hands.help(batch.clone());
            }
            self.0.pop_front();
        }
        None
    }
}
