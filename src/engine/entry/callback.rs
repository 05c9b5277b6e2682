//! A closure of any type in 32 bytes.
//!
//! A closure of up to 24 bytes, whose alignment is at most that of a pointer, is stored inline. Any other is boxed.

use std::any;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::task::Waker;

use super::parts::{PERIODIC, VALUE, WAKER};
use crate::engine::deliveries::Deliveries;

/// A callback that runs more than once.
pub(crate) trait PeriodicCallback: Send {
    /// Makes the next run. Returns the tick of the run after it, or `None` to end.
    fn run(&mut self) -> Option<u64>;
    /// A reset has set the deadline of the next run, to the tick `due`.
    fn reset(&mut self, due: u64);
}

/// The purpose of a callback. Its number is its flag in the [state word](super::State).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    pub(crate) vtable: Table,
    pub(super) data: Data,
}

/// What a callback owns: a closure, a box or a waker.
pub(crate) type Data = MaybeUninit<[usize; 3]>;

/// The table of a callback, which is never freed.
pub(crate) type Table = &'static VTable;

type Run = unsafe fn(*mut Data, u64, &mut Deliveries);

/// The functions for the data of callbacks of one type, and their kind.
pub(crate) struct VTable {
    /// Runs the callback for the last time, and consumes the data.
    run: Run,
    /// Drops the data, which must be valid, and must not be used afterwards.
    pub(super) drop: unsafe fn(*mut Data),
    /// Returns the name of the closure's type, which is not that of a box around it. For a value of a queue, that of the
    /// value's type.
    pub(super) type_name: fn() -> &'static str,
    pub(super) kind: CallbackKind,
}

impl VTable {
    /// The data is a `T`.
    const fn new<T>(kind: CallbackKind, type_name: fn() -> &'static str, run: Run) -> Self {
        // SAFETY: we own a valid `T`, by the contract of the field.
        let drop = |data: *mut Data| unsafe { data.cast::<T>().drop_in_place() };
        Self { run, drop, type_name, kind }
    }

    /// Returns the name of the closure's type, or `None` for a waker or a value of a queue.
    pub(crate) fn closure_name(&self) -> Option<&'static str> {
        matches!(self.kind, CallbackKind::Once | CallbackKind::Periodic).then(self.type_name)
    }
}

impl Callback {
    /// Returns whether the data of a callback has room for a `T`: a closure of this type is stored inline.
    #[inline]
    pub(crate) const fn is_inline<T>() -> bool {
        mem::size_of::<T>() <= mem::size_of::<Data>() && mem::align_of::<T>() <= mem::align_of::<Data>()
    }

