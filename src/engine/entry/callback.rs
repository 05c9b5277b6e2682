//! A closure of any type in 32 bytes.
//!
//! A closure of up to 24 bytes, whose alignment is at most that of a pointer, is stored inline. Any other is boxed.

use std::any;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::task::Waker;

use super::state::{PERIODIC, VALUE, WAKER};
use crate::engine::deliveries::Deliveries;

/// A callback that runs more than once.
pub(crate) trait PeriodicCallback: Send {
    /// Makes the next run. Returns the tick of the run after it, or `None` to end.
    fn run(&mut self) -> Option<u64>;
    /// A reset has set the deadline of the next run, to the tick `due`.
    fn reset(&mut self, due: u64);
    /// Returns the name of the closure's type.
    fn type_name(&self) -> &'static str {
        any::type_name::<Self>()
    }
}

/// The purpose of a callback. Its number is its flag in the [state word](super::state).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum CallbackKind {
    /// It runs once.
    Once = 0,
    /// It runs more than once.
    Periodic = PERIODIC,
    /// It wakes a task.
    Waker = WAKER,
    /// It makes a value of a queue due.
    Value = VALUE,
}

/// The closure of a timer, owned and type-erased.
pub(crate) struct Callback {
    vtable: &'static VTable,
    data: Data,
}

type Data = MaybeUninit<[usize; 3]>;

/// The functions for the data of callbacks of one type, and their kind.
struct VTable {
    /// Runs the callback. A one-shot consumes the data; a periodic callback leaves it valid.
    run: unsafe fn(*mut Data, u64, &mut Deliveries) -> Option<u64>,
    /// Drops the data, which must be valid, and must not be used afterwards.
    drop: unsafe fn(*mut Data),
    /// Returns the name of the closure's type, which is not that of a box around it.
    type_name: fn() -> &'static str,
    kind: CallbackKind,
}

impl VTable {
    /// The data is a `T`, and its name that of `Named`.
    const fn new<T, Named>(kind: CallbackKind, run: unsafe fn(*mut Data, u64, &mut Deliveries) -> Option<u64>) -> Self {
        // SAFETY: we own a valid `T`, by the contract of the field.
        let drop = |data: *mut Data| unsafe { data.cast::<T>().drop_in_place() };
        Self { run, drop, type_name: any::type_name::<Named>, kind }
    }
}

impl Callback {
    /// Returns whether the data of a callback has room for a `T`: a closure of this type is stored inline.
    #[inline]
    pub(crate) const fn is_inline<T>() -> bool {
        mem::size_of::<T>() <= mem::size_of::<Data>() && mem::align_of::<T>() <= mem::align_of::<Data>()
    }

