//! A closure of any type, in 32 bytes: inline if it takes up to 24 bytes and is aligned as a pointer, boxed whole otherwise.

use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::task::Waker;

/// A callback that runs more than once.
pub(crate) trait PeriodicCallback: Send {
    /// Makes the run for `due`, a tick, and returns the tick of the next, or `None` to end.
    fn run(&mut self, due: u64) -> Option<u64>;
}

/// What a callback is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It runs once.
    Once,
    /// It runs again and again.
    Periodic,
    /// It wakes a task.
    Waker,
    /// It makes a value of a queue due.
    Value,
}

/// The closure of a timer, owned.
pub(crate) struct Callback {
    kind: &'static Kind,
    data: Data,
}

type Data = MaybeUninit<[usize; 3]>;

/// What to do with the data of a callback of one type.
struct Kind {
    /// Runs a one-shot, which consumes the data; makes one run of a repeating one, which leaves it valid.
    run: unsafe fn(*mut Data, u64) -> Option<u64>,
    drop: unsafe fn(*mut Data),
    role: Role,
}

impl Kind {
    const fn once<F: FnOnce()>() -> Self {
        Self {
            run: |data, _| {
                // SAFETY: `Callback::run` calls this once, on an `F` that it forgets afterwards.
                let f = unsafe { data.cast::<F>().read() };
                f();
                None
            },
            drop: drop_data::<F>,
            role: Role::Once,
        }
    }

    const fn waking() -> Self {
        Self {
            run: |data, _| {
                // SAFETY: `Callback::run` calls this once, on the waker that `Callback::waking` wrote, and forgets it.
                let waker = unsafe { data.cast::<Waker>().read() };
                waker.wake();
                None
            },
            drop: drop_data::<Waker>,
            role: Role::Waker,
        }
    }

    const fn value<F: FnOnce(u64)>() -> Self {
        Self {
            run: |data, due| {
                // SAFETY: `Callback::run` calls this once, on the `F` that `Callback::value` wrote, and forgets it.
                let f = unsafe { data.cast::<F>().read() };
                f(due);
                None
            },
            drop: drop_data::<F>,
            role: Role::Value,
        }
    }

    const fn periodic() -> Self {
        Self {
            run: |data, due| {
                // SAFETY: the data is the box that `Callback::periodic` wrote, and the caller has it to itself.
                let periodic = unsafe { &mut *data.cast::<Box<dyn PeriodicCallback>>() };
                periodic.run(due)
            },
            drop: drop_data::<Box<dyn PeriodicCallback>>,
            role: Role::Periodic,
        }
    }
}

/// # Safety
/// The data must be a valid `T` that nobody uses afterwards.
unsafe fn drop_data<T>(data: *mut Data) {
    // SAFETY: by this function's contract.
    unsafe { data.cast::<T>().drop_in_place() }
}