    /// Writes the data of a callback that runs the closure `f` once to `data`, and returns its table. `F` must be stored
    /// [inline](Self::is_inline).
    ///
    /// It writes straight to the destination. A callback that is built elsewhere and then copied costs a store forwarding
    /// stall: a read of 16 bytes that were written as two times 8 waits until they are in the processor's cache.
    ///
    /// # Safety
    /// `data` must be valid for writes, and `f` for reads; `F` must be stored inline. The caller must not use the closure
    /// afterwards, unless it treats `data` as uninitialised.
    ///
    /// `Named` is the type that [`type_name`](Self::type_name) names.
    #[inline]
    pub(crate) unsafe fn write_once<F: FnOnce() + Send + 'static, Named>(data: *mut Data, f: *const F) -> Table {
        debug_assert!(Self::is_inline::<F>());
        // SAFETY: the pointers are valid and `F` fits, by this function's contract.
        unsafe { data.cast::<F>().copy_from_nonoverlapping(f, 1) };
        const {
            &VTable::new::<F>(CallbackKind::Once, any::type_name::<Named>, |data, _, _| {
                // SAFETY: we own the `F`, because `run` calls this once, and does not use the data afterwards.
                let f = unsafe { data.cast::<F>().read() };
                f();
            })
        }
    }

    /// Returns a callback that runs the closure `f` once, which must be stored inline. For tests.
    #[cfg(any(test, loom))]
    pub(crate) fn once<F: FnOnce() + Send + 'static, Named>(f: F) -> Self {
        let (f, mut data) = (ManuallyDrop::new(f), Data::uninit());
        // SAFETY: the closure is stored inline, which `write_once` asserts, and is not used afterwards.
        let vtable = unsafe { Self::write_once::<F, Named>(&mut data, &*f) };
        Self { vtable, data }
    }

    /// Copies the data of the callback to `data`, and returns its table.
    ///
    /// # Safety
    /// `data` must be valid for writes. The caller must not use the callback afterwards, unless it treats `data` as
    /// uninitialised.
    #[inline]
    pub(crate) unsafe fn write(&self, data: *mut Data) -> Table {
        // SAFETY: the pointer is valid, by this function's contract.
        unsafe { data.copy_from_nonoverlapping(&self.data, 1) };
        self.vtable
    }

    /// Returns a callback that runs more than once, of the closure type `Named`.
    pub(crate) fn periodic<Named>(periodic: Box<dyn PeriodicCallback>) -> Self {
        let vtable = const {
            &VTable::new::<Box<dyn PeriodicCallback>>(CallbackKind::Periodic, any::type_name::<Named>, |data, _, _| {
                // SAFETY: we own the box, because `run` calls this once, and does not use the data afterwards.
                unsafe { data.cast::<Box<dyn PeriodicCallback>>().read() }.run();
            })
        };
        // SAFETY: a box fits, and the vtable is for it.
        unsafe { Self::new(periodic, vtable) }
    }

    /// Writes the data of a callback that wakes a task to `data`, and returns its table, as
    /// [`write_once`](Self::write_once) does.
    ///
    /// # Safety
    /// As for `write_once`, of the waker.
    #[inline]
    pub(crate) unsafe fn write_waking(data: *mut Data, waker: *const Waker) -> Table {
        const { assert!(Self::is_inline::<Waker>()) };
        // SAFETY: the pointers are valid, by this function's contract, and a waker fits.
        unsafe { data.cast::<Waker>().copy_from_nonoverlapping(waker, 1) };
        const {
            &VTable::new::<Waker>(CallbackKind::Waker, any::type_name::<Waker>, |data, _, _| {
                // SAFETY: we own the waker, because `run` calls this once, and does not use the data afterwards.
                unsafe { data.cast::<Waker>().read() }.wake();
            })
        }
    }

    /// Returns a callback that makes a value of a queue due, of the type `Named`. The closure, which must fit, is called
    /// with the tick of the deadline, and adds the value to the deliveries.
    #[inline]
    pub(crate) fn value<F: FnOnce(u64, &mut Deliveries) + Send + 'static, Named>(f: F) -> Self {
        const { assert!(Self::is_inline::<F>()) };
        let vtable = const {
            &VTable::new::<F>(CallbackKind::Value, any::type_name::<Named>, |data, due, deliveries| {
                // SAFETY: we own the `F`, because `run` calls this once, and does not use the data afterwards.
                let f = unsafe { data.cast::<F>().read() };
                f(due, deliveries);
            })
        };
        // SAFETY: the closure fits, and the vtable is for it.
        unsafe { Self::new(f, vtable) }
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
        (self.vtable.type_name)()
    }

    /// Runs a one-shot callback, or makes the last run of a periodic one.
    pub(crate) fn run(self) {
        self.deliver(0, &mut Deliveries::default());
    }

    /// As [`run`](Self::run). A value of a queue becomes due with the tick `due`, and is added to `deliveries`. Other
    /// callbacks use neither.
    #[inline]
    pub(crate) fn deliver(self, due: u64, deliveries: &mut Deliveries) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the vtable is for the data. We own the data, because `ManuallyDrop` leaves it to `run`, which consumes
        // it.
        unsafe { (this.vtable.run)(&mut this.data, due, deliveries) };
    }

    /// Makes the next run of a periodic callback. Returns the tick of the run after it, or `None` to end.
    ///
    /// # Panics
    /// If the callback is a one-shot.
    pub(crate) fn run_again(&mut self) -> Option<u64> {
        self.as_periodic().expect("a one-shot callback runs once").run()
    }

    /// Tells a periodic callback that a reset has set the deadline of its next run.
    #[cold]
    pub(super) fn note_reset(&mut self, due: u64) {
        if let Some(periodic) = self.as_periodic() {
            periodic.reset(due);
        }
    }

    /// Returns the box of a periodic callback, or `None` for one of another kind.
    fn as_periodic(&mut self) -> Option<&mut Box<dyn PeriodicCallback>> {
        let is_periodic = self.kind() == CallbackKind::Periodic;
        // SAFETY: we have the box that `periodic` wrote to ourselves, because only that makes a callback of this kind.
        is_periodic.then(|| unsafe { &mut *self.data.as_mut_ptr().cast() })
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
