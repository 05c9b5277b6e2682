//! Memory straight from the system, which can be given back a page at a time.
//!
//! | system         | gives back                                                                                    |
//! |----------------|-----------------------------------------------------------------------------------------------|
//! | Linux, Android | at once (`MADV_DONTNEED`)                                                                      |
//! | macOS, iOS     | when another process needs memory; no longer counted as this process's at once (`MADV_FREE_REUSABLE`) |
//! | others         | nothing: memory stays with the process until the shard ends, and its next timers use it        |
//!
//! Windows is among the others, as its `DiscardVirtualMemory` leaves memory with undefined contents: the words of the
//! entries in it have to stay readable.

use std::alloc::Layout;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// A slice of values in pages that the system provides, filled with zeros, when they are first touched.
pub(crate) struct Pages<T> {
    map: MmapMut,
    values: NonNull<[T]>,
}

impl<T> Pages<T> {
    /// `len` values as `zero` makes them: here it is not called, as the system has them ready. `None` if the system
    /// refuses.
    ///
    /// # Safety
    /// What `zero` makes must be as good with all its bytes zero; `T` must not need dropping; and the slice must have a
    /// size.
    pub(crate) unsafe fn new(len: usize, _zero: fn() -> T) -> Option<Self> {
        let layout = Layout::array::<T>(len).ok()?;
        assert!(layout.align() <= 4096, "a page is aligned well enough");
        let mut map = MmapMut::map_anon(layout.size()).ok()?;
        let first = NonNull::new(map.as_mut_ptr().cast())?;
        Some(Self { map, values: NonNull::slice_from_raw_parts(first, len) })
    }

    /// Gives the whole pages in a range of the values back to the system. They are provided anew when they are touched.
    ///
    /// # Safety
    /// Nobody may use these values until they are [`reuse`](Self::reuse)d, but for atomic reads of what does not matter;
    /// and they must be as good as with all their bytes zero, which they are afterwards, or not, page by page.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: by this function's contract.
        unsafe {
            self.advise(memmap2::UncheckedAdvice::DontNeed, range);
        }
        #[cfg(target_vendor = "apple")]
        // SAFETY: by this function's contract.
        unsafe {
            self.advise(memmap2::UncheckedAdvice::FreeReusable, range);
        }
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        let _ = (&self.map, range);
    }

    /// Takes back what was [`discard`](Self::discard)ed, before it is used.
    ///
    /// # Safety
    /// The values must have been discarded.
    pub(crate) unsafe fn reuse(&self, range: Range<usize>) {
        // There the system keeps account of it.
        #[cfg(target_vendor = "apple")]
        // SAFETY: it changes no value.
        unsafe {
            self.advise(memmap2::UncheckedAdvice::FreeReuse, range);
        }
        #[cfg(not(target_vendor = "apple"))]
        let _ = range;
    }

    /// # Safety
    /// As the advice needs.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    unsafe fn advise(&self, advice: memmap2::UncheckedAdvice, range: Range<usize>) {
        let page = page_size();
        let start = (range.start * size_of::<T>()).next_multiple_of(page);
        let end = range.end * size_of::<T>() / page * page;
        if start < end {
            // SAFETY: by this function's contract. A refusal leaves everything as it was.
            let _ = unsafe { self.map.unchecked_advise_range(advice, start, end - start) };
        }
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the map is filled with zeros, which are valid values by `new`'s contract, or with what has been
        // written there since; it is aligned, and ours until the drop.
        unsafe { self.values.as_ref() }
    }
}

// SAFETY: it owns its values as a `Box<[T]>` does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

/// The size of a page of memory, in bytes.
pub(crate) fn page_size() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: it only asks for a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).expect("a page has a size")
    }
    // Nothing is given back there.
    #[cfg(not(unix))]
    4096
}

/// `Box::new`, or `None` if there is no memory for it.
pub(crate) fn try_box<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the layout has a size.
    let memory = NonNull::new(unsafe { std::alloc::alloc(Layout::new::<T>()) })?.cast::<T>();
    // SAFETY: it was allocated for a `T` as a box is, and is one after the write.
    unsafe {
        memory.write(value);
        Some(Box::from_raw(memory.as_ptr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_has_not_is_refused() {
        // SAFETY: zero is a number.
        assert!(unsafe { Pages::<u64>::new(usize::MAX / 16, || 0) }.is_none());
        // SAFETY: as above.
        let pages = unsafe { Pages::<u64>::new(1000, || 0) }.expect("some memory");
        assert!(pages.iter().all(|&number| number == 0));
    }
}
