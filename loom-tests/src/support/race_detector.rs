//! Memory that loom watches: loom does not see that a plain allocation is read too early or too late, but it sees that the
//! making or the drop of what is in it is not ordered against the reading.

use crate::sync::UnsafeCell;

/// Every reader of the value that it is a part of touches it; the thread that makes or frees that value changes it.
pub(crate) struct RaceDetector(UnsafeCell<()>);

impl RaceDetector {
    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: that is what loom watches.
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