    /// Writes a callback that runs the closure `f` once to `destination`. `F` must be stored [inline](Self::is_inline).
    ///
    /// It writes field by field, straight to the destination. A callback that is built elsewhere and then copied costs
    /// a store forwarding stall: a read of 16 bytes that were written as two times 8 waits until they are in the
    /// processor's cache.
    ///
    /// # Safety
    /// `destination` must be valid for writes, and `f` for reads; `F` must be stored inline. The caller must not use
    /// the closure afterwards, unless it treats `destination` as uninitialised.
    ///
    /// `Named` is the type that [`type_name`](Self::type_name) names.
    #[inline]
    pub(crate) unsafe fn write_once<F: FnOnce() + Send + 'static, Named>(destination: *mut Self, f: *const F) {
        debug_assert!(Self::is_inline::<F>());
        let vtable = const {
            &VTable::new::<F, Named>(CallbackKind::Once, |data, _, _| {
                // SAFETY: we own the `F`, because `run` calls this once, and does not use the data afterwards.
                let f = unsafe { data.cast::<F>().read() };
                f();
                None
            })
        };
        // SAFETY: the pointers are valid and `F` fits, by this function's contract; the vtable is for `F`.
        unsafe { Self::write_parts(destination, vtable, f) };
    }

    /// Returns a callback that runs more than once.
    pub(crate) fn periodic(periodic: Box<dyn PeriodicCallback>) -> Self {
        let vtable = const {
            &VTable::new::<Box<dyn PeriodicCallback>, Box<dyn PeriodicCallback>>(
                CallbackKind::Periodic,
                |data, _, _| {
                    // SAFETY: we have the box to ourselves, because the caller has `&mut` to it.
                    unsafe { &mut *data.cast::<Box<dyn PeriodicCallback>>() }.run()
                },
            )
        };
        // SAFETY: a box fits, and the vtable is for it.
        unsafe { Self::new(periodic, vtable) }
    }

    /// Writes a callback that wakes a task to `destination`, as [`write_once`](Self::write_once) does.
    ///
    /// # Safety
    /// As for `write_once`, of the waker.
    #[inline]
    pub(crate) unsafe fn write_waking(destination: *mut Self, waker: *const Waker) {
        const { assert!(Self::is_inline::<Waker>()) };
        let vtable = const {
            &VTable::new::<Waker, Waker>(CallbackKind::Waker, |data, _, _| {
                // SAFETY: we own the waker, because `run` calls this once, and does not use the data afterwards.
                unsafe { data.cast::<Waker>().read() }.wake();
                None
            })
        };
        // SAFETY: by this function's contract; the vtable is for a waker, which fits.
        unsafe { Self::write_parts(destination, vtable, waker) };
    }

    /// Writes a callback with a copy of `value` as its data to `destination`.
    ///
    /// # Safety
    /// `destination` must be valid for writes, and `value` for reads. `T` must fit, and `vtable` must be for `T`.
    #[inline]
    unsafe fn write_parts<T>(destination: *mut Self, vtable: &'static VTable, value: *const T) {
        // SAFETY: by this function's contract.
        unsafe {
            (&raw mut (*destination).vtable).write(vtable);
            (&raw mut (*destination).data).cast::<T>().copy_from_nonoverlapping(value, 1);
        }
    }

    /// Returns a callback that makes a value of a queue due. The closure, which must fit, is called with the tick of the
    /// deadline, and adds the value to the deliveries.
    #[inline]
    pub(crate) fn value<F: FnOnce(u64, &mut Deliveries) + Send + 'static>(f: F) -> Self {
        const { assert!(Self::is_inline::<F>()) };
        let vtable = const {
            &VTable::new::<F, F>(CallbackKind::Value, |data, due, deliveries| {
                // SAFETY: we own the `F`, because `run` calls this once, and does not use the data afterwards.
                let f = unsafe { data.cast::<F>().read() };
                f(due, deliveries);
                None
            })
        };
        // SAFETY: the closure fits, and the vtable is for it.
        unsafe { Self::new(f, vtable) }
    }

    /// Returns whether the callback wakes the same task as `waker`.
    #[inline]
    pub(super) fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: the data is a waker, because only `write_waking` makes a callback of this kind.
        self.kind() == CallbackKind::Waker && unsafe { &*self.data.as_ptr().cast::<Waker>() }.will_wake(waker)
    }

    /// Returns a callback with `value` as its data.
    ///
    /// # Safety
    /// `T` must fit, and `vtable` must be for `T`.
    #[inline]
    unsafe fn new<T>(value: T, vtable: &'static VTable) -> Self {
        let mut data = Data::uninit();
        // SAFETY: `T` fits, by this function's contract.
        unsafe { data.as_mut_ptr().cast::<T>().write(value) };
        Self { vtable, data }
    }

    #[inline]
    pub(crate) fn kind(&self) -> CallbackKind {
        self.vtable.kind
    }

    /// Returns the name of the closure's type.
    pub(crate) fn type_name(&self) -> &'static str {
        if self.kind() != CallbackKind::Periodic {
            return (self.vtable.type_name)();
        }
        // SAFETY: the data is the box that `periodic` wrote, because only that makes a callback of this kind.
        unsafe { &*self.data.as_ptr().cast::<Box<dyn PeriodicCallback>>() }.type_name()
    }

    /// Runs a one-shot callback, or makes the last run of a periodic one.
    pub(crate) fn run(self) {
        self.deliver(0, &mut Deliveries::default());
    }

    /// As [`run`](Self::run). A value of a queue becomes due with the tick `due`, and is added to `deliveries`. Other
    /// callbacks use neither.
    #[inline]
    pub(crate) fn deliver(mut self, due: u64, deliveries: &mut Deliveries) {
        if self.kind() == CallbackKind::Periodic {
            self.run_again();
        } else {
            let mut this = ManuallyDrop::new(self);
            // SAFETY: the vtable is for the data. We own the data, because `ManuallyDrop` leaves it to `run`, which
            // consumes it.
            unsafe { (this.vtable.run)(&mut this.data, due, deliveries) };
        }
    }

    /// Makes the next run of a periodic callback. Returns the tick of the run after it, or `None` to end.
    ///
    /// # Panics
    /// If the callback is a one-shot.
    pub(crate) fn run_again(&mut self) -> Option<u64> {
        assert!(self.kind() == CallbackKind::Periodic, "a one-shot callback runs once");
        // SAFETY: the vtable is for the data, which we have to ourselves. The `run` of a periodic callback leaves it
        // valid.
        unsafe { (self.vtable.run)(&mut self.data, 0, &mut Deliveries::default()) }
    }

    /// Tells a periodic callback that a reset has set the deadline of its next run.
    #[cold]
    pub(super) fn note_reset(&mut self, due: u64) {
        if self.kind() == CallbackKind::Periodic {
            // SAFETY: we have the box that `periodic` wrote to ourselves, because only that makes a callback of this
            // kind.
            unsafe { &mut *self.data.as_mut_ptr().cast::<Box<dyn PeriodicCallback>>() }.reset(due);
        }
    }

    /// Returns the periodic callback as the type that it was made of.
    ///
    /// # Safety
    /// The callback must have been made by [`periodic`](Self::periodic), of a box of an `R`.
    pub(crate) unsafe fn into_periodic<R: PeriodicCallback>(self) -> R {
        let this = ManuallyDrop::new(self);
        // SAFETY: we own the box of an `R` that `periodic` wrote, because `ManuallyDrop` keeps `self` from dropping it.
        unsafe {
            let periodic = this.data.as_ptr().cast::<Box<dyn PeriodicCallback>>().read();
            *Box::from_raw(Box::into_raw(periodic).cast::<R>())
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: the vtable is for the data. We own the data, because no other function drops it or moves it out of a
        // callback that is dropped.
        unsafe { (self.vtable.drop)(&mut self.data) }
    }
}

// SAFETY: the data is `Send`, because the constructors accept only closures, boxes and wakers that are.
unsafe impl Send for Callback {}
