//! Memory straight from the system, which can be given back a page at a time.

use std::alloc::{self, Layout};
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// A slice of values in pages that the system provides, filled with zeros, when they are first touched.
pub(crate) struct Pages<T> {
    map: MmapMut,
    values: NonNull<[T]>,
}

impl<T> Pages<T> {
    /// `len` values as `zero` makes them: here it is not called, as the system has them ready.
    ///
    /// # Safety
    /// What `zero` makes must be as good with all its bytes zero; `T` must not need dropping; and the slice must have a
    /// size.
    pub(crate) unsafe fn new(len: usize, _zero: fn() -> T) -> Self {
        let layout = Layout::array::<T>(len).expect("a slab fits the address space");
        assert!(layout.align() <= 4096, "a page is aligned well enough");
        let mut map = MmapMut::map_anon(layout.size()).unwrap_or_else(|_| alloc::handle_alloc_error(layout));
        let first = NonNull::new(map.as_mut_ptr().cast()).expect("a map has an address");
        Self { map, values: NonNull::slice_from_raw_parts(first, len) }
    }

    /// Gives the whole pages in a range of the values back to the system. They are provided anew when they are touched.
    ///
    /// # Safety
    /// Nobody may use these values in the meantime, but for atomic reads of what does not matter; and they must be as
    /// good as with all their bytes zero, which they are afterwards, or not.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        {
            let page = page_size();
            let start = (range.start * size_of::<T>()).next_multiple_of(page);
            let end = range.end * size_of::<T>() / page * page;
            if start < end {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: by this function's contract. A refusal leaves everything as it was.
                let _ = unsafe { self.map.unchecked_advise_range(advice, start, end - start) };
            }
        }
        // Elsewhere the system has no such call, or one that promises less.
        #[cfg(not(target_os = "linux"))]
        let _ = (&self.map, range);
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

/// The size of a page of memory.
#[cfg(target_os = "linux")]
fn page_size() -> usize {
    // SAFETY: it only asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("a page has a size")
}
