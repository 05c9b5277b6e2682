//! Replaces `std::sync::atomic` by types that record their accesses.

use std::fmt;
pub use std::sync::atomic::{Ordering, compiler_fence};

use crate::count::record;
use crate::mesi::Access::{Read, Write};
use crate::schedule;

/// A fence accesses no line, but a turn may end before it.
pub fn fence(order: Ordering) {
    schedule::yield_perhaps();
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident $(<$generic:ident>)?, $value:ty) => {
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name $(<$generic>)? (std::sync::atomic::$name $(<$generic>)?);

        impl $(<$generic>)? $name $(<$generic>)? {
            #[inline]
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            pub(crate) fn address(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }

            #[allow(dead_code, reason = "only some types use it")]
            pub(crate) fn unrecorded(&self) -> &std::sync::atomic::$name $(<$generic>)? {
                &self.0
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                record(self.address(), size_of::<Self>(), Read);
                self.0.load(order)
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                record(self.address(), size_of::<Self>(), Write);
                self.0.store(value, order);
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                record(self.address(), size_of::<Self>(), Write);
                self.0.swap(value, order)
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                record(self.address(), size_of::<Self>(), Write);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Never fails spuriously, as on x86.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut value = self.load(fetch);
                while let Some(new) = f(value) {
                    match self.compare_exchange_weak(value, new, set, fetch) {
                        Ok(value) => return Ok(value),
                        Err(seen) => value = seen,
                    }
                }
                Err(value)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl $(<$generic>)? fmt::Debug for $name $(<$generic>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$generic>)? From<$value> for $name $(<$generic>)? {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

/// Implements read-modify-writes.
macro_rules! modify {
    ($name:ident, $value:ty: $($method:ident),*) => {
        impl $name {
            $(
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    record(self.address(), size_of::<Self>(), Write);
                    self.0.$method(value, order)
                }
            )*
        }
    };
}

macro_rules! integer {
    ($($name:ident, $value:ty;)*) => {
        $(
            atomic!($name, $value);
            modify!($name, $value: fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_min, fetch_max);
        )*
    };
}

integer! {
    AtomicI32, i32;
    AtomicI64, i64;
    AtomicIsize, isize;
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}
atomic!(AtomicBool, bool);
modify!(AtomicBool, bool: fetch_and, fetch_or, fetch_xor);
atomic!(AtomicPtr<T>, *mut T);
