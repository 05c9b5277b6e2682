//! Cheap random numbers.

use std::ops::Range;

/// A generator of random numbers (xorshift) with the same sequence in every run.
pub struct Random(u64);

impl Random {
    /// Returns a generator whose sequence depends on `seed`.
    pub fn new(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed as u64 + 1))
    }

    /// Returns the next number, which is in `range`.
    pub fn next(&mut self, range: Range<u64>) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let width = u128::from(range.end - range.start);
        range.start + ((u128::from(self.0) * width) >> 64) as u64
    }
}