impl Callback {
    /// A callback that runs once.
    #[cfg(any(test, loom))]
    pub(crate) fn once<F: FnOnce() + Send + 'static>(f: F) -> Self {
        if fits::<F>() {
            // SAFETY: it fits, and this is its kind.
            unsafe { Self::new(f, const { &Kind::once::<F>() }) }
        } else {
            // SAFETY: a box fits, and this is its kind.
            unsafe { Self::new(Box::new(f), const { &Kind::once::<Box<F>>() }) }
        }
    }

    /// Whether a closure of this type is stored in the callback itself.
    #[inline]
    pub(crate) const fn stores<F>() -> bool {
        fits::<F>()
    }

    /// Writes a callback that runs a [stored](Self::stores) closure once. Field by field, where it is to be: a read of 16
    /// bytes that were written as two times 8 waits until they are in the processor's cache.
    ///
    /// # Safety
    /// The place must be valid for writes, and the closure be stored. The caller must not use the closure any more, unless the
    /// callback is forgotten.
    #[inline]
    pub(crate) unsafe fn write_once<F: FnOnce() + Send + 'static>(place: *mut Self, f: *const F) {
        debug_assert!(fits::<F>());
        // SAFETY: by this function's contract, and this is the closure's kind.
        unsafe {
            (&raw mut (*place).kind).write(const { &Kind::once::<F>() });
            (&raw mut (*place).data).cast::<F>().copy_from_nonoverlapping(f, 1);
        }
    }

    /// Copies the callback to a place.
    ///
    /// # Safety
    /// The place must be valid for writes. The caller must not use the callback any more, unless the copy is forgotten.
    #[inline]
    pub(crate) unsafe fn write(&self, place: *mut Self) {
        // SAFETY: by this function's contract.
        unsafe { place.copy_from_nonoverlapping(self, 1) };
    }

    /// A callback that runs again and again.
    pub(crate) fn periodic(periodic: Box<dyn PeriodicCallback>) -> Self {
        // SAFETY: a box fits, and this is its kind.
        unsafe { Self::new(periodic, const { &Kind::periodic() }) }
    }

    /// A callback that wakes a task.
    #[inline]
    pub(crate) fn waking(waker: Waker) -> Self {
        const { assert!(fits::<Waker>()) };
        // SAFETY: it fits, and this is its kind.
        unsafe { Self::new(waker, const { &Kind::waking() }) }
    }

    /// A callback that makes a value of a queue due. The closure, which must be [stored](Self::stores), is called with the
    /// tick of the deadline.
    #[inline]
    pub(crate) fn value<F: FnOnce(u64) + Send + 'static>(f: F) -> Self {
        const { assert!(fits::<F>()) };
        // SAFETY: it fits, and this is its kind.
        unsafe { Self::new(f, const { &Kind::value::<F>() }) }
    }

    /// Whether it wakes the same task as this waker.
    #[inline]
    pub(crate) fn wakes(&self, waker: &Waker) -> bool {
        // SAFETY: the data of a callback in this role is a waker.
        self.role() == Role::Waker && unsafe { &*self.data.as_ptr().cast::<Waker>() }.will_wake(waker)
    }

    /// # Safety
    /// `T` must fit, and `kind` must be for `T`.
    #[inline]
    unsafe fn new<T>(value: T, kind: &'static Kind) -> Self {
        let mut data = Data::uninit();
        // SAFETY: it fits, by this function's contract.
        unsafe { data.as_mut_ptr().cast::<T>().write(value) };
        Self { kind, data }
    }

    #[inline]
    pub(crate) fn role(&self) -> Role {
        self.kind.role
    }

    /// Runs a one-shot callback, or makes one last run of a repeating one.
    pub(crate) fn run(mut self, due: u64) {
        if self.role() == Role::Periodic {
            self.run_again(due);
        } else {
            let mut this = ManuallyDrop::new(self);
            // SAFETY: the data is of this kind; a one-shot's `run` consumes it, and nobody drops it afterwards.
            unsafe { (this.kind.run)(&mut this.data, due) };
        }
    }

    /// Makes one run of a repeating callback, for `due`, and returns the tick of the next, or `None` to end.
    ///
    /// # Panics
    /// If the callback is a one-shot.
    pub(crate) fn run_again(&mut self, due: u64) -> Option<u64> {
        assert!(self.role() == Role::Periodic, "a one-shot callback runs once");
        // SAFETY: the data is of this kind, and a repeating callback's `run` leaves it valid.
        unsafe { (self.kind.run)(&mut self.data, due) }
    }

    /// The repeating callback itself.
    ///
    /// # Safety
    /// The callback must have been made by `periodic` of a box of `R`.
    pub(crate) unsafe fn into_periodic<R: PeriodicCallback>(self) -> R {
        let this = ManuallyDrop::new(self);
        // SAFETY: `periodic` wrote this box, of an `R`, and nobody drops it afterwards.
        unsafe {
            let periodic = this.data.as_ptr().cast::<Box<dyn PeriodicCallback>>().read();
            *Box::from_raw(Box::into_raw(periodic).cast::<R>())
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: the data is of this kind, valid, and dropped once.
        unsafe { (self.kind.drop)(&mut self.data) }
    }
}

// SAFETY: only closures and boxes that are `Send` are ever made into a callback.
unsafe impl Send for Callback {}

const fn fits<T>() -> bool {
    mem::size_of::<T>() <= mem::size_of::<Data>() && mem::align_of::<T>() <= mem::align_of::<Data>()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn holding(token: &Arc<()>) -> impl FnOnce() + Send + use<> {
        let token = token.clone();
        move || drop(token)
    }

    #[test]
    fn is_half_a_cache_line() {
        assert_eq!(mem::size_of::<Callback>(), 32);
    }

    #[test]
    fn small_and_large_closures_run_or_drop_once() {
        let token = Arc::new(());
        let large = |token: &Arc<()>| {
            let (f, ballast) = (holding(token), [7_u8; 100]);
            move || {
                assert_eq!(ballast[99], 7);
                f();
            }
        };
        Callback::once(holding(&token)).run(0);
        Callback::once(large(&token)).run(0);
        drop(Callback::once(holding(&token)));
        drop(Callback::once(large(&token)));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn a_stored_closure_is_written_in_place() {
        let token = Arc::new(());
        for runs in [false, true] {
            let f = ManuallyDrop::new(holding(&token));
            let mut callback = MaybeUninit::uninit();
            assert!(
                Callback::stores::<[usize; 3]>() && !Callback::stores::<[usize; 4]>() && !Callback::stores::<u128>()
            );
            // SAFETY: a closure of one pointer is stored, and not used any more.
            let callback = unsafe {
                Callback::write_once(callback.as_mut_ptr(), &*f);
                callback.assume_init()
            };
            assert_eq!((callback.role(), Arc::strong_count(&token)), (Role::Once, 2));
            if runs {
                callback.run(0);
            } else {
                drop(callback);
            }
            assert_eq!(Arc::strong_count(&token), 1);
        }
    }

    #[test]
    fn a_repeating_callback_tells_its_next_deadline() {
        struct Every {
            ticks: u64,
            _token: Arc<()>,
        }
        impl PeriodicCallback for Every {
            fn run(&mut self, due: u64) -> Option<u64> {
                Some(due + self.ticks)
            }
        }
        let token = Arc::new(());
        let mut callback = Callback::periodic(Box::new(Every { ticks: 3, _token: token.clone() }));
        assert_eq!(callback.role(), Role::Periodic);
        assert_eq!(callback.run_again(4), Some(7));
        callback.run(7);
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
