//! Detects unordered accesses to plain memory.
//!
//! loom does not notice that a plain allocation is read too early or too late. It notices that a [`RaceDetector`] in
//! that allocation is created or dropped without an order against a read.

use crate::sync::UnsafeCell;

/// A part of a value. Each reader of the value reads it; the thread that creates or frees the value writes it.
pub(crate) struct RaceDetector(UnsafeCell<()>);

impl RaceDetector {
    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: loom checks that no two threads access the cell without an order.
unsafe impl Send for RaceDetector {}
// SAFETY: as above.
unsafe impl Sync for RaceDetector {}

impl Default for RaceDetector {
    fn default() -> Self {
        let race_detector = Self(UnsafeCell::new(()));
        race_detector.write();
        race_detector
    }
}

impl Drop for RaceDetector {
    fn drop(&mut self) {
        self.write();
    }
}
