//! Memory that is mapped from the system, and goes back page by page.
//!
//! | system         | a discarded page goes back                               | by                   |
//! |----------------|----------------------------------------------------------|----------------------|
//! | Linux, Android | at once                                                  | `MADV_DONTNEED`      |
//! | macOS, iOS     | when another process needs memory                        | `MADV_FREE_REUSABLE` |
//! | others         | when the shard is freed; until then, later timers use it | the end of the map   |
//!
//! On macOS and iOS, a discarded page stops counting as this process's memory at once.
//!
//! Windows is among the others, because `DiscardVirtualMemory` leaves memory with undefined contents. Other threads may
//! still read discarded entries, so their words must stay readable.

use std::alloc::Layout;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::slice;

use memmap2::{MmapMut, MmapRaw};

/// A slice of values in mapped pages. The system provides each page, filled with zeros, when it is first touched.
pub(crate) struct Pages<T> {
    map: MmapRaw,
    len: usize,
    owns: PhantomData<T>,
}

impl<T> Pages<T> {
    /// Maps `len` values. Fails if the system refuses. The system fills the pages with zeros, so `zero`, by
    /// which loom's replacement makes a value, is not called here.
    ///
    /// # Safety
    /// All bytes zero must be a valid `T` and equivalent to what `zero` returns. `T` must not need dropping. The size
    /// of the slice must not be zero.
    pub(crate) unsafe fn new(len: usize, _zero: fn() -> T) -> io::Result<Self> {
        let layout = Layout::array::<T>(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        assert!(layout.align() <= 4096, "a page is aligned for `T`");
        Ok(Self { map: MmapMut::map_anon(layout.size())?.into(), len, owns: PhantomData })
    }

    /// Gives back to the system the pages that lie completely in a range of the values. The system provides them anew
    /// when they are touched.
    ///
    /// # Safety
    /// No thread may use these values until they are [reused](Self::reuse), except for atomic reads whose results do
    /// not matter. The values must be equivalent to all bytes zero: afterwards each page has either been zeroed or not.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let advice = memmap2::UncheckedAdvice::DontNeed;
        #[cfg(target_vendor = "apple")]
        let advice = memmap2::UncheckedAdvice::FreeReusable;
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        // SAFETY: the values may become zero, because of this function's contract: no thread uses them, except for
        // reads whose results do not matter.
        unsafe {
            self.advise(advice, range)
        };
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        let _ = (&self.map, range);
    }

    /// Takes back values that were [discarded](Self::discard). Must be called before they are used.
    ///
    /// # Safety
    /// The values must have been discarded.
    pub(crate) unsafe fn reuse(&self, range: Range<usize>) {
        // Apple's systems count the pages as this process's again.
        #[cfg(target_vendor = "apple")]
        // SAFETY: the advice has no preconditions on the values, because it changes none.
        unsafe {
            self.advise(memmap2::UncheckedAdvice::FreeReuse, range)
        };
        #[cfg(not(target_vendor = "apple"))]
        let _ = range;
    }

    /// Gives the system advice about the pages that lie completely in a range of the values.
    ///
    /// # Safety
    /// The caller must fulfil the conditions of the advice.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    unsafe fn advise(&self, advice: memmap2::UncheckedAdvice, range: Range<usize>) {
        let page = page_size();
        let start = (range.start * size_of::<T>()).next_multiple_of(page);
        let end = range.end * size_of::<T>() / page * page;
        if start < end {
            // SAFETY: the conditions of the advice hold, because of this function's contract. A refusal changes
            // nothing.
            let _ = unsafe { self.map.unchecked_advise_range(advice, start, end - start) };
        }
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: we own the map until the drop, and it is aligned. It has valid values, because it was filled with
        // zeros, which `new`'s contract makes valid, and later writes were of values.
        unsafe { slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }
}

/// Returns the size of a page of memory in bytes.
pub(crate) fn page_size() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: the call has no preconditions, because it only returns a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).expect("a page has a size")
    }
    // No memory goes back on this system, so 4 KiB will do.
    #[cfg(not(unix))]
    4096
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_that_is_too_large_is_refused() {
        // Two of these fill the address space. Where a pointer has 32 bits, one of them may fit.
        // SAFETY: all bytes zero are the number that the closure returns.
        let huge = || unsafe { Pages::<u64>::new(usize::MAX / 16, || 0) };
        let (first, second) = (huge(), huge());
        assert!(first.is_err() || second.is_err());
        drop((first, second));
        // SAFETY: as above.
        let pages = unsafe { Pages::<u64>::new(1000, || 0) }.expect("some memory");
        assert!(pages.iter().all(|&number| number == 0));
    }
}
